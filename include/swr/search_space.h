// SPDX-License-Identifier: MIT
// The points of an operation's tuning space that a problem has on a device.
#pragma once

#include <swr/constraints.h>
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace swr {

/// Restricts axes: only the listed values are enumerated for an axis that is named, the family's
/// default values for the others.
using AxisRestrictions = std::map<std::string, std::vector<AxisValue>, std::less<>>;

/// A tile shape; the three axes are chosen together.
struct Tile {
  int tile_m = 0;
  int tile_n = 0;
  /// Attention's warps. 0 for the family's usual number: portable four where each then has whole
  /// 16-row blocks, else one per 16 rows; hopper one per 16 rows. GEMM has none to name here.
  int warps = 0;
};

struct SpaceOptions {
  /// Replaces the family's list of tiles when not empty.
  std::vector<Tile> tiles;
  AxisRestrictions restrictions;
};

struct SearchSpace {
  std::vector<Variant> variants;
  std::vector<DroppedVariant> dropped;
  /// Points that were never made, by the constraint that drops them: too many to list.
  std::map<std::string, long long> left_out;
};

/// Enumerates every combination of the axis values and applies the constraints that need no
/// compiler. The order is deterministic.
/// Throws: Error{invalid_argument} when a restriction names no axis or a value outside it.
SearchSpace enumerate_space(const Problem& problem, const DeviceInfo& device,
                            const SpaceOptions& options);

}  // namespace swr
