// SPDX-License-Identifier: MIT
// Online softmax over the rows of a consumer warpgroup (Milakov and Gimelshein, "Online normalizer
// calculation for softmax"), split into steps that the main loops place between the products. The
// row sum stays per thread until the end: it is linear, so the four threads of a row add once.
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/matrix.cuh"
#include "common/attention_schedule.h"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"

namespace swr::hopper {

/// Negative infinity without <math.h>.
__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(static_cast<int>(0xff800000U));
}

/// Maximum and sum over the four threads that share a row.
__device__ __forceinline__ float row_maximum(float value) {
  value = ptx::max_nan(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return ptx::max_nan(value, __shfl_xor_sync(0xffffffffU, value, 2));
}
__device__ __forceinline__ float row_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

/// Sets hidden scores to minus infinity. `row` is this thread's first row, `first_key` the tile's
/// first key.
template <HopperAttentionConfig C>
__device__ __forceinline__ void mask_scores(Scores<C>& scores, int row, int first_key,
                                            SequenceShape shape) {
  const int column = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int keys = shape.causal
                         ? min_of(shape.seq_kv, row + 8 * half + shape.seq_kv - shape.seq_q + 1)
                         : shape.seq_kv;
    const int visible = keys - first_key - column;
#pragma unroll
    for (int j = 0; j < C.tile_n / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * j + i >= visible) {
          scores[4 * j + 2 * half + i] = minus_infinity();
        }
      }
    }
  }
}

