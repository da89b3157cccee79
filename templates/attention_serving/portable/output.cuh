// SPDX-License-Identifier: MIT
// How rows of O and their log-sum-exps are written, by whole tiles and by pieces of rows.
#pragma once

#include "attention/portable/matrix.cuh"
#include "attention/portable/partial_row.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_serving/config.h"
#include "attention_serving/item.cuh"
#include "attention_serving/portable/fragments.cuh"
#include "attention_serving/row_ends.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// Writes rows of the item's Q tile that are complete, eight columns at a time.
template <ServingAttentionConfig C>
class RowWriter {
 public:
  __device__ RowWriter(const ServingAttentionParams& params, const Item<C>& item)
      : target_(item.query_rows(params.o, params.o_strides)),
        ends_(params, item),
        first_row_(item.tile().index * C.tile_m) {}

  /// Normalises and writes what `chunk` names of row `row` of the tile.
  __device__ void operator()(int row, int chunk, const portable::PartialRow& values) const {
    const RowResult result = ends_.finish(first_row_ + row, values.shift, values.sum);
    char* const left = target_.address(first_row_ + row) + chunk * kQuadBytes;
    portable::copy_out<C.pv()>(left, packed(values.left, result.factor));
    portable::copy_out<C.pv()>(left + C.head_dim_v / 2 * kElementBytes,
                               packed(values.right, result.factor));
    if (chunk == 0) {
      ends_.write_lse(first_row_ + row, result);
    }
  }

 private:
  static constexpr int kQuadBytes = 4 * kElementBytes;

  __device__ static uint2 packed(const float4& values, float factor) {
    return make_uint2(ptx::cvt_rn_x2<C.dtype>(values.x * factor, values.y * factor),
                      ptx::cvt_rn_x2<C.dtype>(values.z * factor, values.w * factor));
  }

  typename Item<C>::QueryRows target_;
  RowEnds<C> ends_;
  int first_row_;
};

/// Normalises the warp's rows and writes them through its own rows of the Q tile at `q_tile`, which
/// all warps have read when rows of Q and of O are not equally long.
template <ServingAttentionConfig C>
__device__ inline void write_output(const ServingAttentionParams& params, const Item<C>& item,
                                    const typename Fragments<C>::Output& output,
                                    const typename Fragments<C>::Softmax& softmax, unsigned q_tile,
                                    int warp_row) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x % 32));
  const int first_row = item.tile().index * C.tile_m;
  const int q_rows = item.sequence().q_rows();
  const RowEnds<C> ends(params, item);
  if constexpr (C.head_dim != C.head_dim_v) {
    __syncthreads();
  } else {
    __syncwarp();
  }
#pragma unroll
  for (int m = 0; m < C.pv().m_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 16 * m + 8 * half + lane / 4;
      const float sum = portable::row_sum(softmax.sum[m][half]);
      const RowResult result = ends.finish(first_row + row, softmax.shift[m][half], sum);
#pragma unroll
      for (int d = 0; d < C.head_dim_v / 8; ++d) {
        const auto& sums = output[m][d];
        ptx::st_shared(q_tile + portable::tile_offset<C.pv()>(row, d) + lane % 4 * 4,
                       ptx::cvt_rn_x2<C.dtype>(sums[2 * half] * result.factor,
                                               sums[2 * half + 1] * result.factor));
      }
      if (lane % 4 == 0 && first_row + row < q_rows) {
        ends.write_lse(first_row + row, result);
      }
    }
  }
  __syncwarp();
  portable::copy_rows_out<C.pv(), 16 * C.pv().m_blocks()>(
      q_tile, item.query_rows(params.o, params.o_strides), first_row, warp_row, lane);
}

}  // namespace swr::serving
