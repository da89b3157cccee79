// SPDX-License-Identifier: MIT
// From scores to P, from dP to dS, and what the mask hides, in the registers of a consumer.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/products.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"

namespace swr::hopper {

/// Log-sum-exps or Ds of the thread's rows of a step. Those of 64 rows are read where an object is
/// made: between products, where they are used, they would wait for those that stand before them,
/// and later ones for them. Those of 128 take too many registers.
template <HopperKeyPassConfig C>
class RowValues {
 public:
  /// From `stats` on.
  __device__ __forceinline__ explicit RowValues(unsigned stats)
      : lane_(stats + threadIdx.x % 4 * (2 * backward::kStatsBytes)) {
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      held_[n] = load(n);
    }
  }
  /// Those of two neighbours of group `group` of eight rows.
  __device__ __forceinline__ float2 of_group(int group) const {
    return kHeld > 0 ? held_[group] : load(group);
  }

 private:
  static constexpr int kHeld = C.score_rows() <= 64 ? C.score_rows() / 8 : 0;

  __device__ __forceinline__ float2 load(int group) const {
    return ptx::ld_shared_v2_f32_in_place(lane_ + group * (8 * backward::kStatsBytes));
  }

  unsigned lane_;
  float2 held_[max_of(kHeld, 1)];
};

/// P from scores, in place.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void exponentiate(Weights<C>& p, const RowValues<C>& lse_log2,
                                             float scale_log2) {
#pragma unroll
  for (int n = 0; n < C.score_rows() / 8; ++n) {
    const float2 shift = lse_log2.of_group(n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      p[4 * n + i] =
          ptx::ex2_approx(fmaf(p[4 * n + i], scale_log2, i % 2 == 0 ? -shift.x : -shift.y));
    }
  }
}

/// dS from dP and P, in place.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void weigh(Weights<C>& ds, const Weights<C>& p,
                                      const RowValues<C>& deltas) {
#pragma unroll
  for (int n = 0; n < C.score_rows() / 8; ++n) {
    const float2 delta = deltas.of_group(n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ds[4 * n + i] = p[4 * n + i] * (ds[4 * n + i] - (i % 2 == 0 ? delta.x : delta.y));
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
