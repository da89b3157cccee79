// SPDX-License-Identifier: MIT
// What is chosen for a GEMM: tile, pipeline, schedule and, at launch, the order of tiles.
// Constraints say which choices can run.
#pragma once

#include <swr/constraints.h>
#include <swr/device.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_problem.h>
#include <swr/kernel.h>
#include <swr/variant.h>

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// One point of GEMM's search space.
struct GemmVariant {
  Family family = Family::portable;
  int tile_m = 64;
  int tile_n = 64;
  int tile_k = 32;
  /// Tiles of A, and of B, in shared memory.
  int stages = 3;
  /// Portable: warps along m and along n of the tile.
  int warps_m = 2;
  int warps_n = 2;
  /// Hopper: how consumers share tiles, and how many warpgroups compute.
  GemmMainloop mainloop = GemmMainloop::cooperative;
  int consumers = 1;
  /// Hopper: CTAs of a cluster along m, which share B, and along n, which share A.
  int cluster_m = 1;
  int cluster_n = 1;
  Persistence persistence = Persistence::grid;
  /// CTAs of a persistent launch; 0 means one per resident slot (SMs times CTAs per SM).
  int workers = 0;
  Order k_order = Order::cyclic;
  /// Parts of k that different CTAs sum.
  int splits = 1;
  Raster raster = Raster::along_m;
  /// Rows of clusters per band under grouped and serpentine; 1 elsewhere.
  int raster_group = 1;
  /// Elements of n per column group; 0 is off.
  int swizzle_stride = 0;

  auto operator<=>(const GemmVariant&) const = default;
};

/// One axis of GEMM's tuning space; like Axis.
struct GemmAxis {
  std::string_view name;
  std::string_view summary;
  AxisValue (*get)(const GemmVariant&);
  /// Throws: Error{invalid_argument} when the value is not one of the axis.
  void (*set)(const GemmAxis& axis, GemmVariant& variant, const AxisValue& value);
  std::span<const std::string_view> spellings;
  std::optional<Family> only;

  bool belongs_to(Family family) const { return !only || *only == family; }
};
std::span<const GemmAxis> gemm_axes();

/// Canonical text of a variant, "family=hopper,tile_m=128,...": the axes of its family in order.
std::string to_key(const GemmVariant& variant);
/// The inverse; axes left out keep their default.
/// Throws: Error{invalid_argument} for a part that is no axis=value of the family.
GemmVariant parse_gemm_variant(std::string_view key);

std::string_view to_string(Raster value);
std::string_view to_string(GemmLayout value);
std::string_view to_string(GemmMainloop value);
std::string_view to_string(OutputType value);

/// Name and reason of the rule a GEMM variant breaks.
struct DroppedGemm {
  std::string constraint;
  std::string reason;  ///< One sentence with the numbers.
};
std::span<const ConstraintInfo> gemm_constraints();

/// The first constraint the variant violates before compilation, if any.
std::optional<DroppedGemm> check_constraints(const GemmProblem& problem, const GemmVariant& variant,
                                             const DeviceInfo& device);

/// Constraints that need the compiler's verdict.
std::optional<DroppedGemm> check_compiled(const KernelResources& resources);

}  // namespace swr
