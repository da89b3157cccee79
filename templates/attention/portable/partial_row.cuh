// SPDX-License-Identifier: MIT
// A piece of a row of O over some of its keys: how pieces add up (Dao et al., "Flash-Decoding for
// long-context inference"), and how the sum over all keys is written.
#pragma once

#include "attention/config.h"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"

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

/// Rows of the target's Q tile that exist.
template <PortableAttentionConfig C, typename Target>
__device__ inline int rows_of_tile(const Target& target) {
  return min_of(C.tile_m, target.head_rows() - target.first_row());
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

/// Writes rows of a Q tile to O, and their log-sum-exps, eight columns at a time.
template <PortableAttentionConfig C, typename Target>
class RowWriter {
 public:
  __device__ explicit RowWriter(const Target& target)
      : rows_(target.output_rows()), ends_(target.ends()), first_row_(target.first_row()) {}

  /// Normalises and writes what `chunk` names of row `row` of the tile.
  __device__ void operator()(int row, int chunk, const PartialRow& values) const {
    const auto end = ends_.finish(first_row_ + row, values.shift, values.sum);
    char* const left = rows_.address(first_row_ + row) + chunk * kQuadBytes;
    copy_out<C>(left, packed(values.left, end.factor));
    copy_out<C>(left + C.head_dim / 2 * kElementBytes, packed(values.right, end.factor));
    if (chunk == 0) {
      ends_.write_lse(first_row_ + row, end);
    }
  }

 private:
  static constexpr int kElementBytes = 2;
  static constexpr int kQuadBytes = 4 * kElementBytes;

  __device__ static uint2 packed(const float4& values, float factor) {
    return make_uint2(ptx::cvt_rn_x2<C.dtype>(values.x * factor, values.y * factor),
                      ptx::cvt_rn_x2<C.dtype>(values.z * factor, values.w * factor));
  }

  typename Target::Rows rows_;
  typename Target::Ends ends_;
  int first_row_;
};

}  // namespace swr::portable
