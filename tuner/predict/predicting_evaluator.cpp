// SPDX-License-Identifier: MIT
#include "tuner/predict/predicting_evaluator.h"

#include "core/operation.h"
#include "core/reject.h"
#include "model/l2/traffic_memo.h"
#include "tuner/predict/model_ranking.h"
#include <swr/constraints.h>
#include <swr/generator.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace swr {

WorkAhead::WorkAhead(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void WorkAhead::replace(std::deque<Task> tasks) {
  const std::lock_guard lock(mutex_);
  tasks_ = std::move(tasks);
  changed_.notify_all();
}

void WorkAhead::work(const std::stop_token& stop) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !tasks_.empty(); });
      if (stop.stop_requested()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

struct PredictingEvaluator::Impl {
  Impl(GpuProfile gpu, int threads) : profile(std::move(gpu)), ahead(threads) {}

  Predictor& predictor(const Operation& operation) {
    const std::lock_guard lock(predictors_mutex);
    std::unique_ptr<Predictor>& known = predictors[&operation];
    if (!known) {
      known = make_predictor(operation, profile);
    }
    if (!known) {
      reject("there is no model of operation " + std::string(operation.name()) +
             "; tune it on a GPU, without --gpu");
    }
    return *known;
  }

  /// Why a kernel cannot be predicted; empty when it can.
  std::optional<std::string> refusal(const Problem& problem, const Variant& variant,
                                     const KernelResources& resources, int ctas_per_sm) {
    if (const auto violated = check_compiled(problem, variant, profile.device, resources)) {
      return violated->constraint + ": " + violated->reason;
    }
    const auto beyond = predictor(problem.operation()).beyond_limits(problem, variant, ctas_per_sm);
    return beyond ? std::optional("model_limits: " + *beyond) : std::nullopt;
  }

  /// Walks what evaluate() will ask for.
  void prepare(const Problem& problem, const Variant& variant, const KernelResources& resources) {
    try {
      if (check_compiled(problem, variant, profile.device, resources)) {
        return;
      }
      const int ctas_per_sm = occupancy(resources, problem, variant, profile.device).ctas_per_sm;
      predictor(problem.operation()).prepare(problem, variant, ctas_per_sm);
    } catch (...) {
      return;  // evaluate() meets the same error and hands it to the one who asks.
    }
  }

  GpuProfile profile;
  std::mutex predictors_mutex;
  std::map<const Operation*, std::unique_ptr<Predictor>> predictors;
  /// Last, so that its threads end before what they use.
  WorkAhead ahead;
};

PredictingEvaluator::PredictingEvaluator(GpuProfile profile, int threads)
    : impl_(std::make_unique<Impl>(std::move(profile), threads)) {}

PredictingEvaluator::~PredictingEvaluator() = default;

const DeviceInfo& PredictingEvaluator::device() const { return impl_->profile.device; }

Predictor& PredictingEvaluator::predictor(const Problem& problem) {
  return impl_->predictor(problem.operation());
}

VariantResult PredictingEvaluator::evaluate(const Problem& problem, const Variant& variant,
                                            const CompiledKernel& kernel) {
  VariantResult result;
  result.variant = variant;
  result.resources = kernel.resources;
  result.smem_bytes = smem_bytes(problem, variant);
  result.ctas_per_sm = occupancy(kernel.resources, problem, variant, device()).ctas_per_sm;
  result.cubin_digest = kernel.cubin_digest;
  result.outcome = Prediction{};
  if (auto refused = impl_->refusal(problem, variant, kernel.resources, result.ctas_per_sm)) {
    result.state = ResultState::constraint;
    result.detail = *std::move(refused);
    return result;
  }
  result.outcome =
      predictor(problem).predict(problem, variant, result.resources, result.ctas_per_sm);
  return result;
}

double PredictingEvaluator::bound_us(const Problem& problem, const Variant& variant,
                                     const CompiledKernel& kernel, BoundBy by) {
  const int ctas_per_sm = occupancy(kernel.resources, problem, variant, device()).ctas_per_sm;
  return impl_->refusal(problem, variant, kernel.resources, ctas_per_sm)
             ? std::numeric_limits<double>::infinity()
             : predictor(problem).bound_us(problem, variant, kernel.resources, ctas_per_sm, by);
}

void PredictingEvaluator::complete(const Problem& problem, VariantResult& known) {
  auto* const prediction = std::get_if<Prediction>(&known.outcome);
  if (prediction != nullptr && known.state == ResultState::ok) {
    prediction->relative_error =
        predictor(problem).relative_error(problem, known.variant, prediction->time_us);
  }
}

void PredictingEvaluator::expect(const Problem& problem, std::span<const Contender> contenders) {
  std::deque<WorkAhead::Task> walks;
  for (const Contender& contender : contenders) {
    walks.emplace_back(
        [this, problem, variant = contender.variant, resources = contender.kernel->resources] {
          impl_->prepare(problem, variant, resources);
        });
  }
  impl_->ahead.replace(std::move(walks));
}

/// Kernels of one tile and other stages mostly share their walks, so a few tiles are needed for
/// every thread to have one of its own.
std::size_t PredictingEvaluator::kernels_ahead() const {
  constexpr int kKernelsPerThread = 8;
  return static_cast<std::size_t>(impl_->ahead.threads()) * kKernelsPerThread;
}

std::vector<CounterReading> PredictingEvaluator::count(const Problem& /*problem*/,
                                                       std::span<const Contender> contenders) {
  return {contenders.size(), CounterReading{std::nullopt, "a model has no hardware counters"}};
}

RaceResult PredictingEvaluator::race(const Problem& problem, std::span<const Contender> contenders,
                                     const RaceOptions& options) {
  RaceResult result;
  for (const Contender& contender : contenders) {
    const double time_us = evaluate(problem, contender.variant, *contender.kernel).time_us();
    result.samples_us.emplace_back(static_cast<std::size_t>(options.rounds), time_us);
  }
  return result;
}

namespace {

/// The values that an axis has among the variants of a family.
std::set<AxisValue> values_of(const Axis& axis, Family family, const std::vector<Variant>& space) {
  std::set<AxisValue> values;
  for (const Variant& variant : space) {
    if (family_of(variant) == family) {
      values.insert(axis.get(variant));
    }
  }
  return values;
}

std::vector<Alternative> legal_ones(const Problem& problem, const Variant& variant,
                                    const DeviceInfo& device) {
  const std::vector<Variant> space = enumerate_space(problem, device, {}).variants;
  std::vector<Alternative> all;
  for (const Axis& axis : axes(variant.operation())) {
    if (axis.name == "family" || !axis.belongs_to(family_of(variant))) {
      continue;
    }
    for (const AxisValue& value : values_of(axis, family_of(variant), space)) {
      Alternative one{.variant = variant,
                      .choice = std::string(axis.name) + "=" + to_string(value)};
      axis.set(one.variant, value);
      if (one.variant != variant && !check_constraints(problem, one.variant, device)) {
        all.push_back(std::move(one));
      }
    }
  }
  return all;
}

}  // namespace

std::vector<Alternative> alternatives(const Problem& problem, const Variant& variant,
                                      const DeviceInfo& device, int threads) {
  if (problem.operation().model() == nullptr) {
    return {};
  }
  std::vector<Alternative> all = legal_ones(problem, variant, device);
  std::vector<Variant> variants{variant};
  for (const Alternative& one : all) {
    variants.push_back(one.variant);
  }
  const auto times = model_predictor(problem, device, threads)(variants);
  const std::vector<double>& times_us = times->all_us();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].time_ratio = times_us[i + 1] / times_us.front();
  }
  std::erase_if(all, [](const Alternative& one) { return !std::isfinite(one.time_ratio); });
  std::ranges::stable_sort(all, {}, &Alternative::time_ratio);
  return all;
}

}  // namespace swr
