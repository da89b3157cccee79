// SPDX-License-Identifier: MIT
// From scores to P, from dP to dS, and what the mask hides, in the registers of a consumer.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/products.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"

namespace swr::hopper {

/// The pairs (log-sum-exp, D) of two neighbouring rows of the step, of group `group` of eight.
__device__ __forceinline__ float4 stats_pair(unsigned stats, int group) {
  const unsigned row = 8 * group + threadIdx.x % 4 * 2;
  return ptx::ld_shared_v4_f32(stats + row * backward::kStatsBytes);
}

/// P from scores, in place.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void exponentiate(Weights<C>& p, unsigned stats, float scale_log2) {
#pragma unroll
  for (int n = 0; n < C.score_rows() / 8; ++n) {
    const float4 pair = stats_pair(stats, n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      p[4 * n + i] =
          ptx::ex2_approx(fmaf(p[4 * n + i], scale_log2, i % 2 == 0 ? -pair.x : -pair.z));
    }
  }
}

/// dS from dP and P, in place.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void weigh(Weights<C>& ds, const Weights<C>& p, unsigned stats) {
#pragma unroll
  for (int n = 0; n < C.score_rows() / 8; ++n) {
    const float4 pair = stats_pair(stats, n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ds[4 * n + i] = p[4 * n + i] * (ds[4 * n + i] - (i % 2 == 0 ? pair.y : pair.w));
    }
  }
}

/// Sets weights of hidden pairs and of what lies past an end to 0, whatever they are. `first_row`
/// and `key` are the global indices of the first row and of the thread's first key.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void hide(Weights<C>& weights, int first_row, int key,
                                     SequenceShape shape) {
  const int lane_row = first_row + static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = key + 8 * half;
    const int first_seeing = C.causal ? own - (shape.seq_kv - shape.seq_q) : 0;
    const int begin = max_of(0, first_seeing) - lane_row;
    const int end = (own < shape.seq_kv ? shape.seq_q : 0) - lane_row;
#pragma unroll
    for (int n = 0; n < C.score_rows() / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * n + i < begin || 8 * n + i >= end) {
          weights[4 * n + 2 * half + i] = 0.0F;
        }
      }
    }
  }
}

}  // namespace swr::hopper
