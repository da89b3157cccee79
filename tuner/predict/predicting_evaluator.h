// SPDX-License-Identifier: MIT
// Evaluates variants for a GPU that is not here: walks the shared schedules through a model of its
// L2 and turns the work into a time.
#pragma once

#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "tuner/evaluator.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace swr {

// Threads that work through a list in its order, ahead of the one who needs the results.

class WorkAhead {
 public:
  using Task = std::function<void()>;

  explicit WorkAhead(int threads);
  /// Waits for the tasks in hand; those not begun are dropped.
  ~WorkAhead() = default;
  WorkAhead(const WorkAhead&) = delete;
  WorkAhead& operator=(const WorkAhead&) = delete;
  WorkAhead(WorkAhead&&) = delete;
  WorkAhead& operator=(WorkAhead&&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }

  /// Puts the tasks in place of those not begun. Requires: no task throws.
  void replace(std::deque<Task> tasks);

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> tasks_;  ///< Guarded by mutex_.
  /// Last, so that the threads end before what they use.
  std::vector<std::jthread> threads_;
};

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

// What one other choice would change, by the model.

/// A variant that differs from another in one axis.
struct Alternative {
  Variant variant;
  std::string choice;       ///< As keys write it, "order=sawtooth".
  double time_ratio = 1.0;  ///< Its predicted time over that of the other.
};

/// The variant with another value of one axis, for every axis and each value of the space that is
/// legal, fastest first. Registers are estimated: nothing is compiled. Empty where the operation
/// has no model, or the model does not predict the variant.
std::vector<Alternative> alternatives(const Problem& problem, const Variant& variant,
                                      const DeviceInfo& device, int threads);

}  // namespace swr
