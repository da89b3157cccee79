// SPDX-License-Identifier: MIT
// Online softmax over streamed K tiles (Sawtooth Wavefront Reordering, Algorithm 1; Milakov and
// Gimelshein, "Online normalizer calculation for softmax"). The row sum stays per lane until the
// end: it is linear, so the four lanes of a row are added once.
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "common/ptx.cuh"
#include "common/schedule.h"

namespace swr::portable {

/// Negative infinity without <math.h>.
__device__ inline float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000U)); }

/// Maximum over the four lanes that share a row.
__device__ inline float row_maximum(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}

/// Sum over the four lanes that share a row.
__device__ inline float row_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

/// Sets hidden scores to minus infinity. `first_row` and `first_key` are the global indices of the
/// warp's first row and of the tile's first key.
template <AttentionConfig C>
__device__ inline void mask_scores(Scores<C>& scores, int first_row, int first_key,
                                   SequenceShape shape) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.tile_n / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + 16 * m + lane / 4 + i / 2 * 8;
        const int key = first_key + 8 * n + lane % 4 * 2 + i % 2;
        if (!is_visible(row, key, shape)) {
          scores[m][n][i] = minus_infinity();
        }
      }
    }
  }
}

/// Running maximum and sum of each row a lane takes part in: two per 16-row block.
template <AttentionConfig C>
struct SoftmaxState {
  float maximum[C.m_blocks()][2];  ///< Of the unscaled scores, equal in the row's four lanes.
  float sum[C.m_blocks()][2];      ///< This lane's share.

  __device__ SoftmaxState() {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum[m][half] = minus_infinity();
        sum[m][half] = 0.0F;
      }
    }
  }

  /// Turns scores into numerators exp2(scale_log2 * (score - maximum)) and rescales what was
  /// accumulated under the old maximum.
  __device__ void update(Scores<C>& scores, Output<C>& output, float scale_log2) {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float shift = raise_maximum(scores[m], output[m], m, half, scale_log2);
        float added = 0.0F;
#pragma unroll
        for (int n = 0; n < C.tile_n / 8; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[m][n][i] = ptx::exp2_approximate(fmaf(scores[m][n][i], scale_log2, -shift));
            added += scores[m][n][i];
          }
        }
        sum[m][half] += added;
      }
    }
  }

 private:
  /// Returns the new maximum times scale_log2; 0 while every key of the row was hidden, so that
  /// minus infinity is never subtracted from itself.
  __device__ float raise_maximum(const float (&scores)[C.tile_n / 8][4],
                                 float (&output)[C.head_dim / 8][4], int m, int half,
                                 float scale_log2) {
    float highest = maximum[m][half];
#pragma unroll
    for (int n = 0; n < C.tile_n / 8; ++n) {
      highest = fmaxf(highest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    highest = row_maximum(highest);
    const float shift = highest == minus_infinity() ? 0.0F : highest * scale_log2;
    const float rescale = ptx::exp2_approximate(fmaf(maximum[m][half], scale_log2, -shift));
    maximum[m][half] = highest;
    sum[m][half] *= rescale;
#pragma unroll
    for (int d = 0; d < C.head_dim / 8; ++d) {
      output[d][2 * half] *= rescale;
      output[d][2 * half + 1] *= rescale;
    }
    return shift;
  }
};

}  // namespace swr::portable
