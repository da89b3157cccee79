// SPDX-License-Identifier: MIT
// Evaluates variants on the GPU present: verified against the fp32 reference on random data, then
// timed with CUDA events, then counted through CUPTI in launches of their own.
#pragma once

#include "core/statistics/statistics.h"
#include "driver/cuda_driver.h"
#include "tuner/evaluator.h"
#include <swr/generator.h>
#include <swr/kernel.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace swr {

// Loaded kernels that several variants launch.

/// Throws: DriverError when the cubin does not fit the device or lacks the entry.
inline std::shared_ptr<const Kernel> load_kernel(const CompiledKernel& compiled) {
  return std::make_shared<const Kernel>(compiled);
}

/// Loads a kernel once for the variants that share it: to load and unload modules is most of what a
/// variant asks of the driver beside its launches, and processes wait for each other in it.
class SharedKernels {
 public:
  using Load = std::function<std::shared_ptr<const Kernel>(const CompiledKernel&)>;

  explicit SharedKernels(Load load = load_kernel) : load_(std::move(load)) {}

  /// Loaded now, unless it is in use or was the latest. Throws: as load_kernel().
  std::shared_ptr<const Kernel> get(const CompiledKernel& compiled) {
    std::erase_if(in_use_, [](const auto& kernel) { return kernel.second.expired(); });
    const std::pair key(compiled.cubin_digest, compiled.entry);
    const auto found = in_use_.find(key);
    latest_ = found != in_use_.end() ? found->second.lock() : load_(compiled);
    in_use_[key] = latest_;
    return latest_;
  }

 private:
  Load load_;
  /// By digest of the cubin, and entry.
  std::map<std::pair<std::string, std::string>, std::weak_ptr<const Kernel>> in_use_;
  /// Variants of one kernel are evaluated one after the other.
  std::shared_ptr<const Kernel> latest_;
};

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
