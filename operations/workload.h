// SPDX-License-Identifier: MIT
// A problem in device memory, whatever its operation: what measuring needs to know of it.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/reference_trials.h"
#include "operations/verdict.h"
#include <swr/generator.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <map>
#include <memory>
#include <typeindex>
#include <utility>

namespace swr {

/// What workloads are made with. Used by one thread; belongs to the current context.
struct WorkloadTools {
  const Generator& generator;
  const Stream& stream;
  int sm_arch = 0;
  int sm_count = 0;
  ReferenceTrials reference_trials = {};

  /// Kernels of an operation's own, such as its reference, made when they are first asked for.
  template <typename Kernels>
  const Kernels& kernels() const {
    std::shared_ptr<void>& made = kept[typeid(Kernels)];
    if (!made) {
      made = std::make_shared<Kernels>(generator, sm_arch);
    }
    return *static_cast<const Kernels*>(made.get());
  }

  mutable std::map<std::type_index, std::shared_ptr<void>> kept = {};
};

/// A variant with the tensors of one workload, which must outlive it.
class Trial {
 public:
  Trial() = default;
  virtual ~Trial() = default;
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// Enqueues one launch, in the form that is timed. Throws: DriverError.
  virtual void launch() = 0;

  /// Launches in every form on poisoned outputs, and judges the first that is wrong. Waits for the
  /// stream, so a fault surfaces here. Throws: DriverError.
  virtual Verdict verify() = 0;

  /// Judges what timed launches left behind. Throws: DriverError.
  virtual Verdict check_after_timing() = 0;
};

/// The tensors of a problem on random data, with what is right for them. Not thread-safe.
class Workload {
 public:
  Workload() = default;
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  virtual const Problem& problem() const = 0;

  /// Requires: the kernel is the variant's; ctas_per_sm >= 1. Throws: DriverError.
  virtual std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                                      int ctas_per_sm) = 0;

  /// The same tensors elsewhere in memory, for timing alone: verify() of its trials is not to be
  /// called. Throws: DriverError, also when the device is out of memory.
  virtual std::unique_ptr<Workload> copy() = 0;
};

}  // namespace swr
