// SPDX-License-Identifier: MIT
// Evaluates variants for a GPU that is not here: walks the shared schedules through a model of its
// L2 and turns the work into a time.
#pragma once

#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "tuner/evaluator.h"

#include <memory>

namespace swr {

/// Thread-safe: variants may be evaluated from several threads at once.
class PredictingEvaluator final : public Evaluator {
 public:
  /// On `threads` threads it walks ahead of evaluate() what is expected.
  explicit PredictingEvaluator(GpuProfile profile, int threads = 0);
  ~PredictingEvaluator() override;

  const DeviceInfo& device() const override;

  /// The model of the problem's operation. Throws, as all that evaluates: Error{invalid_argument}
  /// where the operation has none.
  Predictor& predictor(const Problem& problem);

  /// Variants that differ only in axes the L2 does not see share one walk of the schedule.
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override;
  /// What the time of evaluate() does not go below, without a walk; infinity where it gives none.
  double bound_us(const Problem& problem, const Variant& variant, const CompiledKernel& kernel,
                  BoundBy by);
  void complete(const Problem& problem, VariantResult& known) override;
  void expect(const Problem& problem, std::span<const Contender> contenders) override;
  std::size_t kernels_ahead() const override;

  /// Readings without counters: a model has none.
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override;
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return no_accesses(contenders);
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
