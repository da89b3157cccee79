// SPDX-License-Identifier: MIT
// The matrix products of one warp in attention backward, from shared memory through ldmatrix into
// mma.sync m16n8k16. Three forms make all of them: rows times rows (S, dP and their transposes),
// registers times columns (dV, dK, and dQ of the pass over Q tiles), columns times columns (dQ of
// the pass over K and V tiles).
#pragma once

#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"
#include "common/smem_layout.h"
#include <swr/axes.h>

namespace swr::portable {

/// Sums [16 Blocks, 8 Groups] of a warp in the mma accumulator layout: lane l holds columns 2 * (l
/// % 4) + {0, 1} of a group at row l / 4 of a block, and eight rows below.
template <int Blocks, int Groups>
using Sums = float[Blocks][Groups][4];

/// 16-bit elements [16 Blocks, 16] as operand A.
template <int Blocks>
using OperandA = unsigned[Blocks][4];

template <int Blocks, int Groups>
__device__ inline void clear(Sums<Blocks, Groups>& sums) {
#pragma unroll
  for (int m = 0; m < Blocks; ++m) {
#pragma unroll
    for (int n = 0; n < Groups; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[m][n][i] = 0.0F;
      }
    }
  }
}

/// Columns [16 step, 16 step + 16) of sums, rounded: the accumulator layout of two groups is that
/// of operand A.
template <DType Type, int Blocks, int Groups>
__device__ inline void round_to_operand(OperandA<Blocks>& operand, const Sums<Blocks, Groups>& sums,
                                        int step) {
#pragma unroll
  for (int m = 0; m < Blocks; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = sums[m][2 * step + i / 2] + i % 2 * 2;
      operand[m][i] = ptx::cvt_rn_x2<Type>(pair[0], pair[1]);
    }
  }
}

/// sums += A B with 16 of the inner dimension; `b` holds two groups of columns.
template <DType Type, int Blocks, int Groups>
__device__ inline void multiply_pair(Sums<Blocks, Groups>& sums, int pair,
                                     const OperandA<Blocks>& a, const unsigned (&b)[4]) {
#pragma unroll
  for (int m = 0; m < Blocks; ++m) {
    ptx::mma_m16n8k16<Type>(sums[m][2 * pair], a[m], b[0], b[1]);
    ptx::mma_m16n8k16<Type>(sums[m][2 * pair + 1], a[m], b[2], b[3]);
  }
}

/// sums = A B^T over all columns: rows [a_row, a_row + 16 Blocks) of the tile at `a`, rows [b_row,
/// b_row + 8 Groups) of the tile at `b`.
template <DType Type, TileLayout LayoutA, TileLayout LayoutB, int Blocks, int Groups>
__device__ inline void multiply_rows(Sums<Blocks, Groups>& sums, unsigned a, int a_row, unsigned b,
                                     int b_row) {
  static_assert(LayoutA.panel_chunks == LayoutB.panel_chunks);
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Matrices 0..3 of A: (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15); of B (0-7,
  // 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
  const LaneOffset<LayoutA> in_a(a_row + lane % 16, lane / 16);
  const LaneOffset<LayoutB> in_b(b_row + lane % 8 + lane / 16 * 8, lane / 8 % 2);
  clear(sums);
#pragma unroll
  for (int step = 0; step < LayoutA.panel_chunks / 2; ++step) {
    OperandA<Blocks> left;
#pragma unroll
    for (int m = 0; m < Blocks; ++m) {
      ptx::ldmatrix_x4(left[m], in_a.at(a, 16 * m, 2 * step));
    }
#pragma unroll
    for (int n = 0; n < Groups / 2; ++n) {
      unsigned right[4];
      ptx::ldmatrix_x4(right, in_b.at(b, 16 * n, 2 * step));
      multiply_pair<Type>(sums, n, left, right);
    }
  }
}

/// Where a lane finds 16 Pairs columns of a tile as operand B of multiply_columns, from chunk
/// `first_chunk` (even) on.
template <TileLayout Layout, int Pairs>
class ColumnSpan {
 public:
  __device__ ColumnSpan(unsigned tile, int first_chunk) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    // Transposed matrices 0..3: (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
    const LaneOffset<Layout> place(lane % 16, lane / 16);
    if constexpr (kInGroups) {
      addresses_[0] = place.at(tile, 0, first_chunk);
    } else {
#pragma unroll
      for (int pair = 0; pair < Pairs; ++pair) {
        addresses_[pair] = place.at(tile, 0, first_chunk + 2 * pair);
      }
    }
  }

  /// Rows [row, row + 16), `row` a multiple of 8, of columns [16 pair, 16 pair + 16).
  __device__ unsigned at(int row, int pair) const {
    constexpr TileLayout kPlain{Layout.rows, Layout.panel_chunks, false};
    if constexpr (kInGroups) {
      const int permuted = 2 * pair & (Layout.group() - 1);
      return (addresses_[0] ^ static_cast<unsigned>(permuted * kChunkBytes)) +
             static_cast<unsigned>(kPlain.offset(row, 2 * pair - permuted));
    } else {
      return addresses_[pair] + static_cast<unsigned>(kPlain.offset(row, 0));
    }
  }

 private:
  /// Spans then begin with a group of chunks that are permuted among themselves, and one address
  /// serves all columns.
  static constexpr bool kInGroups = 2 * Pairs % Layout.group() == 0;

  unsigned addresses_[kInGroups ? 1 : Pairs];
};

/// sums += A B with 16 of the inner dimension, rows [row, row + 16) of the tile that holds B.
template <DType Type, TileLayout Layout, int Pairs, int Blocks>
__device__ inline void multiply_columns(Sums<Blocks, 2 * Pairs>& sums, const OperandA<Blocks>& a,
                                        const ColumnSpan<Layout, Pairs>& b, int row) {
#pragma unroll
  for (int pair = 0; pair < Pairs; ++pair) {
    unsigned right[4];
    ptx::ldmatrix_x4_trans(right, b.at(row, pair));
    multiply_pair<Type>(sums, pair, a, right);
  }
}

}  // namespace swr::portable
