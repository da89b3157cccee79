// SPDX-License-Identifier: MIT
// The one interface between the tuner and a GPU: measured on a device, modelled for an absent one,
// or faked in a test.
#pragma once

#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

namespace swr {

/// Not thread-safe unless the implementation says so: a GPU measures one variant at a time, a
/// model may evaluate several.
class Evaluator {
 public:
  Evaluator() = default;
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  virtual const DeviceInfo& device() const = 0;

  /// Verifies and times the kernel, or models it. A variant that fails is a result whose state
  /// says how; all fields of the result are filled in.
  /// Throws: Error only when nothing further can be evaluated (device lost, out of memory).
  virtual VariantResult evaluate(const AttentionProblem& problem, const Variant& variant,
                                 const CompiledKernel& kernel) = 0;
};

}  // namespace swr
