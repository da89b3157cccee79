// SPDX-License-Identifier: MIT
// The two matrix products of one warp, S = Q K^T and O += P V, from shared memory through ldmatrix
// into mma.sync m16n8k16. A warp owns C.m_blocks() blocks of 16 query rows.
#pragma once

#include "attention/config.h"
#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"

namespace swr::portable {

/// Scores [16 m_blocks, tile_n] of a warp: 8-column groups in the mma accumulator layout.
template <AttentionConfig C>
using Scores = float[C.m_blocks()][C.tile_n / 8][4];

/// Output [16 m_blocks, head_dim] of a warp, unnormalised, in the same layout.
template <AttentionConfig C>
using Output = float[C.m_blocks()][C.head_dim / 8][4];

/// The warp's rows of Q as operand A, 16 columns at a time. Kept in registers for the whole scan
/// when C.q_in_registers(), read again from shared memory otherwise.
template <AttentionConfig C>
class QueryFragments {
 public:
  /// `q_tile` is the shared address of the CTA's Q tile, `warp_row` the warp's first row in it.
  __device__ QueryFragments(unsigned q_tile, int warp_row) : q_tile_(q_tile), row_(warp_row) {}

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
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
      ptx::load_matrices(fragment[m],
                         q_tile_ + tile_offset<C>(row_ + 16 * m + lane % 16, 2 * step + lane / 16));
    }
  }

  unsigned q_tile_;
  int row_;
  unsigned kept_[C.q_in_registers() ? kSteps : 1][C.m_blocks()][4];
};

/// scores = Q K^T for the K tile at `k_tile`.
template <AttentionConfig C>
__device__ inline void multiply_q_k(Scores<C>& scores, const QueryFragments<C>& query,
                                    unsigned k_tile) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Matrices 0..3: (keys 0-7, columns 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
  const int key = lane % 8 + lane / 16 * 8;
  const int chunk = lane / 8 % 2;
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.tile_n / 8; ++n) {
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
    for (int n = 0; n < C.tile_n / 16; ++n) {
      unsigned k[4];
      ptx::load_matrices(k, k_tile + tile_offset<C>(16 * n + key, 2 * step + chunk));
#pragma unroll
      for (int m = 0; m < C.m_blocks(); ++m) {
        ptx::multiply_accumulate<C.dtype>(scores[m][2 * n], q[m], k[0], k[1]);
        ptx::multiply_accumulate<C.dtype>(scores[m][2 * n + 1], q[m], k[2], k[3]);
      }
    }
  }
}

/// output += P V for the V tile at `v_tile`. `probabilities` are the softmax numerators; the
/// accumulator layout of two 8-column groups is the operand layout of one 16-column step.
template <AttentionConfig C>
__device__ inline void multiply_p_v(Output<C>& output, const Scores<C>& probabilities,
                                    unsigned v_tile) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Transposed matrices 0..3: (keys 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
  const int key = lane % 16;
  const int chunk = lane / 16;
#pragma unroll
  for (int step = 0; step < C.tile_n / 16; ++step) {
    unsigned p[C.m_blocks()][4];
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
      const auto& left = probabilities[m][2 * step];
      const auto& right = probabilities[m][2 * step + 1];
      p[m][0] = ptx::pack<C.dtype>(left[0], left[1]);
      p[m][1] = ptx::pack<C.dtype>(left[2], left[3]);
      p[m][2] = ptx::pack<C.dtype>(right[0], right[1]);
      p[m][3] = ptx::pack<C.dtype>(right[2], right[3]);
    }
#pragma unroll
    for (int d = 0; d < C.head_dim / 16; ++d) {
      unsigned v[4];
      ptx::load_matrices_transposed(v, v_tile + tile_offset<C>(16 * step + key, 2 * d + chunk));
#pragma unroll
      for (int m = 0; m < C.m_blocks(); ++m) {
        ptx::multiply_accumulate<C.dtype>(output[m][2 * d], p[m], v[0], v[1]);
        ptx::multiply_accumulate<C.dtype>(output[m][2 * d + 1], p[m], v[2], v[3]);
      }
    }
  }
}

}  // namespace swr::portable
