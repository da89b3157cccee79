// SPDX-License-Identifier: MIT
// The results of a Q tile whose K and V tiles several CTAs have scanned. Whoever comes last combines
// what all have left, always in the order of the keys, so that results do not depend on who that is
// (Dao et al., "Flash-Decoding for long-context inference"). There is no second kernel.
#pragma once

#include "attention/config.h"
#include "attention/portable/key_groups.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/partial_row.cuh"
#include "attention/portable/softmax.cuh"
#include "common/ptx.cuh"

namespace swr::portable {

/// `Parts` says where the CTAs of one Q tile meet in global memory: `at(part)` has the rows of O
/// [tile_m, head_dim], then per row its shift and its sum; `own`, `count()`, the counter
/// `arrivals()`, and `message()`, a word of shared memory that nobody else uses between the barriers
/// of this object and the CTA's next one.
template <PortableAttentionConfig C, typename Parts, typename Target>
class SharedTile {
 public:
  __device__ SharedTile(const Parts& parts, const Target& target)
      : parts_(parts), target_(target), rows_(rows_of_tile<C>(target)) {}

  /// All threads of the CTA: leaves the warp's rows of this part and, in the CTA that comes last,
  /// writes O and the log-sum-exps. Key groups meet at `smem`.
  __device__ void leave_and_combine(unsigned smem, const Output<C>& output,
                                    const SoftmaxState<C>& softmax, WarpPlace place) const {
    if constexpr (C.key_groups() == 1) {
      leave(output, softmax, place.row);
    } else {
      combine_key_groups<C>(smem, output, softmax, place, rows_,
                            [&](int row, int chunk, const PartialRow& values) {
                              leave(values, parts_.at(parts_.own), row, chunk);
                            });
    }
    if (is_last()) {
      const RowWriter<C, Target> write(target_);
      for_each_chunk<C>(rows_, [&](int row, int chunk) { write(row, chunk, gather(row, chunk)); });
    }
  }

 private:
  /// A row's shift and sum.
  __device__ static float2* state(float* part, int row) {
    return reinterpret_cast<float2*>(part + C.tile_m * C.head_dim) + row;
  }

  __device__ void leave(const Output<C>& output, const SoftmaxState<C>& softmax,
                        int warp_row) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const own = parts_.at(parts_.own);
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

  __device__ static void leave(const PartialRow& values, float* part, int row, int chunk) {
    auto* const left = reinterpret_cast<float4*>(part + row * C.head_dim) + chunk;
    __stcg(left, values.left);
    __stcg(left + C.head_dim / 8, values.right);
    if (chunk == 0) {
      __stcg(state(part, row), make_float2(values.shift, values.sum));
    }
  }

  /// Counts this CTA; the last one clears the counter for the launch to come. One thread publishes
  /// what all have left, and sees what others have, for the whole CTA: the barriers pass it on.
  __device__ bool is_last() const {
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* const arrivals = parts_.arrivals();
      const bool last =
          ptx::atom_add_acq_rel(arrivals, 1U) + 1 == static_cast<unsigned>(parts_.count());
      if (last) {
        *arrivals = 0;
      }
      ptx::st_shared(parts_.message(), last ? 1U : 0U);
    }
    __syncthreads();
    return ptx::ld_shared_b32(parts_.message()) != 0;
  }

  __device__ PartialRow gather(int row, int chunk) const {
    PartialRow all;
#pragma unroll 1
    for (int first = 0; first < parts_.count(); first += Parts::kAtOnce) {
      PartialRow loaded[Parts::kAtOnce];
#pragma unroll
      for (int i = 0; i < Parts::kAtOnce; ++i) {
        if (first + i < parts_.count()) {
          load(loaded[i], parts_.at(first + i), row, chunk);
        }
      }
      all.add(loaded);
    }
    return all;
  }

  __device__ static void load(PartialRow& values, float* part, int row, int chunk) {
    const float2 shift_and_sum = __ldcg(state(part, row));
    const auto* const left = reinterpret_cast<const float4*>(part + row * C.head_dim) + chunk;
    values.shift = shift_and_sum.x;
    values.sum = shift_and_sum.y;
    values.left = __ldcg(left);
    values.right = __ldcg(left + C.head_dim / 8);
  }

  const Parts& parts_;
  const Target& target_;
  int rows_;  ///< Rows of the tile that exist.
};

}  // namespace swr::portable
