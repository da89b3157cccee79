// SPDX-License-Identifier: MIT
// An item whose K and V tiles several CTAs have scanned, in parts of unequal size. Whoever comes
// last combines what all have left, always in the order of the keys, so that results do not depend
// on who that is (Dao et al., "Flash-Decoding for long-context inference"). There is no second
// kernel.
#pragma once

#include "attention/portable/key_groups.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/partial_row.cuh"
#include "attention/portable/softmax.cuh"
#include "attention_serving/config.h"
#include "attention_serving/item.cuh"
#include "attention_serving/portable/fragments.cuh"
#include "attention_serving/portable/output.cuh"
#include "attention_serving/row_ends.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// Where the parts meet in global memory: per part, at the slot that the schedule gives it, the
/// rows of O [tile_m, head_dim_v], then per row its shift and its sum; and the counter of the CTA
/// that has the first part.
template <ServingAttentionConfig C>
class SharedItem {
 public:
  __device__ SharedItem(const ServingAttentionParams& params, unsigned smem, const Item<C>& item)
      : params_(params),
        smem_(smem),
        item_(item),
        part_(item.part()),
        rows_(rows_of_tile<C>(item)) {}

  /// All threads of the CTA: leaves the warp's rows of this part and, in the CTA that comes last,
  /// writes O and the log-sum-exps.
  __device__ void leave_and_combine(const typename Fragments<C>::Output& output,
                                    const typename Fragments<C>::Softmax& softmax,
                                    portable::WarpPlace place) const {
    if constexpr (C.pv().key_groups() == 1) {
      leave(output, softmax, place.row);
    } else {
      portable::combine_key_groups<C.pv()>(
          smem_, output, softmax, place, rows_,
          [&](int row, int chunk, const portable::PartialRow& values) {
            leave(values, slot(part_.part), row, chunk);
          });
    }
    if (is_last()) {
      const RowWriter<C> write(params_, item_);
      portable::for_each_chunk<C.pv()>(
          rows_, [&](int row, int chunk) { write(row, chunk, gather(row, chunk)); });
    }
  }

 private:
  /// Parts of a row whose loads are under way together, ten registers each.
  static constexpr int kPartsAtOnce = 8;

  __device__ float* slot(int part) const {
    return params_.partials + static_cast<long long>(part_.slot(part)) * C.pv().partial_floats();
  }
  __device__ static float2* state(float* slot, int row) {
    return reinterpret_cast<float2*>(slot + C.tile_m * C.head_dim_v) + row;
  }

  __device__ void leave(const typename Fragments<C>::Output& output,
                        const typename Fragments<C>::Softmax& softmax, int warp_row) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const own = slot(part_.part);
#pragma unroll
    for (int m = 0; m < C.pv().m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = portable::row_sum(softmax.sum[m][half]);
        const int row = warp_row + 16 * m + 8 * half + lane / 4;
        if (row >= rows_) {
          continue;
        }
        float* const columns = own + row * C.head_dim_v + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < C.head_dim_v / 8; ++d) {
          __stcg(reinterpret_cast<float2*>(columns + 8 * d),
                 make_float2(output[m][d][2 * half], output[m][d][2 * half + 1]));
        }
        if (lane % 4 == 0) {
          __stcg(state(own, row), make_float2(softmax.shift[m][half], sum));
        }
      }
    }
  }
  __device__ static void leave(const portable::PartialRow& values, float* slot, int row,
                               int chunk) {
    auto* const left = reinterpret_cast<float4*>(slot + row * C.head_dim_v) + chunk;
    __stcg(left, values.left);
    __stcg(left + C.head_dim_v / 8, values.right);
    if (chunk == 0) {
      __stcg(state(slot, row), make_float2(values.shift, values.sum));
    }
  }

  /// Counts this CTA; the last one clears the counter for the launch to come. One thread publishes
  /// what all have left, and sees what others have, for the whole CTA: the barriers pass it on.
  __device__ bool is_last() const {
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* const arrivals = params_.arrivals + part_.first_worker;
      const bool last =
          ptx::atom_add_acq_rel(arrivals, 1U) + 1 == static_cast<unsigned>(part_.parts);
      if (last) {
        *arrivals = 0;
      }
      ptx::st_shared(item_.message(), last ? 1U : 0U);
    }
    __syncthreads();
    return ptx::ld_shared_b32(item_.message()) != 0;
  }

  __device__ portable::PartialRow gather(int row, int chunk) const {
    portable::PartialRow all;
#pragma unroll 1
    for (int first = 0; first < part_.parts; first += kPartsAtOnce) {
      portable::PartialRow parts[kPartsAtOnce];
#pragma unroll
      for (int i = 0; i < kPartsAtOnce; ++i) {
        if (first + i < part_.parts) {
          load(parts[i], slot(first + i), row, chunk);
        }
      }
      all.add(parts);
    }
    return all;
  }
  __device__ static void load(portable::PartialRow& values, float* slot, int row, int chunk) {
    const float2 shift_and_sum = __ldcg(state(slot, row));
    const auto* const left = reinterpret_cast<const float4*>(slot + row * C.head_dim_v) + chunk;
    values.shift = shift_and_sum.x;
    values.sum = shift_and_sum.y;
    values.left = __ldcg(left);
    values.right = __ldcg(left + C.head_dim_v / 8);
  }

  const ServingAttentionParams& params_;
  unsigned smem_;
  const Item<C>& item_;
  ItemPart part_;
  int rows_;  ///< Rows of the Q tile that exist.
};

}  // namespace swr::serving
