// SPDX-License-Identifier: MIT
#include "tuner/model/predicting_evaluator.h"

#include "core/operation.h"
#include "tuner/model/gemm_time.h"
#include "tuner/model/time_model.h"
#include "tuner/model/traffic_memo.h"
#include "tuner/model/work_ahead.h"
#include <swr/constraints.h>

#include <deque>
#include <utility>

namespace swr {

struct PredictingEvaluator::Impl {
  Impl(GpuProfile gpu, int threads)
      : profile(std::move(gpu)),
        attention_walks(simulate_l2, profile.l2_policy()),
        gemm_walks(simulate_gemm_l2, profile.l2_policy()),
        ahead(threads) {}

  Prediction predict(const AttentionProblem& problem, const AttentionVariant& variant,
                     const VariantResult& result) {
    const ScheduleShape shape = schedule_on_gpu(problem, variant, result.ctas_per_sm, profile);
    return predict_time(problem, variant, shape, attention_traffic(shape), profile);
  }

  /// Walks of a grid often go in turn, and persistent CTAs then share them.
  L2Traffic attention_traffic(const ScheduleShape& shape) {
    if (const auto grid = grid_in_turn(shape)) {
      const L2Traffic traffic = attention_walks.traffic(*grid);
      if (traffic.schedule.in_turn) {
        return traffic;
      }
    }
    return attention_walks.traffic(shape);
  }

  Prediction predict(const GemmProblem& problem, const GemmVariant& variant,
                     const VariantResult& result) {
    const GemmLaunch launch = gemm_launch_on_gpu(problem, variant, result.ctas_per_sm, profile);
    const GemmTraffic traffic = gemm_walks.traffic(launch);
    return as_prediction(predict_gemm_time(problem, variant, launch, traffic, profile), traffic);
  }

  void prepare(const AttentionProblem& problem, const AttentionVariant& variant, int ctas_per_sm) {
    const ScheduleShape shape = schedule_on_gpu(problem, variant, ctas_per_sm, profile);
    if (const auto grid = grid_in_turn(shape)) {
      const std::optional<L2Traffic> walked = attention_walks.prepare(*grid);
      if (!walked || walked->schedule.in_turn) {
        return;  // Another thread finds out whether it goes in turn, or it does.
      }
    }
    attention_walks.prepare(shape);
  }

  void prepare(const GemmProblem& problem, const GemmVariant& variant, int ctas_per_sm) {
    gemm_walks.prepare(gemm_launch_on_gpu(problem, variant, ctas_per_sm, profile));
  }

  /// Walks what evaluate() will ask for.
  void prepare(const Problem& problem, const Variant& variant, const KernelResources& resources) {
    try {
      if (check_compiled(problem, variant, profile.device, resources)) {
        return;
      }
      const int ctas_per_sm = occupancy(resources, problem, variant, profile.device).ctas_per_sm;
      visit_operation(problem, variant, [&](const auto& one, const auto& chosen) {
        prepare(one, chosen, ctas_per_sm);
      });
    } catch (...) {
      return;  // evaluate() meets the same error and hands it to the one who asks.
    }
  }

  GpuProfile profile;
  TrafficMemo<ScheduleShape, L2Traffic> attention_walks;
  TrafficMemo<GemmLaunch, GemmTraffic> gemm_walks;
  /// Last, so that its threads end before what they use.
  WorkAhead ahead;
};

PredictingEvaluator::PredictingEvaluator(GpuProfile profile, int threads)
    : impl_(std::make_unique<Impl>(std::move(profile), threads)) {}

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

}  // namespace swr
