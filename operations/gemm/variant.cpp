// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_variant.h>

#include <algorithm>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kKOrders{"cyclic"sv, "sawtooth"sv};
constexpr std::array kGemmPersistences{"grid"sv, "persistent"sv};
constexpr std::array kRasters{"along_n"sv, "along_m"sv, "grouped"sv, "serpentine"sv, "hilbert"sv};
constexpr std::array kMainloops{"cooperative"sv, "pingpong"sv};

}  // namespace

std::span<const Axis> gemm_axes() {
  using V = GemmVariant;
  static const std::array axes{
      choice_axis(&V::family, kFamilies, "family", "Kernel family."),
      integer_axis(&V::tile_m, 16, 256, "tile_m", "Rows of C per tile."),
      integer_axis(&V::tile_n, 16, 256, "tile_n", "Columns of C per tile."),
      integer_axis(&V::tile_k, 32, 256, "tile_k", "Elements of k per step."),
      integer_axis(&V::stages, 2, 16, "stages", "Tiles of A and B in shared memory."),
      integer_axis(&V::warps_m, 1, 8, "warps_m", "Warps along m.", Family::portable),
      integer_axis(&V::warps_n, 1, 8, "warps_n", "Warps along n.", Family::portable),
      choice_axis(&V::mainloop, kMainloops, "mainloop", "How consumers share tiles.",
                  Family::hopper),
      integer_axis(&V::consumers, 1, 3, "consumers", "Computing warpgroups.", Family::hopper),
      integer_axis(&V::cluster_m, 1, 4, "cluster_m", "CTAs that share tiles of B.", Family::hopper),
      integer_axis(&V::cluster_n, 1, 4, "cluster_n", "CTAs that share tiles of A.", Family::hopper),
      later(integer_axis(&V::cluster_k, 1, 8, "cluster_k",
                         "CTAs along k that add up a tile in shared memory.", Family::hopper)),
      choice_axis(&V::persistence, kGemmPersistences, "persistence",
                  "How tiles are assigned to CTAs."),
      integer_axis(&V::workers, 0, 1 << 20, "workers",
                   "CTAs of a persistent launch; 0: all slots."),
      choice_axis(&V::k_order, kKOrders, "k_order", "Direction in which tiles traverse k."),
      integer_axis(&V::splits, 1, 64, "splits", "Parts of k summed by different CTAs."),
      choice_axis(&V::raster, kRasters, "raster", "Order of tiles inside a column group."),
      integer_axis(&V::raster_group, 1, 1024, "raster_group", "Rows of clusters per band."),
      integer_axis(&V::swizzle_stride, 0, 1 << 24, "swizzle_stride",
                   "Elements of n per column group; 0: off."),
      later(integer_axis(&V::promote_every, 0, 4096, "promote_every",
                         "Elements of k summed before fp32 takes over; 0: all.")),
  };
  return axes;
}

/// A kernel that combines splits serves any number of them from two on.
GemmVariant kernel_choices(GemmVariant variant) {
  variant.workers = GemmVariant{}.workers;
  variant.splits = std::min(variant.splits, 2);
  return in_usual_tile_order(variant);
}

GemmVariant in_usual_tile_order(GemmVariant variant) {
  const GemmVariant usual;
  variant.raster = usual.raster;
  variant.raster_group = usual.raster_group;
  variant.swizzle_stride = usual.swizzle_stride;
  return variant;
}

int warps_of(const GemmVariant& variant) {
  constexpr int kWarpsPerWarpgroup = 4;
  return variant.family == Family::hopper ? kWarpsPerWarpgroup * variant.consumers
                                          : variant.warps_m * variant.warps_n;
}

bool has_splits(const GemmVariant& variant) { return variant.splits > 1; }

std::string_view to_string(Raster value) { return enum_text(kRasters, value); }
std::string_view to_string(GemmMainloop value) { return enum_text(kMainloops, value); }

}  // namespace swr
