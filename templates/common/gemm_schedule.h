// SPDX-License-Identifier: MIT
// The schedule of GEMM, written once: which CTA computes which tile of C, in which order, and in
// which order it walks k. Kernels include this file, the L2 model walks it and the CPU tests prove
// it, so the three cannot drift apart.
//
// Source of the swizzle stride: L2 cache scaling and block scheduling in GEMM (RTX 5090), which
// sweeps 0 (off) and 512 to 8192 elements.
#pragma once

#include "common/cta_schedule.h"
#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/gemm_axes.h>

namespace swr {

/// Place of a tile, or of a cluster's tiles, in C.
struct GemmTile {
  int m = 0;
  int n = 0;
};

/// Consecutive k-blocks [first, first + count).
struct KSlab {
  int first = 0;
  int count = 0;
};

/// One unit of work: a tile of one item of the batch, over one slab of k.
struct GemmWork {
  int batch = 0;
  int split = 0;
  GemmTile tile;
};

/// Columns of tiles per group for a swizzle stride in elements: as many whole tiles as fit, at
/// least one; stride 0 makes one group of all columns. `tile_n` counts the elements of one column.
SWR_HD constexpr int column_group_tiles(int swizzle_stride, int tile_n, int n_tiles) {
  return swizzle_stride == 0 ? n_tiles : min_of(n_tiles, max_of(1, swizzle_stride / tile_n));
}

/// Cells of the square [m0, m0 + side) x [n0, n0 + side) that lie in [0, m_tiles) x [0, n_tiles).
SWR_HD constexpr int cells_inside(int m0, int n0, int side, int m_tiles, int n_tiles) {
  const int rows = max_of(0, min_of(m0 + side, m_tiles) - m0);
  const int columns = max_of(0, min_of(n0 + side, n_tiles) - n0);
  return rows * columns;
}

/// The `linear`-th tile on Hilbert's curve. From the whole square down, whole quadrants that lie
/// before the tile are skipped by the number of their cells inside the rectangle.
SWR_HD constexpr GemmTile hilbert_tile(int linear, int m_tiles, int n_tiles) {
  int side = 1;
  while (side < m_tiles || side < n_tiles) {
    side *= 2;
  }
  GemmTile corner{0, 0};
  // The curve enters a square at one corner and leaves it at a neighbouring one. `transposed`
  // exchanges m and n, `reversed` mirrors both.
  bool transposed = false;
  bool reversed = false;
  for (int half = side / 2; half > 0; half /= 2) {
    for (int quadrant = 0; quadrant < 4; ++quadrant) {
      // Quadrants in the order of the plain curve: (0, 0), (0, 1), (1, 1), (1, 0).
      const bool far_a = quadrant >= 2;
      const bool far_b = quadrant == 1 || quadrant == 2;
      const bool far_m = (transposed ? far_b : far_a) != reversed;
      const bool far_n = (transposed ? far_a : far_b) != reversed;
      const int m0 = corner.m + (far_m ? half : 0);
      const int n0 = corner.n + (far_n ? half : 0);
      const int cells = cells_inside(m0, n0, half, m_tiles, n_tiles);
      if (linear >= cells) {
        linear -= cells;
        continue;
      }
      corner = {m0, n0};
      // The first and last quadrants are turned; the last one also runs from the far end.
      transposed = transposed != (quadrant == 0 || quadrant == 3);
      reversed = reversed != (quadrant == 3);
      break;
    }
  }
  return corner;
}

/// The `linear`-th tile in bands of `group` rows; column by column inside a band.
SWR_HD constexpr GemmTile banded_tile(int linear, int m_tiles, int n_tiles, int group,
                                      bool serpentine) {
  const int band_tiles = group * n_tiles;
  const int band = linear / band_tiles;
  const int within = linear - band * band_tiles;
  const int rows = min_of(group, m_tiles - band * group);
  const int column = within / rows;
  const bool backward = serpentine && (band & 1) != 0;
  return {band * group + within % rows, backward ? n_tiles - 1 - column : column};
}

/// Maps a linear index to a tile of a grid of m_tiles x n_tiles: column groups of `group_columns`
/// run one after another, and inside a group the raster decides. `raster_group` is at least 1.
SWR_HD constexpr GemmTile map_gemm_tile(int linear, int m_tiles, int n_tiles, Raster raster,
                                        int raster_group, int group_columns) {
  const int group_tiles = m_tiles * group_columns;
  const int group = linear / group_tiles;
  const int first_column = group * group_columns;
  const int columns = min_of(group_columns, n_tiles - first_column);
  const int within = linear - group * group_tiles;
  GemmTile tile{};
  switch (raster) {
    case Raster::along_n:
      tile = {within / columns, within % columns};
      break;
    case Raster::along_m:
      tile = {within % m_tiles, within / m_tiles};
      break;
    case Raster::grouped:
      tile = banded_tile(within, m_tiles, columns, raster_group, false);
      break;
    case Raster::serpentine:
      tile = banded_tile(within, m_tiles, columns, raster_group, true);
      break;
    case Raster::hilbert:
      tile = hilbert_tile(within, m_tiles, columns);
      break;
  }
  return {tile.m, first_column + tile.n};
}

/// The slab of k-blocks of one split; slabs differ by at most one block.
SWR_HD constexpr KSlab k_slab(int split, int splits, int k_blocks) {
  const int first = static_cast<int>(static_cast<long long>(k_blocks) * split / splits);
  const int end = static_cast<int>(static_cast<long long>(k_blocks) * (split + 1) / splits);
  return {first, end - first};
}

/// k-block of a step (0, 1, ..., slab.count - 1) of the main loop.
SWR_HD constexpr int k_block_at(int step, KSlab slab, bool backward) {
  return slab.first + (backward ? slab.count - 1 - step : step);
}

/// Everything the schedule of a launch depends on.
///
/// Work is dealt to clusters of cluster_m x cluster_n x cluster_k CTAs, which compute neighbouring
/// tiles, cluster_k of them the same one; a cluster at the edge of C may hold CTAs whose tile lies
/// outside. The linear index runs over the
/// tiles, then the splits, then the batch.
///
/// Requires: work_items(), and raster_group times columns(), below 2^31. Linear indices have 32
/// bits because divisions of 64 cost a loading thread more registers than it has.
struct GemmSchedule {
  int m = 1;
  int n = 1;
  int k = 1;
  int batch = 1;
  int tile_m = 1;
  int tile_n = 1;
  int tile_k = 1;
  int cluster_m = 1;
  int cluster_n = 1;
  int cluster_k = 1;
  int splits = 1;  ///< At most k_blocks(), times cluster_k.
  Raster raster = Raster::along_n;
  int raster_group = 1;    ///< Rows of clusters per band (grouped, serpentine).
  int swizzle_stride = 0;  ///< Elements of n per column group; 0 is off.
  Persistence persistence = Persistence::grid;
  Order k_order = Order::cyclic;

