// SPDX-License-Identifier: MIT
// The model of one operation on one GPU.
#pragma once

#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <optional>
#include <string>

namespace swr {

/// What a bound on a time costs: sums over tiles take microseconds, when each CTA ends a
/// millisecond.
enum class BoundBy { sums, timeline };

/// Remembers the walks that it has made. Thread-safe.
class Predictor {
 public:
  Predictor() = default;
  virtual ~Predictor() = default;
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  virtual Prediction predict(const Problem& problem, const Variant& variant,
                             const KernelResources& resources, int ctas_per_sm) = 0;

  /// Prediction::relative_error of a variant that is predicted to take so long; 0 where it is not
  /// known.
  virtual double relative_error(const Problem& /*problem*/, const Variant& /*variant*/,
                                double /*time_us*/) const {
    return 0.0;
  }

  /// Why it does not predict a variant, whose walk would take too much memory or time; empty when
  /// it does.
  virtual std::optional<std::string> beyond_limits(const Problem& /*problem*/,
                                                   const Variant& /*variant*/,
                                                   int /*ctas_per_sm*/) const {
    return std::nullopt;
  }

  /// Makes the walk that predict() will need, unless another thread is at it. Does nothing for
  /// models that walk nothing, as beyond_limits() refuses nothing.
  virtual void prepare(const Problem& /*problem*/, const Variant& /*variant*/,
                       int /*ctas_per_sm*/) {}

  /// What the time of predict() does not go below, without a walk.
  virtual double bound_us(const Problem& /*problem*/, const Variant& /*variant*/,
                          const KernelResources& /*resources*/, int /*ctas_per_sm*/,
                          BoundBy /*by*/) const {
    return 0.0;
  }

  /// Registers from what a kernel holds across its main loop, no spills: good enough to rank, and
  /// free, where compiling a whole space takes longer than measuring the part worth measuring.
  virtual KernelResources estimated_resources(const Problem& problem,
                                              const Variant& variant) const = 0;

  /// An estimate of the time that costs no walk, where walking a whole space takes too long; empty
  /// where every variant is to be walked.
  virtual std::optional<double> floor_us(const Problem& problem, const Variant& variant) const = 0;
};

}  // namespace swr
