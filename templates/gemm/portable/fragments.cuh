// SPDX-License-Identifier: MIT
// Operands of mma.sync from tiles in shared memory, whichever way they lie there, and the products
// of one tile.
#pragma once

#include "common/ptx.cuh"
#include "common/smem_layout.h"
#include "gemm/portable/config.h"

namespace swr::portable {

/// Sums of a warp: blocks of 16 x 8. Lane l holds elements 2 h + i of a block at row l / 4 + 8 h,
/// column 2 (l % 4) + i.
template <PortableGemmConfig C>
using Sums = float[C.m_blocks()][C.n_blocks()][4];

/// Operands of one product: 16 columns of k, 32 of FP8, whose fragments have the same bytes.
template <PortableGemmConfig C>
struct Fragments {
  unsigned a[C.m_blocks()][4];
  unsigned b[C.n_blocks() / 2][4];  ///< Two blocks of 8 columns each.
};

/// 16-byte chunks of a line of an operand contiguous along k.
template <PortableGemmConfig C>
inline constexpr int kLineChunks = C.tile_k* C.element_bytes() / kChunkBytes;

/// Rows 16 block to 16 block + 15 of A's tile, counted from the warp's first row.
template <PortableGemmConfig C>
__device__ inline void load_a(unsigned (&fragment)[4], unsigned tile, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Matrices 0..3: (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
  if constexpr (C.a_along_k()) {
    ptx::ldmatrix_x4(
        fragment, tile + smem_offset(row + lane % 16, 2 * step + lane / 16, kLineChunks<C>, true));
  } else {
    ptx::ldmatrix_x4_trans(
        fragment, tile + smem_offset(16 * step + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2,
                                     C.tile_m / 8, true));
  }
}

/// Columns `column` to `column` + 15 of B's tile.
template <PortableGemmConfig C>
__device__ inline void load_b(unsigned (&fragment)[4], unsigned tile, int column, int step) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Matrices 0..3: (columns 0-7, k 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
  if constexpr (C.b_along_k()) {
    ptx::ldmatrix_x4(fragment, tile + smem_offset(column + lane % 8 + lane / 16 * 8,
                                                  2 * step + lane / 8 % 2, kLineChunks<C>, true));
  } else {
    ptx::ldmatrix_x4_trans(
        fragment,
        tile + smem_offset(16 * step + lane % 16, column / 8 + lane / 16, C.tile_n / 8, true));
  }
}

template <PortableGemmConfig C>
__device__ inline void load_fragments(Fragments<C>& fragments, unsigned a_tile, unsigned b_tile,
                                      int row, int column, int step) {
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
    load_a<C>(fragments.a[m], a_tile, row + 16 * m, step);
  }
#pragma unroll
  for (int n = 0; n < C.n_blocks() / 2; ++n) {
    load_b<C>(fragments.b[n], b_tile, column + 16 * n, step);
  }
}

/// sums += A B over one tile; `row` and `column` are the warp's first. The operands of the next
/// product are loaded while these are multiplied.
template <PortableGemmConfig C>
__device__ inline void multiply_tile(Sums<C>& sums, unsigned a_tile, unsigned b_tile, int row,
                                     int column) {
  constexpr int kSteps = C.tile_k / C.product_depth();
  Fragments<C> fragments[2];
  load_fragments<C>(fragments[0], a_tile, b_tile, row, column, 0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step + 1 < kSteps) {
      load_fragments<C>(fragments[(step + 1) % 2], a_tile, b_tile, row, column, step + 1);
    }
    const Fragments<C>& now = fragments[step % 2];
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int n = 0; n < C.n_blocks(); ++n) {
        ptx::mma<C.dtype>(sums[m][n], now.a[m], now.b[n / 2][n % 2 * 2],
                          now.b[n / 2][n % 2 * 2 + 1]);
      }
    }
  }
}

}  // namespace swr::portable
