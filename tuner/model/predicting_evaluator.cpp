// SPDX-License-Identifier: MIT
#include "tuner/model/predicting_evaluator.h"

#include "tuner/model/time_model.h"
#include <swr/constraints.h>
#include <swr/error.h>

#include <future>
#include <map>
#include <mutex>
#include <utility>

namespace swr {
namespace {

/// Remembers walks. A second thread that wants a walk in progress waits for it.
class TrafficMemo {
 public:
  explicit TrafficMemo(const L2Policy& l2_policy) : l2_policy_(l2_policy) {}

  L2Traffic traffic(const ScheduleShape& shape) {
    std::promise<L2Traffic> promise;
    std::shared_future<L2Traffic> known;
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
  L2Traffic walk(const ScheduleShape& shape, std::promise<L2Traffic>& promise) const {
    try {
      const L2Traffic result = simulate_l2(shape, l2_policy_);
      promise.set_value(result);
      return result;
    } catch (...) {
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  L2Policy l2_policy_;
  std::mutex mutex_;
  std::map<ScheduleShape, std::shared_future<L2Traffic>> walks_;
};

/// Both as what there is a model for.
std::pair<const AttentionProblem&, const AttentionVariant&> modelled(const Problem& problem,
                                                                     const Variant& variant) {
  if (op_of(problem) != Op::attention) {
    throw Error(ErrorCode::invalid_argument,
                "there is no model of " + std::string(to_string(op_of(problem))) +
                    " yet; tune it on the GPU itself, with --gpu auto");
  }
  return {std::get<AttentionProblem>(problem), std::get<AttentionVariant>(variant)};
}

}  // namespace

struct PredictingEvaluator::Impl {
  explicit Impl(GpuProfile gpu) : profile(std::move(gpu)), memo(profile.l2_policy()) {}

  GpuProfile profile;
  TrafficMemo memo;
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
  const auto& [attention, chosen] = modelled(problem, variant);
  const ScheduleShape shape =
      schedule_on_gpu(attention, chosen, result.ctas_per_sm, impl_->profile);
  result.outcome = predict_time(attention, chosen, kernel.resources, shape,
                                impl_->memo.traffic(shape), impl_->profile);
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
