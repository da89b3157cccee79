// SPDX-License-Identifier: MIT
// The two matrix products of one warp, S = Q K^T and O += P V, from shared memory through ldmatrix
// into mma.sync m16n8k16. A warp owns C.m_blocks() blocks of 16 query rows, and of every tile
// C.warp_keys() keys.
#pragma once

#include "attention/config.h"
#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"

namespace swr::portable {

/// What a warp takes: its first row in the Q tile, and its first key in every K and V tile.
struct WarpPlace {
  int row;
  int key;
};

template <PortableAttentionConfig C>
__device__ inline WarpPlace warp_place(int warp) {
  constexpr int kRows = 16 * C.m_blocks();
  if constexpr (C.key_groups() == 1) {
    return {warp * kRows, 0};
  } else {
    return {warp % C.row_warps() * kRows, warp / C.row_warps() * C.warp_keys()};
  }
}

/// Scores [16 m_blocks, warp_keys] of a warp: 8-column groups in the mma accumulator layout.
template <PortableAttentionConfig C>
using Scores = float[C.m_blocks()][C.warp_keys() / 8][4];

/// Output [16 m_blocks, head_dim] of a warp, unnormalised, in the same layout.
template <PortableAttentionConfig C>
using Output = float[C.m_blocks()][C.head_dim / 8][4];

/// The warp's rows of Q as operand A, 16 columns at a time. Kept in registers for the whole scan
/// when C.q_in_registers(), read again from shared memory otherwise.
template <PortableAttentionConfig C>
class QueryFragments {
 public:
  /// `q_tile` is the shared address of the CTA's Q tile, `warp_row` the warp's first row in it.
  __device__ QueryFragments(unsigned q_tile, int warp_row, int lane)
      : q_tile_(q_tile), lane_(warp_row + lane % 16, lane / 16) {}

  /// Call once the Q tile has arrived.
  __device__ void load() {
    if constexpr (C.q_in_registers()) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        read(kept_[step], step);
      }
    }
  }

  /// Columns [16 step, 16 step + 16) of every block.
  __device__ void get(unsigned (&fragment)[C.m_blocks()][4], int step) const {
    if constexpr (C.q_in_registers()) {
#pragma unroll
      for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          fragment[m][i] = kept_[step][m][i];
        }
      }
    } else {
      read(fragment, step);
    }
  }

 private:
  static constexpr int kSteps = C.head_dim / 16;

  /// Matrices 0..3 of ldmatrix: (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
  __device__ void read(unsigned (&fragment)[C.m_blocks()][4], int step) const {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
      ptx::ldmatrix_x4(fragment[m], lane_.at(q_tile_, 16 * m, 2 * step));
    }
  }

  unsigned q_tile_;
  LaneOffset<C.q_layout()> lane_;
  unsigned kept_[C.q_in_registers() ? kSteps : 1][C.m_blocks()][4];
};

/// scores = Q K^T for the warp's keys of the K tile at `k_tile`, which begin with `first_key`.
template <PortableAttentionConfig C>
__device__ inline void multiply_q_k(Scores<C>& scores, const QueryFragments<C>& query,
                                    unsigned k_tile, int first_key) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Matrices 0..3: (keys 0-7, columns 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
  const LaneOffset<C.kv_layout()> place(first_key + lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.warp_keys() / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[m][n][i] = 0.0F;
      }
    }
  }
#pragma unroll
  for (int step = 0; step < C.head_dim / 16; ++step) {
    unsigned q[C.m_blocks()][4];
    query.get(q, step);
#pragma unroll
    for (int n = 0; n < C.warp_keys() / 16; ++n) {
      unsigned k[4];
      ptx::ldmatrix_x4(k, place.at(k_tile, 16 * n, 2 * step));
#pragma unroll
      for (int m = 0; m < C.m_blocks(); ++m) {
        ptx::mma_m16n8k16<C.dtype>(scores[m][2 * n], q[m], k[0], k[1]);
        ptx::mma_m16n8k16<C.dtype>(scores[m][2 * n + 1], q[m], k[2], k[3]);
      }
    }
  }
}

/// Softmax numerators of 16 keys as operand A.
template <PortableAttentionConfig C>
using Numerators = unsigned[C.m_blocks()][4];

/// output += P V for the warp's keys of the V tile at `v_tile`, which begin with `first_key`.
/// `numerators(p, step)` gives P of its keys [16 step, 16 step + 16): asked for just before they
/// are multiplied, so that the exponentials of a step run under the products of another.
template <PortableAttentionConfig C, typename NumeratorsOf>
__device__ inline void multiply_p_v(Output<C>& output, const NumeratorsOf& numerators,
                                    unsigned v_tile, int first_key) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Transposed matrices 0..3: (keys 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
  const LaneOffset<C.kv_layout()> place(first_key + lane % 16, lane / 16);
#pragma unroll
  for (int step = 0; step < C.warp_keys() / 16; ++step) {
    Numerators<C> p;
    numerators(p, step);
#pragma unroll
    for (int d = 0; d < C.head_dim / 16; ++d) {
      unsigned v[4];
      ptx::ldmatrix_x4_trans(v, place.at(v_tile, 16 * step, 2 * d));
#pragma unroll
      for (int m = 0; m < C.m_blocks(); ++m) {
        ptx::mma_m16n8k16<C.dtype>(output[m][2 * d], p[m], v[0], v[1]);
        ptx::mma_m16n8k16<C.dtype>(output[m][2 * d + 1], p[m], v[2], v[3]);
      }
    }
  }
}

}  // namespace swr::portable
