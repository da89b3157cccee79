// SPDX-License-Identifier: MIT
// What is chosen for a GEMM: tile, pipeline, schedule and, at launch, the order of tiles.
#pragma once

#include <swr/axes.h>
#include <swr/family.h>
#include <swr/gemm_axes.h>
#include <swr/variant.h>

#include <compare>
#include <string_view>

namespace swr {

/// One choice on every axis, as axes() of the operation describes them.
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
  /// Hopper: CTAs of a cluster along k, which compute one tile of C together.
  int cluster_k = 1;
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
  /// Elements of k that tensor cores sum before fp32 takes over (Accuracy::two_level); 0: all.
  int promote_every = 0;

  auto operator<=>(const GemmVariant&) const = default;

  using ErasedAs = Variant;
  static const Operation& operation();
};

std::string_view to_string(Raster value);
std::string_view to_string(GemmMainloop value);

}  // namespace swr
