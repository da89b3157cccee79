// SPDX-License-Identifier: MIT
// Everything of a portable GEMM kernel that is fixed when it is compiled. Host code (constraints,
// launch) and the kernel derive every size from these functions.
#pragma once

#include "common/gemm_groups.h"
#include "common/gemm_schedule.h"
#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

namespace swr {

/// warps_m x warps_n warps compute equal parts of a tile of C from a ring of `stages` tiles of A
/// and B. Takes every m, n, k, stride and address that is a multiple of an element.
struct PortableGemmConfig {
  DType dtype;  ///< Of A and B.
  OutputType output;
  GemmLayout layout;
  bool reads_c;         ///< beta may differ from 0.
  int alignment_bytes;  ///< Of the addresses, rows and batch items of A, B and C: 2, 4, 8 or 16.
  int tile_m;           ///< A multiple of 16 warps_m.
  int tile_n;           ///< A multiple of 16 warps_n.
  int tile_k;           ///< 64 or 128 bytes.
  int warps_m;
  int warps_n;
  int stages;  ///< At least 2.
  Persistence persistence;
  Order k_order;
  bool split_k;
  Scaling scaling = Scaling::none;
  /// Elements of k that the tensor cores sum before fp32 takes over, whole k-blocks; 0: all.
  int promote_every = 0;
  bool has_bias = false;
  Activation activation = Activation::none;
  bool gated = false;  ///< B has the rows of the gate, then as many of `up` (nt).
  Scaling output_scaling = Scaling::none;  ///< Of a C of FP8: tensor or block.

  static constexpr bool kTakesMaps = false;
  GemmGroups groups = GemmGroups::none;

  SWR_HD constexpr bool a_along_k() const { return layout != GemmLayout::tn; }
  SWR_HD constexpr bool b_along_k() const { return layout == GemmLayout::nt; }
  SWR_HD constexpr int output_bytes() const { return swr::output_bytes(output); }
  SWR_HD constexpr int element_bytes() const { return swr::element_bytes(dtype); }
  /// Elements of k that one mma multiplies.
  SWR_HD constexpr int product_depth() const { return 32 / element_bytes(); }
  /// Columns of C of a tile, and of a warp, which have twice as many of a gated product.
  SWR_HD constexpr int c_columns() const { return gated ? tile_n / 2 : tile_n; }
  SWR_HD constexpr int warp_c_columns() const { return c_columns() / warps_n; }

  SWR_HD constexpr bool is_grouped() const { return groups != GemmGroups::none; }
  /// The first warp sums up the rows of all items before the CTA computes.
  SWR_HD constexpr bool counts_groups() const {
    return is_grouped() && groups != GemmGroups::contiguous;
  }

  SWR_HD constexpr int warps() const { return warps_m * warps_n; }
  SWR_HD constexpr int threads() const { return warps() * 32; }
  /// A warp's part of the tile, in the 16 x 8 blocks of one mma.
  SWR_HD constexpr int m_blocks() const { return tile_m / warps_m / 16; }
  SWR_HD constexpr int n_blocks() const { return tile_n / warps_n / 8; }
  /// fp32 sums per thread.
  SWR_HD constexpr int accumulator_registers() const {
    return m_blocks() * n_blocks() * (promote_every > 0 ? 8 : 4);
  }

  SWR_HD constexpr int a_tile_bytes() const { return tile_m * tile_k * element_bytes(); }
  SWR_HD constexpr int b_tile_bytes() const { return tile_n * tile_k * element_bytes(); }
  SWR_HD constexpr int stage_bytes() const { return a_tile_bytes() + b_tile_bytes(); }
  /// The ring, then a word by which the threads of a CTA agree who sums the splits.
  SWR_HD constexpr int vote_offset() const { return stages * stage_bytes(); }
  SWR_HD constexpr int groups_offset() const { return vote_offset() + 16; }
  SWR_HD constexpr int smem_bytes() const {
    return groups_offset() + (counts_groups() ? 4 * kMostGroups : 0);
  }

  SWR_HD constexpr GemmSchedule schedule(const GemmParams& params) const {
    return {.m = params.m,
            .n = gated ? 2 * params.n : params.n,
            .k = params.alpha == 0.0F ? 0 : params.k,  // Nothing is read, as in BLAS.
            .batch = params.batch,
            .tile_m = tile_m,
            .tile_n = tile_n,
            .tile_k = tile_k,
            .splits = split_k ? params.splits : 1,
            .raster = params.raster,
            .raster_group = params.raster_group,
            .swizzle_stride = params.swizzle_stride,
            .persistence = persistence,
            .k_order = k_order};
  }

  /// Bytes of GemmParams::partials and words of GemmParams::arrivals.
  SWR_HD constexpr long long partials_bytes(const GemmParams& params) const {
    return split_k ? schedule(params).cluster_tiles() * params.batch * params.splits * tile_m *
                         tile_n * 4
                   : 0;
  }
  SWR_HD constexpr long long arrival_words(const GemmParams& params) const {
    return split_k ? schedule(params).cluster_tiles() * params.batch : 0;
  }
};

}  // namespace swr
