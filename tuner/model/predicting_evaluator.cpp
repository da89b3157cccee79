// SPDX-License-Identifier: MIT
#include "tuner/model/predicting_evaluator.h"

#include "core/operation.h"
#include "tuner/model/gemm_time.h"
#include "tuner/model/time_model.h"
#include <swr/constraints.h>

#include <future>
#include <map>
#include <mutex>
#include <utility>

namespace swr {
namespace {

/// Remembers walks. A second thread that wants a walk in progress waits for it.
template <typename Shape, typename Traffic>
class TrafficMemo {
 public:
  using Walk = Traffic (*)(const Shape&, const L2Policy&);

  TrafficMemo(Walk how, const L2Policy& l2_policy) : walk_(how), l2_policy_(l2_policy) {}

  Traffic traffic(const Shape& shape) {
    std::promise<Traffic> promise;
    std::shared_future<Traffic> known;
    {
      const std::lock_guard lock(mutex_);
      const auto [entry, inserted] = walks_.try_emplace(shape);
      if (inserted) {
        entry->second = promise.get_future().share();
      } else {
        known = entry->second;
      }
    }
    return known.valid() ? known.get() : walk(shape, promise);
  }

 private:
  /// Leaves the result, or what went wrong, for those who wait.
  Traffic walk(const Shape& shape, std::promise<Traffic>& promise) const {
    try {
      const Traffic result = walk_(shape, l2_policy_);
      promise.set_value(result);
      return result;
    } catch (...) {
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  Walk walk_;
  L2Policy l2_policy_;
  std::mutex mutex_;
  std::map<Shape, std::shared_future<Traffic>> walks_;
};

}  // namespace

struct PredictingEvaluator::Impl {
  explicit Impl(GpuProfile gpu)
      : profile(std::move(gpu)),
        attention_walks(simulate_l2, profile.l2_policy()),
        gemm_walks(simulate_gemm_l2, profile.l2_policy()) {}

  Prediction predict(const AttentionProblem& problem, const AttentionVariant& variant,
                     const VariantResult& result) {
    const ScheduleShape shape = schedule_on_gpu(problem, variant, result.ctas_per_sm, profile);
    return predict_time(problem, variant, result.resources, shape, attention_walks.traffic(shape),
                        profile);
  }

  Prediction predict(const GemmProblem& problem, const GemmVariant& variant,
                     const VariantResult& result) {
    const GemmLaunch launch = gemm_launch_on_gpu(problem, variant, result.ctas_per_sm, profile);
    const GemmTraffic traffic = gemm_walks.traffic(launch);
    return as_prediction(predict_gemm_time(problem, variant, launch, traffic, profile), traffic);
  }

  GpuProfile profile;
  TrafficMemo<ScheduleShape, L2Traffic> attention_walks;
  TrafficMemo<GemmLaunch, GemmTraffic> gemm_walks;
};

PredictingEvaluator::PredictingEvaluator(GpuProfile profile)
    : impl_(std::make_unique<Impl>(std::move(profile))) {}

PredictingEvaluator::~PredictingEvaluator() = default;

const DeviceInfo& PredictingEvaluator::device() const { return impl_->profile.device; }

VariantResult PredictingEvaluator::evaluate(const Problem& problem, const Variant& variant,
                                            const CompiledKernel& kernel) {
  const DeviceInfo& gpu = device();
  VariantResult result;
  result.variant = variant;
  result.resources = kernel.resources;
  result.smem_bytes = smem_bytes(problem, variant);
  result.ctas_per_sm = occupancy(kernel.resources, problem, variant, gpu).ctas_per_sm;
  result.cubin_digest = kernel.cubin_digest;
  result.outcome = Prediction{};
  if (const auto violated = check_compiled(problem, variant, gpu, kernel.resources)) {
    result.state = ResultState::constraint;
    result.detail = violated->constraint + ": " + violated->reason;
    return result;
  }
  result.outcome = visit_operation(problem, variant, [&](const auto& one, const auto& chosen) {
    return impl_->predict(one, chosen, result);
  });
  return result;
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

}  // namespace swr
