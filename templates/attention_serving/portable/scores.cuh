// SPDX-License-Identifier: MIT
// What happens to a tile of scores before the softmax: the softcap, then hiding what the mask
// hides. In this order, for hiding first would turn minus infinity into minus the cap.
#pragma once

#include "attention/portable/matrix.cuh"
#include "attention/portable/softmax.cuh"
#include "attention_serving/config.h"
#include "attention_serving/portable/fragments.cuh"
#include "attention_serving/softcap.cuh"
#include "common/serving_schedule.h"

namespace swr::serving {

/// Scores over the cap, to be multiplied with the cap by the softmax. `scale` is the softmax scale
/// over the cap.
template <ServingAttentionConfig C>
__device__ inline void cap_scores(typename Fragments<C>::Scores& scores, float scale) {
#pragma unroll
  for (int m = 0; m < C.qk().m_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.qk().warp_keys() / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[m][n][i] = capped<C.softcap>(scores[m][n][i] * scale);
      }
    }
  }
}

/// Sets hidden scores to minus infinity. `first_row` and `first_key` are the indices of the warp's
/// first row and of its first key of the tile in their sequence.
template <ServingAttentionConfig C>
__device__ inline void hide_scores(typename Fragments<C>::Scores& scores, int first_row,
                                   int first_key, const MaskedSequence& sequence) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int lane_key = first_key + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < C.qk().m_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const KeyRange keys = sequence.visible(first_row + 16 * m + 8 * half + lane / 4);
      const int end = keys.end - lane_key;
      const int first = keys.first - lane_key;
#pragma unroll
      for (int n = 0; n < C.qk().warp_keys() / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = 8 * n + i;
          if (key >= end || (C.mask == ServingMask::window && key < first)) {
            scores[m][n][2 * half + i] = portable::minus_infinity();
          }
        }
      }
    }
  }
}

}  // namespace swr::serving
