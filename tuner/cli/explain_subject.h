// SPDX-License-Identifier: MIT
// Which variant explain speaks of, and what is known of it.
#pragma once

#include "model/profile/gpu_profile.h"
#include "tuner/cli/commands.h"
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <optional>
#include <string>

namespace swr::cli {

struct ExplainSubject {
  AttentionVariant variant;
  KernelResources resources;
  std::string chosen;  ///< Where it comes from.
  /// Stored for exactly this problem and device.
  std::optional<VariantResult> measured;
  /// The same variant in the other order, measured there as well.
  std::optional<VariantResult> measured_other;
};

/// The same variant in the other of the two orders that differ in traffic.
AttentionVariant in_other_order(AttentionVariant variant);

/// The variant of --variant, else the best stored for this problem and device, else the best of the
/// whole space by prediction.
/// Throws: Error{invalid_argument} for a variant that breaks a constraint.
ExplainSubject choose_subject(const Session& session, const AttentionProblem& problem,
                              const GpuProfile& profile);

}  // namespace swr::cli
