// SPDX-License-Identifier: MIT
// Costs of kernels, and factors of their codes, that make predicted times those of recorded spaces.
#pragma once

#include "experiments/kernel_costs/spaces.h"
#include "model/profile/gpu_profile.h"

#include <string>
#include <vector>

namespace swr::fit {

struct FitOptions {
  int rounds = 10;                  ///< Of least squares at most; none leave the profile's costs.
  std::vector<std::string> kept{};  ///< Names of costs that stay as they are.
  /// Costs are fitted to what the profile's code factors leave, rather than to all.
  bool beside_code_factors = false;
  bool code_factors = false;  ///< Also a factor for each main loop that the compiler made.
};

/// The profile with what is fitted to the spaces from its own costs on (docs/model.md). Notes the
/// rounds on stderr.
GpuProfile fit(const Spaces& spaces, const GpuProfile& profile, const FitOptions& options);

}  // namespace swr::fit
