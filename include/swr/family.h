// SPDX-License-Identifier: MIT
// The families that kernels of every operation come in.
#pragma once

#include <string_view>

namespace swr {

/// A kernel family: one template folder of an operation, with its own axes and constraints.
/// Append-only.
enum class Family {
  /// mma.sync, ldmatrix and cp.async; sm_80 to sm_121.
  portable,
  /// wgmma, the bulk tensor copy engine and specialised warpgroups; sm_90a.
  hopper,
};
std::string_view to_string(Family value);

}  // namespace swr
