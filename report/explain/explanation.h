// SPDX-License-Identifier: MIT
// What an operation explains: one variant, measured or predicted, with all that is known of it.
#pragma once

#include "core/json.h"
#include "model/profile/gpu_profile.h"
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

namespace swr {

/// Which variant an explanation speaks of, and what is known of it.
struct ExplainSubject {
  Variant variant;
  KernelResources resources;
  std::string chosen;  ///< Where it comes from.
  /// Stored for exactly this problem and device.
  std::optional<VariantResult> measured;
  /// The same variant in the other order, measured there as well.
  std::optional<VariantResult> measured_other;
};

struct ExplainRequest {
  Problem problem;
  GpuProfile profile;
  ExplainSubject subject;
};

/// The same variant in the other of the two orders that differ in traffic; empty for operations
/// without orders.
std::optional<Variant> in_other_order(Variant variant);

class ExplainedVariant {
 public:
  ExplainedVariant() = default;
  virtual ~ExplainedVariant() = default;
  ExplainedVariant(const ExplainedVariant&) = delete;
  ExplainedVariant& operator=(const ExplainedVariant&) = delete;

  /// For people.
  virtual void print(std::ostream& out) const = 0;
  /// Every number of it.
  virtual Json json() const = 0;
};

/// Launch, shared memory, time and traffic by the operation's predictor, memory accesses, roofline
/// and words. Throws: Error{invalid_argument} when no CTA fits an SM, or when nothing is measured
/// and the operation has no predictor.
std::unique_ptr<ExplainedVariant> explain_plainly(const ExplainRequest& request);

}  // namespace swr
