// SPDX-License-Identifier: MIT
// What backward needs of every query row beside its Q and dO: the log-sum-exp, and D = rowsum(dO *
// O), which is what the softmax takes from dP (FlashAttention-2, section 3.1.2). In memory the two
// log-sum-exps of a pair of rows lie before their two Ds, so that a thread with both rows reads
// either kind at once.
#pragma once

#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>
#include <swr/axes.h>

namespace swr::portable {

struct RowStats {
  float lse_log2;  ///< +infinity for a row that sees no key: its P is then 0.
  float delta;     ///< D less the gradient of the log-sum-exp.
};

/// A row's log-sum-exp as the passes use it.
__device__ inline float lse_log2(float lse) {
  constexpr float kLog2E = 1.44269504088896341F;
  const float infinity = __int_as_float(0x7f800000);
  return lse == -infinity ? infinity : lse * kLog2E;
}

/// Where those of rows `row`, an even one, and the next lie.
__device__ inline float* stats_of(const AttentionBackwardParams& params, int head, int row) {
  return params.row_stats + (static_cast<long long>(head) * params.row_pitch + row) * 2;
}

template <DType Type>
__device__ inline float unpack(unsigned bits) {
  if constexpr (Type == DType::bf16) {
    return __uint_as_float(bits << 16);
  } else {
    return ptx::cvt_f32_f16(static_cast<unsigned short>(bits));
  }
}

/// The sum of the products of eight pairs of 16-bit elements.
template <DType Type>
__device__ inline float dot(const uint4& a, const uint4& b) {
  const unsigned left[4] = {a.x, a.y, a.z, a.w};
  const unsigned right[4] = {b.x, b.y, b.z, b.w};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(unpack<Type>(left[i] & 0xffffU), unpack<Type>(right[i] & 0xffffU), sum);
    sum = fmaf(unpack<Type>(left[i] >> 16), unpack<Type>(right[i] >> 16), sum);
  }
  return sum;
}

/// Eight elements that may lie at any multiple of `Alignment` bytes.
template <int Alignment>
__device__ inline uint4 load_elements(const char* global) {
  if constexpr (Alignment == 16) {
    return *reinterpret_cast<const uint4*>(global);
  } else {
    const auto* const elements = reinterpret_cast<const unsigned short*>(global);
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = elements[2 * i] | static_cast<unsigned>(elements[2 * i + 1]) << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// Sum over the four lanes that share a row of sums.
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

/// Those of a row from its rowsum(dO * O); for rows past the end such as give P = 0.
__device__ inline RowStats row_stats(const AttentionBackwardParams& params, int head, int row,
                                     float row_sum) {
  if (row >= params.seq_q) {
    return {__int_as_float(0x7f800000), 0.0F};
  }
  const long long index = static_cast<long long>(head) * params.seq_q + row;
  const float d_lse = params.d_lse == nullptr ? 0.0F : params.d_lse[index];
  return {lse_log2(params.lse[index]), row_sum - d_lse};
}

/// Leaves those of a row that exists for the pass over K and V tiles.
__device__ inline void leave_stats(const AttentionBackwardParams& params, int head, int row,
                                   RowStats stats) {
  if (row < params.seq_q) {
    float* const pair = stats_of(params, head, row & ~1) + (row & 1);
    pair[0] = stats.lse_log2;
    pair[2] = stats.delta;
  }
}

}  // namespace swr::portable
