// SPDX-License-Identifier: MIT
// The two products of a consumer warpgroup, S = Q K^T and O += P V, as asynchronous wgmma. Tiles
// lie in shared memory as panels (config.h); descriptors name a panel's swizzle and strides (PTX
// ISA, "Matrix Descriptor Format" and "Strides").
#pragma once

#include "attention/hopper/config.h"
#include "common/hopper_ptx.cuh"
#include "common/wgmma_operand.cuh"
#include "common/wgmma_widths.cuh"

namespace swr::hopper {

/// Scores [64, tile_n] of a warpgroup. Thread t holds rows 16 (t / 32) + t % 32 / 4 + {0, 8};
/// element 4 j + 2 h + i is column 8 j + 2 (t % 4) + i of the row half h.
template <HopperAttentionConfig C>
using Scores = float[C.tile_n / 2];

/// Output [64, padded_head_dim], unnormalised, in the same layout.
template <HopperAttentionConfig C>
using Output = float[C.padded_head_dim() / 2];

/// Softmax numerators as operand A: pairs of columns, in the order of Scores.
template <HopperAttentionConfig C>
using Numerators = unsigned[C.tile_n / 4];

/// Issues scores = Q K^T, uncommitted.
template <HopperAttentionConfig C>
__device__ __forceinline__ void multiply_q_k(Scores<C>& scores, unsigned q_tile, unsigned k_tile) {
  constexpr int kLine = C.panel_columns() * 2;
  const unsigned long long q = descriptor<kLine>(q_tile, 0);
  const unsigned long long k = descriptor<kLine, C.kv_octet_bytes()>(k_tile, 0);
#pragma unroll
  for (int step = 0; step < (C.head_dim + 15) / 16; ++step) {
    const int panel = step * 32 / kLine;
    const int byte = step * 32 % kLine;
    const unsigned long long a = q + in_units(panel * 64 * kLine + byte);
    const unsigned long long b = k + in_units(panel * C.kv_panel_bytes() + byte);
    if (step == 0) {
      ptx::Wgmma<C.tile_n>::template mma_async<C.dtype, false, false>(scores, a, b);
    } else {
      ptx::Wgmma<C.tile_n>::template mma_async<C.dtype, true, false>(scores, a, b);
    }
  }
}

/// Issues output += P V with P in registers, uncommitted.
template <HopperAttentionConfig C>
__device__ __forceinline__ void multiply_p_v(Output<C>& output, const Numerators<C>& p,
                                             unsigned v_tile) {
  constexpr int kLine = C.panel_columns() * 2;
  const unsigned long long v = descriptor<kLine, C.kv_octet_bytes()>(v_tile, C.kv_panel_bytes());
#pragma unroll
  for (int step = 0; step < C.tile_n / 16; ++step) {
    const unsigned a[4] = {p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3]};
    ptx::Wgmma<C.padded_head_dim()>::template mma_async<C.dtype, true, true>(
        output, a, v + in_units(step * 2 * C.kv_octet_bytes()));
  }
}

/// The same with P in shared memory.
template <HopperAttentionConfig C>
__device__ __forceinline__ void multiply_p_v(Output<C>& output, unsigned p_tile, unsigned v_tile) {
  constexpr int kLine = C.panel_columns() * 2;
  constexpr int kPLine = C.p_panel_columns() * 2;
  const unsigned long long p = descriptor<kPLine>(p_tile, 0);
  const unsigned long long v = descriptor<kLine, C.kv_octet_bytes()>(v_tile, C.kv_panel_bytes());
#pragma unroll
  for (int step = 0; step < C.tile_n / 16; ++step) {
    const int panel = step * 32 / kPLine;
    const int byte = step * 32 % kPLine;
    ptx::Wgmma<C.padded_head_dim()>::template mma_async<C.dtype, true, true>(
        output, p + in_units(panel * 64 * kPLine + byte),
        v + in_units(step * 2 * C.kv_octet_bytes()));
  }
}

/// Shared address of 16-byte chunk `chunk` of row `row` in the 64-row panels at `tile`, whose lines
/// are `LineBytes` long: the hardware's swizzle, written out.
template <int LineBytes>
__device__ __forceinline__ unsigned panel_address(unsigned tile, int row, int chunk) {
  constexpr int kChunks = LineBytes / 16;
  const int panel = chunk / kChunks;
  const int line_chunk = chunk % kChunks ^ (row / (8 / kChunks) & (kChunks - 1));
  return tile + panel * 64 * LineBytes + row * LineBytes + line_chunk * 16;
}

/// Writes a warp's 16 rows of a packed [64, columns] tile (the order of Numerators) to panels.
template <int LineBytes, int Count>
__device__ __forceinline__ void store_panels(unsigned tile, const unsigned (&packed)[Count],
                                             int warp_row) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int step = 0; step < Count / 4; ++step) {
    ptx::stmatrix_x4(panel_address<LineBytes>(tile, warp_row + lane % 16, 2 * step + lane / 16),
                     packed[4 * step], packed[4 * step + 1], packed[4 * step + 2],
                     packed[4 * step + 3]);
  }
}

}  // namespace swr::hopper
