// SPDX-License-Identifier: MIT
// Evaluates variants on the GPU present: verified against the fp32 reference on random data, then
// timed with CUDA events, then counted through CUPTI in launches of their own.
#pragma once

#include "tuner/evaluator.h"
#include "tuner/statistics/statistics.h"
#include <swr/generator.h>

#include <memory>
#include <string>

namespace swr {

struct MeasureOptions {
  int device_ordinal = 0;
  int warmup_launches = 3;
  /// When a variant has been sampled enough.
  StoppingOptions stopping;
  L2State l2_state = L2State::warm;
  /// Collect hardware counters. When CUPTI or the driver refuses, results say why.
  bool counters = true;
  unsigned long long seed = 1;
};

class MeasuringEvaluator final : public Evaluator {
 public:
  /// Throws: Error{no_driver}; Error{driver_failed}; Error{invalid_argument} for an ordinal that
  /// does not exist.
  MeasuringEvaluator(const Generator& generator, const MeasureOptions& options);
  ~MeasuringEvaluator() override;

  const DeviceInfo& device() const override;
  /// The reference is computed once per problem and kept for the following variants.
  void prepare(const Problem& problem) override;
  ReferenceTrials* reference_trials() override;
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override;
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override;
  std::vector<AccessReading> count_accesses(const Problem& problem,
                                            std::span<const Contender> contenders) override;
  std::vector<PowerReading> measure_power(const Problem& problem,
                                          std::span<const Contender> contenders) override;
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