  /// Rows and columns of clusters over C.
  SWR_HD constexpr int rows() const { return ceil_div(m, tile_m * cluster_m); }
  SWR_HD constexpr int columns() const { return ceil_div(n, tile_n * cluster_n); }
  SWR_HD constexpr int k_blocks() const { return ceil_div(k, tile_k); }
  SWR_HD constexpr int ctas_per_cluster() const { return cluster_m * cluster_n * cluster_k; }

  SWR_HD constexpr long long cluster_tiles() const {
    return static_cast<long long>(rows()) * columns();
  }
  SWR_HD constexpr long long work_items() const { return cluster_tiles() * splits * batch; }

  /// Clusters of the launch. `workers` counts CTAs, for the persistent forms.
  SWR_HD constexpr long long clusters(int workers) const {
    return cta_count(persistence, work_items(), max_of(1, workers / ctas_per_cluster()));
  }

  /// Linear index of a cluster's local iteration (0, 1, ...), or -1 when the cluster is done.
  SWR_HD constexpr int work_at(long long cluster, long long clusters, int iteration) const {
    return static_cast<int>(cta_tile(persistence, cluster, clusters, iteration, work_items()));
  }

  /// The work of a linear index; the tile is in units of clusters.
  SWR_HD constexpr GemmWork work(int linear) const {
    const int tiles = rows() * columns();
    const int slice = linear / tiles;
    return {slice / splits, slice % splits,
            map_gemm_tile(linear - slice * tiles, rows(), columns(), raster, raster_group,
                          column_group_tiles(swizzle_stride, tile_n * cluster_n, columns()))};
  }

  /// The tile of C of one CTA of a cluster; ranks run along m, then n, then k. May lie outside C.
  SWR_HD constexpr GemmTile cta_tile_of(GemmTile cluster_tile, int rank) const {
    return {cluster_tile.m * cluster_m + rank % cluster_m,
            cluster_tile.n * cluster_n + rank / cluster_m % cluster_n};
  }
  /// Which of the cluster_k parts of a slab a CTA of a cluster takes.
  SWR_HD constexpr int k_part(int rank) const { return rank / (cluster_m * cluster_n); }

  /// The k-blocks of one part of a split.
  SWR_HD constexpr KSlab slab(int split, int part = 0) const {
    return k_slab(split * cluster_k + part, splits * cluster_k, k_blocks());
  }

  /// True when a cluster's local iteration walks its slab from last to first: with the sawtooth,
  /// a tile starts on the k-blocks the one before ended on, which may still be in L2.
  SWR_HD constexpr bool walks_backward(int iteration) const {
    return scans_backward(k_order, iteration);
  }
};

}  // namespace swr
