// SPDX-License-Identifier: MIT
// The one interface between the tuner and a GPU: measured on a device, modelled for an absent one,
// or faked in a test.
#pragma once

#include "operations/reference_trials.h"
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

/// A variant and its kernel, which must outlive the call it is passed to.
struct Contender {
  Variant variant;
  const CompiledKernel* kernel = nullptr;
};

struct RaceOptions {
  int rounds = 1;
  /// Draws the order of the contenders, anew for each round, and where in memory they and their
  /// tensors lie.
  unsigned long long seed = 1;
};

struct RaceResult {
  /// One time per round for each contender, microseconds: [contender][round].
  std::vector<std::vector<double>> samples_us;
  /// Why the samples were taken in a degraded state (throttling); empty when they were not.
  std::string degraded_because;
  /// Around all the rounds; empty when modelled.
  GpuCondition before;
  GpuCondition after;
};

/// Hardware counters of one launch, or why there are none.
struct CounterReading {
  std::optional<Counters> counters;
  /// As Measurement::counters_missing_because.
  std::string missing_because;
};

/// How one launch went to memory, or why that is not known.
struct AccessReading {
  std::optional<AccessCounters> accesses;
  /// As Measurement::accesses_missing_because.
  std::string missing_because;
};

/// What a GPU draws while it does one thing, or why that is not known.
struct PowerReading {
  std::optional<double> power_w;
  double launch_us = 0.0;  ///< Mean time of one launch meanwhile; 0 of an idle GPU.
  std::string missing_because;
};

/// The readings of who measures nothing.
inline std::vector<AccessReading> no_accesses(std::span<const Contender> contenders) {
  return {contenders.size(), AccessReading{std::nullopt, "only a GPU counts accesses"}};
}

inline std::vector<PowerReading> no_power(std::span<const Contender> contenders) {
  return {std::max<std::size_t>(contenders.size(), 1),
          PowerReading{.missing_because = "only a GPU measures energy"}};
}

/// Not thread-safe unless the implementation says so: a GPU measures one variant at a time, a
/// model may evaluate several.
class Evaluator {
 public:
  Evaluator() = default;
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  virtual const DeviceInfo& device() const = 0;

  /// Begins what the first evaluation of a problem would begin with: data and what is right. A GPU
  /// does it while kernels compile. May return before it is done; what fails fails again in
  /// evaluate().
  virtual void prepare(const Problem& /*problem*/) {}
  /// What is told of variants that prepare() and others may have to run; nullptr where none is.
  virtual ReferenceTrials* reference_trials() { return nullptr; }

  /// Verifies and times the kernel, or models it. A variant that fails is a result whose state
  /// says how; all fields of the result are filled in; a measurement waits for count().
  /// Throws: Error only when nothing further can be evaluated (device lost, out of memory).
  virtual VariantResult evaluate(const Problem& problem, const Variant& variant,
                                 const CompiledKernel& kernel) = 0;

  /// Adds what is not stored to the result of an earlier run: the uncertainty of a prediction.
  virtual void complete(const Problem& /*problem*/, VariantResult& /*known*/) {}

  /// Names what will probably be evaluated next, in that order, in place of what was named before.
  /// A model may begin with it on threads of its own; results do not depend on it.
  virtual void expect(const Problem& /*problem*/, std::span<const Contender> /*contenders*/) {}
  /// Of how many kernels beyond the one in hand it pays to expect the variants.
  virtual std::size_t kernels_ahead() const { return 0; }

  /// Counters of variants that evaluate() found ok, one reading each. Apart from evaluate(),
  /// because switching the profiler on costs more than counting: pass several at once. Throws: as
  /// evaluate().
  virtual std::vector<CounterReading> count(const Problem& problem,
                                            std::span<const Contender> contenders) = 0;

  /// How variants that evaluate() found ok go to shared and global memory, one reading each. Apart
  /// from count(), because it takes several passes more. Throws: as evaluate().
  virtual std::vector<AccessReading> count_accesses(const Problem& problem,
                                                    std::span<const Contender> contenders) = 0;

  /// What the GPU draws while it launches variants that evaluate() found ok, each alone for the
  /// better part of a second, in their order; one reading each. Without contenders one reading, of
  /// a GPU with nothing to do. Throws: as evaluate().
  virtual std::vector<PowerReading> measure_power(const Problem& problem,
                                                  std::span<const Contender> contenders) = 0;

  /// Times variants that evaluate() found ok against each other: one sample of each per round, in
  /// an order drawn per round, so that what drifts hits all of them alike. A model gives its times.
  /// Throws: as evaluate(), also when a contender fails.
  virtual RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                          const RaceOptions& options) = 0;
};

}  // namespace swr