/// The state of the two rows a thread takes part in.
template <HopperAttentionConfig C>
class Softmax {
 public:
  __device__ __forceinline__ explicit Softmax(float scale_log2)
      : scale_log2_(scale_log2), slack_(kSlackLog2 / scale_log2) {
    reset();
  }

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum_[half] = needs_no_maximum() ? 0.0F : minus_infinity();
      sum_[half] = 0.0F;
      if constexpr (C.capped_scores) {
        shift_[half] = 0.0F;
        rescale_[half] = 1.0F;
      }
    }
  }

  /// Takes in the maximum of a tile's scores. A maximum that grew by no more than the slack is kept
  /// as it was: numerators then reach 2^kSlackLog2, which every type holds, and O needs no
  /// rescaling (FlashAttention-4 does the same).
  __device__ __forceinline__ void raise_maximum(const Scores<C>& scores) {
    if (needs_no_maximum()) {
      return;
    }
    bool raised = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = maximum_[half];
      const float highest = row_maximum(ptx::max_nan(before, thread_maximum(scores, half)));
      // False also when both are -infinity or one is NaN.
      const bool keep = highest - before <= slack_;
      raised = raised || !keep;
      maximum_[half] = keep ? before : highest;
      // 0 while every key of the row was hidden, so that infinities are never subtracted from each
      // other. NaN when a score is +infinity or NaN, which then spoils the row as it should.
      const bool none_seen = maximum_[half] == minus_infinity();
      shift_[half] =
          none_seen ? 0.0F : fmaf(maximum_[half], scale_log2_, maximum_[half] - maximum_[half]);
      rescale_[half] = ptx::ex2_approx(fmaf(before, scale_log2_, -shift_[half]));
      sum_[half] *= rescale_[half];
    }
    raised_ = __any_sync(0xffffffffU, raised) != 0;
  }

  /// Turns scores into numerators exp2(scale_log2 * (score - maximum)) and sums them.
  __device__ __forceinline__ void exponentiate(Scores<C>& scores) {
#pragma unroll
    for (int i = 0; i < C.tile_n / 2; ++i) {
      const int half = i / 2 % 2;
      const float x = fmaf(scores[i], scale_log2_, -shift_[half]);
      scores[i] = i % 8 < C.exp2_fma_eighths ? ptx::exp2_polynomial(x) : ptx::ex2_approx(x);
      sum_[half] += scores[i];
    }
  }

  /// Brings what was accumulated under the old maximum to the new one. The overlapped main loops
  /// skip it where they can; in the others it hides behind the exponentials, which a branch ends
  /// (H200, D 64, 192x128, plain: 505 TFLOP/s without the branch, 448 with it).
  __device__ __forceinline__ void rescale(Output<C>& output) const {
    if (!C.overlaps() || raised_) {
#pragma unroll
      for (int i = 0; i < C.padded_head_dim() / 2; ++i) {
        output[i] *= rescale_[i / 2 % 2];
      }
    }
  }

  /// Ends the scan: normalises `output` and returns the rows' log-sum-exp in `lse`.
  __device__ __forceinline__ void finish(Output<C>& output, float (&lse)[2]) const {
    constexpr float kLn2 = 0.693147180559945F;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(sum_[half]);
      // Not by the sum: the polynomial's smallest result is no zero.
      const bool empty = maximum_[half] == minus_infinity();
      inverse[half] = empty ? 0.0F : 1.0F / sum;
      lse[half] = empty ? minus_infinity() : (maximum_[half] * scale_log2_ + log2f(sum)) * kLn2;
    }
    scale(output, inverse);
  }

  /// What finish() works from, for those who end a scan otherwise. The shift of a row that has seen
  /// no key is finite and lower than any score, its sum 0.
  __device__ __forceinline__ float shift_log2(int half) const {
    constexpr float kLowest = -3.402823466e38F;
    if (needs_no_maximum()) {
      return row_sum(sum_[half]) == 0.0F ? kLowest : 0.0F;
    }
    return maximum_[half] == minus_infinity() ? kLowest : maximum_[half] * scale_log2_;
  }
  /// Of the whole row: all four threads take part.
  __device__ __forceinline__ float sum(int half) const {
    const float sum = row_sum(sum_[half]);
    return maximum_[half] == minus_infinity() ? 0.0F : sum;
  }
  __device__ __forceinline__ static void scale(Output<C>& output, const float (&factors)[2]) {
#pragma unroll
    for (int i = 0; i < C.padded_head_dim() / 2; ++i) {
      output[i] *= factors[i / 2 % 2];
    }
  }

 private:
  /// Numerators then lie between 2^-80 and 2^80 whatever the scores: fp32 holds the sum of 2^40 of
  /// them, and products with any V that bf16 tells from 0 beside 1.
  __device__ __forceinline__ bool needs_no_maximum() const {
    constexpr float kMostLog2 = 80.0F;
    return C.capped_scores && scale_log2_ <= kMostLog2;
  }

  /// Four chains, so that the latency of one comparison hides behind the others.
  __device__ __forceinline__ static float thread_maximum(const Scores<C>& scores, int half) {
    float chains[4];
#pragma unroll
    for (int chain = 0; chain < 4; ++chain) {
      chains[chain] = scores[chain / 2 * 4 + 2 * half + chain % 2];
    }
#pragma unroll
    for (int j = 2; j < C.tile_n / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& chain = chains[j % 2 * 2 + i];
        chain = ptx::max_nan(chain, scores[4 * j + 2 * half + i]);
      }
    }
    return ptx::max_nan(ptx::max_nan(chains[0], chains[1]), ptx::max_nan(chains[2], chains[3]));
  }

  static constexpr float kSlackLog2 = 8.0F;

  float scale_log2_;
  float slack_;          ///< kSlackLog2 in units of unscaled scores.
  bool raised_ = false;  ///< Some row of the warp has a new maximum.
  float maximum_[2];     ///< Of the unscaled scores, equal in the row's four threads.
  float sum_[2];         ///< This thread's share.
  float shift_[2];       ///< Maximum times scale_log2.
  float rescale_[2];     ///< exp2(old shift - new shift).
};

/// Rounds numerators, or the output, to pairs of 16-bit elements.
template <DType Type, int Count>
__device__ __forceinline__ void pack_pairs(unsigned (&packed)[Count],
                                           const float (&values)[2 * Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    packed[i] = ptx::cvt_rn_x2<Type>(values[2 * i], values[2 * i + 1]);
  }
}

}  // namespace swr::hopper
