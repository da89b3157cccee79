// SPDX-License-Identifier: MIT
// A piece of a row of O over some of its keys: how pieces add up (Dao et al., "Flash-Decoding for
// long-context inference"), and how the sum over all keys is written.
#pragma once

#include "attention/config.h"
#include "attention/portable/query_rows.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_params.h>

namespace swr::portable {

/// Eight columns of one row of O, unnormalised, over some of its keys: chunk c holds columns
/// [4c, 4c + 4) of the row's left half and of its right half. Neighbouring threads, which take
/// neighbouring chunks, so read and write neighbouring 16 bytes, and no sector of global memory is
/// asked for twice.
struct PartialRow {
  float shift;  ///< Numerators are 2 to the power of scaled scores less this.
  float sum;    ///< Of the row's numerators.
  float4 left;
  float4 right;

  /// Over no keys.
  __device__ PartialRow()
      : shift(kLowestShift), sum(0.0F), left{0.0F, 0.0F, 0.0F, 0.0F}, right(left) {}

  /// Adds further keys in the order of the parts, all under one shift, so that no exponential waits
  /// for another. A part without keys changes nothing.
  template <int Count>
  __device__ void add(const PartialRow (&parts)[Count]) {
    float raised = shift;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      raised = fmaxf(raised, parts[i].shift);
    }
    scale(ptx::ex2_approx(shift - raised));
    shift = raised;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      add(parts[i], ptx::ex2_approx(parts[i].shift - raised));
    }
  }

 private:
  __device__ void scale(float factor) {
    sum *= factor;
    left = {left.x * factor, left.y * factor, left.z * factor, left.w * factor};
    right = {right.x * factor, right.y * factor, right.z * factor, right.w * factor};
  }
  __device__ void add(const PartialRow& part, float factor) {
    sum = fmaf(part.sum, factor, sum);
    add(left, part.left, factor);
    add(right, part.right, factor);
  }
  __device__ static void add(float4& values, const float4& more, float factor) {
    values.x = fmaf(more.x, factor, values.x);
    values.y = fmaf(more.y, factor, values.y);
    values.z = fmaf(more.z, factor, values.z);
    values.w = fmaf(more.w, factor, values.w);
  }
};

/// Rows of a Q tile that exist.
template <PortableAttentionConfig C>
__device__ inline int rows_of_tile(const AttentionParams& params, QTile tile) {
  return min_of(C.tile_m, sequence_shape<C>(params).q_rows() - tile.index * C.tile_m);
}

/// All threads of the CTA: calls `take(row, chunk)` once for every PartialRow of the first `rows`
/// rows of a Q tile.
template <PortableAttentionConfig C, typename Take>
__device__ inline void for_each_chunk(int rows, const Take& take) {
#pragma unroll 1
  for (int index = static_cast<int>(threadIdx.x); index < rows * kChunksPerRow<C>;
       index += C.threads()) {
    take(index / kChunksPerRow<C>, index % kChunksPerRow<C>);
  }
}

/// Writes rows of a Q tile to O, and their log-sum-exps.
template <PortableAttentionConfig C>
class RowWriter {
 public:
  __device__ RowWriter(const AttentionParams& params, QTile tile)
      : target_(query_rows<C>(params.o, params.o_strides, params, tile.head)),
        lse_(params, tile.head),
        first_row_(tile.index * C.tile_m) {}

  /// Normalises and writes what `chunk` names of row `row` of the tile.
  __device__ void operator()(int row, int chunk, const PartialRow& values) const {
    const float inverse = inverse_sum(values.sum);
    char* const left = target_.address(first_row_ + row) + chunk * kQuadBytes;
    copy_out<C>(left, packed(values.left, inverse));
    copy_out<C>(left + C.head_dim / 2 * kElementBytes, packed(values.right, inverse));
    if (chunk == 0 && lse_.are_wanted()) {
      lse_.write(first_row_ + row, log_sum_exp(values.shift, values.sum));
    }
  }

 private:
  using Rows = decltype(query_rows<C>(nullptr, TensorStrides{}, AttentionParams{}, 0));

  static constexpr int kElementBytes = 2;
  static constexpr int kQuadBytes = 4 * kElementBytes;

  __device__ static uint2 packed(const float4& values, float inverse) {
    return make_uint2(ptx::cvt_rn_x2<C.dtype>(values.x * inverse, values.y * inverse),
                      ptx::cvt_rn_x2<C.dtype>(values.z * inverse, values.w * inverse));
  }

  Rows target_;
  LogSumExps<C> lse_;
  int first_row_;
};

}  // namespace swr::portable
