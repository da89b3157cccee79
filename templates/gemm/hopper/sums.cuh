// SPDX-License-Identifier: MIT
// The fp32 sums of a consumer warpgroup, and which element of C a register holds.
#pragma once

#include "common/hopper_ptx.cuh"
#include "gemm/hopper/config.h"

namespace swr::hopper {

/// Blocks of [64, tile_n]. Thread t holds rows 16 (t / 32) + t % 32 / 4 + {0, 8} of a block;
/// element 4 j + 2 h + i is column 8 j + 2 (t % 4) + i of the row half h.
template <HopperGemmConfig C>
using GemmSums = float[C.m_blocks()][C.tile_n / 2];

/// First of a warp's 16 rows of a block.
__device__ __forceinline__ int warp_row() { return static_cast<int>(threadIdx.x % 128 / 32 * 16); }
/// Of the first row half, counted from the warp's first row.
__device__ __forceinline__ int lane_row() { return static_cast<int>(threadIdx.x % 32 / 4); }
/// First column of the thread's pairs, counted from every eighth column.
__device__ __forceinline__ int lane_column() { return static_cast<int>(threadIdx.x % 4 * 2); }

/// Number of this CTA among those of its cluster that share a tile along k.
template <HopperGemmConfig C>
__device__ __forceinline__ int k_part() {
  return static_cast<int>(blockIdx.x % C.cluster_k);
}
/// True when this CTA writes the 16 rows that start at row `row` of its tile: all, or with
/// cluster_k every cluster_k-th.
template <HopperGemmConfig C>
__device__ __forceinline__ bool writes_rows(int row) {
  return C.cluster_k == 1 || row / 16 % C.cluster_k == k_part<C>();
}

template <HopperGemmConfig C>
__device__ __forceinline__ void clear(GemmSums<C>& sums) {
#pragma unroll
  for (int i = 0; i < C.m_blocks() * C.tile_n / 2; ++i) {
    sums[i / (C.tile_n / 2)][i % (C.tile_n / 2)] = 0.0F;
  }
}

template <HopperGemmConfig C>
__device__ __forceinline__ void pin_sums(GemmSums<C>& sums) {
#pragma unroll
  for (int block = 0; block < C.m_blocks(); ++block) {
    ptx::warpgroup_fence_operand(sums[block]);
  }
}

}  // namespace swr::hopper
