// SPDX-License-Identifier: MIT
// The results of a Q tile whose K and V tiles several CTAs have scanned. Whoever comes last
// combines what all have left, always in the order of the splits, so that results do not depend on
// who that is (Dao et al., "Flash-Decoding for long-context inference").
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "attention/portable/query_rows.cuh"
#include "attention/portable/softmax.cuh"
#include "common/ptx.cuh"
#include "common/schedule.h"
#include <swr/attention_params.h>

namespace swr::portable {

/// Eight neighbouring columns of one row of O, unnormalised, over some of its keys.
struct PartialRow {
  float shift;  ///< Numerators are 2 to the power of scaled scores less this.
  float sum;    ///< Of the row's numerators.
  float4 low;
  float4 high;

  /// Over no keys.
  __device__ PartialRow()
      : shift(kLowestShift), sum(0.0F), low{0.0F, 0.0F, 0.0F, 0.0F}, high(low) {}

  /// Adds further keys in the order of the parts, all under one shift, so that no exponential waits
  /// for another. A part without keys changes nothing.
  template <int Count>
  __device__ void add(const PartialRow (&parts)[Count]) {
    float raised = shift;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      raised = fmaxf(raised, parts[i].shift);
    }
    scale(ptx::exp2_approximate(shift - raised));
    shift = raised;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      add(parts[i], ptx::exp2_approximate(parts[i].shift - raised));
    }
  }

 private:
  __device__ void scale(float factor) {
    sum *= factor;
    low = {low.x * factor, low.y * factor, low.z * factor, low.w * factor};
    high = {high.x * factor, high.y * factor, high.z * factor, high.w * factor};
  }
  __device__ void add(const PartialRow& part, float factor) {
    sum = fmaf(part.sum, factor, sum);
    add(low, part.low, factor);
    add(high, part.high, factor);
  }
  __device__ static void add(float4& values, const float4& more, float factor) {
    values.x = fmaf(more.x, factor, values.x);
    values.y = fmaf(more.y, factor, values.y);
    values.z = fmaf(more.z, factor, values.z);
    values.w = fmaf(more.w, factor, values.w);
  }
};

/// Where the splits of one Q tile meet in global memory: per split the rows of O [tile_m,
/// head_dim], then per row its shift and its sum.
template <AttentionConfig C>
class SplitResults {
 public:
  /// `vote` is a word of shared memory that nobody else uses between the barriers of this object
  /// and the CTA's next one.
  __device__ SplitResults(const AttentionParams& params, unsigned vote, QTile tile)
      : params_(params),
        vote_(vote),
        tile_(tile),
        linear_(tile.head * work_items<C>(params).q_tiles + tile.index),
        rows_(min_of(C.tile_m, sequence_shape<C>(params).q_rows() - tile.index * C.tile_m)) {}

  /// All threads of the CTA: leaves the warp's rows of this split and, in the CTA that comes last,
  /// writes O and the log-sum-exps.
  __device__ void leave_and_combine(const Output<C>& output, const SoftmaxState<C>& softmax,
                                    int split, int warp_row) const {
    leave(output, softmax, split, warp_row);
    if (is_last()) {
      combine();
    }
  }

 private:
  /// Parts of a row whose loads are under way together, ten registers each: as many as need no more
  /// than the scores, O and Q of the main loop do with what it keeps beside them.
  static constexpr int kPartsAtOnce =
      C.accumulator_registers() + C.m_blocks() * C.head_dim / 4 > 100 ? 16 : 8;

  __device__ float* part(int split) const {
    return params_.partials +
           (static_cast<long long>(linear_) * params_.kv_splits + split) * C.partial_floats();
  }
  /// A row's shift and sum.
  __device__ static float2* state(float* part, int row) {
    return reinterpret_cast<float2*>(part + C.tile_m * C.head_dim) + row;
  }

  __device__ void leave(const Output<C>& output, const SoftmaxState<C>& softmax, int split,
                        int warp_row) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const own = part(split);
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = row_sum(softmax.sum[m][half]);
        const int row = warp_row + 16 * m + 8 * half + lane / 4;
        if (row >= rows_) {
          continue;
        }
        float* const columns = own + row * C.head_dim + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < C.head_dim / 8; ++d) {
          __stcg(reinterpret_cast<float2*>(columns + 8 * d),
                 make_float2(output[m][d][2 * half], output[m][d][2 * half + 1]));
        }
        if (lane % 4 == 0) {
          __stcg(state(own, row), make_float2(softmax.shift[m][half], sum));
        }
      }
    }
  }

  /// Counts this CTA; the last one clears the counter for the launch to come. One thread publishes
  /// what all have left, and sees what others have, for the whole CTA: the barriers pass it on.
  __device__ bool is_last() const {
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* const arrivals = params_.arrivals + linear_;
      const bool last =
          ptx::add_acquire_release(arrivals, 1U) + 1 == static_cast<unsigned>(params_.kv_splits);
      if (last) {
        *arrivals = 0;
      }
      ptx::store_shared(vote_, last ? 1U : 0U);
    }
    __syncthreads();
    return ptx::load_shared_word(vote_) != 0;
  }

  /// A thread takes 16 bytes of a row of O at a time.
  __device__ void combine() const {
    const auto target = query_rows<C>(params_.o, params_.o_strides, params_, tile_.head);
    const LogSumExps<C> lse(params_, tile_.head);
    const int first_row = tile_.index * C.tile_m;
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < rows_ * kChunksPerRow<C>;
         index += C.threads()) {
      const int row = index / kChunksPerRow<C>;
      const int chunk = index % kChunksPerRow<C>;
      const PartialRow all = gather(row, chunk);
      copy_chunk_out<C>(target.address(first_row + row) + chunk * kChunkBytes, normalised(all));
      if (chunk == 0 && lse.are_wanted()) {
        lse.write(first_row + row, log_sum_exp(all.shift, all.sum));
      }
    }
  }

  __device__ PartialRow gather(int row, int chunk) const {
    PartialRow all;
#pragma unroll 1
    for (int first = 0; first < params_.kv_splits; first += kPartsAtOnce) {
      PartialRow parts[kPartsAtOnce];
#pragma unroll
      for (int i = 0; i < kPartsAtOnce; ++i) {
        if (first + i < params_.kv_splits) {
          load(parts[i], part(first + i), row, chunk);
        }
      }
      all.add(parts);
    }
    return all;
  }

  __device__ static void load(PartialRow& values, float* part, int row, int chunk) {
    const float2 shift_and_sum = __ldcg(state(part, row));
    const auto* const columns =
        reinterpret_cast<const float4*>(part + row * C.head_dim + chunk * 8);
    values.shift = shift_and_sum.x;
    values.sum = shift_and_sum.y;
    values.low = __ldcg(columns);
    values.high = __ldcg(columns + 1);
  }

  __device__ static uint4 normalised(const PartialRow& row) {
    const float inverse = inverse_sum(row.sum);
    return make_uint4(ptx::pack<C.dtype>(row.low.x * inverse, row.low.y * inverse),
                      ptx::pack<C.dtype>(row.low.z * inverse, row.low.w * inverse),
                      ptx::pack<C.dtype>(row.high.x * inverse, row.high.y * inverse),
                      ptx::pack<C.dtype>(row.high.z * inverse, row.high.w * inverse));
  }

  const AttentionParams& params_;
  unsigned vote_;
  QTile tile_;
  int linear_;  ///< The tile's place among those of the launch.
  int rows_;    ///< Rows of the tile that exist.
};

}  // namespace swr::portable
