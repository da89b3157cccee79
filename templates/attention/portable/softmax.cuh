// SPDX-License-Identifier: MIT
// Online softmax over streamed K tiles (Sawtooth Wavefront Reordering, Algorithm 1; Milakov and
// Gimelshein, "Online normalizer calculation for softmax"). The row sum stays per lane until the
// end: it is linear, so the four lanes of a row are added once.
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"

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

/// The shift of a row that has not seen a score. Finite, which spares a test for minus infinity.
inline constexpr float kLowestShift = -3.402823466e38F;

/// What normalises a row: 0 for one that sees nothing. A NaN belongs into O and the log-sum-exp.
__device__ inline float inverse_sum(float sum) { return sum == 0.0F ? 0.0F : 1.0F / sum; }

/// Natural logarithm of the softmax' denominator, from the shift and sum of its numerators.
__device__ inline float log_sum_exp(float shift, float sum) {
  constexpr float kLn2 = 0.693147180559945F;
  return sum == 0.0F ? minus_infinity() : (shift + log2f(sum)) * kLn2;
}

/// Sets hidden scores to minus infinity. `first_row` and `first_key` are the indices of the warp's
/// first row and of its first key of the tile; `visible(row)` has the keys that a row sees, from the
/// first one on unless the mask is `Windowed`.
template <PortableAttentionConfig C, bool Windowed, typename Visible>
__device__ inline void hide_scores(Scores<C>& scores, int first_row, int first_key,
                                   const Visible& visible) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int lane_key = first_key + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto keys = visible(first_row + 16 * m + 8 * half + lane / 4);
      const int end = keys.end - lane_key;
      const int first = keys.first - lane_key;
#pragma unroll
      for (int n = 0; n < C.warp_keys() / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = 8 * n + i;
          if (key >= end || (Windowed && key < first)) {
            scores[m][n][2 * half + i] = minus_infinity();
          }
        }
      }
    }
  }
}

/// Reference point and sum of the numerators of each row a lane takes part in: two per 16-row
/// block. A numerator is exp2(scale_log2 * score - shift), with the row's maximum or a little less
/// as shift.
template <PortableAttentionConfig C>
struct SoftmaxState {
  float shift[C.m_blocks()][2];  ///< Equal in the row's four lanes; never minus infinity.
  float sum[C.m_blocks()][2];    ///< This lane's share.

  __device__ SoftmaxState() {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        shift[m][half] = kLowestShift;
        sum[m][half] = 0.0F;
      }
    }
  }

  /// Raises the shifts of rows that have outgrown theirs, and rescales what was accumulated under
  /// the old ones.
  __device__ void raise(const Scores<C>& scores, Output<C>& output, float scale_log2) {
    float highest[C.m_blocks()][2];
    bool outgrown = false;
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        highest[m][half] = highest_score(scores[m], half);
        outgrown |= fmaf(highest[m][half], scale_log2, -shift[m][half]) > kHeadroom;
      }
    }
    if (__any_sync(0xffffffffU, outgrown)) {
      raise_shifts(highest, output, scale_log2);
    }
  }

  /// The numerators of keys [16 step, 16 step + 16), added to the sums. The accumulator layout of
  /// two 8-column groups of scores is the operand layout of one 16-column step.
  __device__ void exponentiate(Numerators<C>& numerators, const Scores<C>& scores, int step,
                               float scale_log2) {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i % 2;
        const float* const pair = scores[m][2 * step + i / 2] + 2 * half;
        const float low = ptx::ex2_approx(fmaf(pair[0], scale_log2, -shift[m][half]));
        const float high = ptx::ex2_approx(fmaf(pair[1], scale_log2, -shift[m][half]));
        sum[m][half] += low + high;
        numerators[m][i] = ptx::cvt_rn_x2<C.dtype>(low, high);
      }
    }
  }

 private:
  /// A shift may lag behind its row's maximum by a factor of 2^8 in the numerators: they stay far
  /// from the largest fp16, and after the first tiles hardly any needs a rescaled output.
  static constexpr float kHeadroom = 8.0F;

  /// Over the four lanes of a row.
  __device__ static float highest_score(const float (&scores)[C.warp_keys() / 8][4], int half) {
    float highest = scores[0][2 * half];
#pragma unroll
    for (int n = 0; n < C.warp_keys() / 8; ++n) {
      highest = fmaxf(highest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    return row_maximum(highest);
  }

  __device__ void raise_shifts(const float (&highest)[C.m_blocks()][2], Output<C>& output,
                               float scale_log2) {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float raised = fmaxf(shift[m][half], highest[m][half] * scale_log2);
        const float rescale = ptx::ex2_approx(shift[m][half] - raised);
        shift[m][half] = raised;
        sum[m][half] *= rescale;
#pragma unroll
        for (int d = 0; d < C.head_dim / 8; ++d) {
          output[m][d][2 * half] *= rescale;
          output[m][d][2 * half + 1] *= rescale;
        }
      }
    }
  }
};

}  // namespace swr::portable
