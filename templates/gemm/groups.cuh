// SPDX-License-Identifier: MIT
// What a CTA of a grouped GEMM keeps in shared memory: up to which row of clusters each item goes.
#pragma once

#include "common/gemm_groups.h"
#include "common/ptx.cuh"
#include <swr/gemm_params.h>

namespace swr {

struct GroupEnds {
  unsigned table;  ///< kMostGroups words in shared memory.

  __device__ __forceinline__ int operator()(int item) const {
    return static_cast<int>(ptx::ld_shared_b32(table + 4 * item));
  }

  /// Fills the table, by one whole warp.
  template <GemmGroups Form>
  __device__ __forceinline__ void count(const GemmParams& params,
                                        const GemmSchedule& schedule) const {
    constexpr int kEach = 4;  ///< Neighbouring items of a lane: their loads are under way together.
    static_assert(kMostGroups % (32 * kEach) == 0, "every lane writes all of its words");
    const int lane = static_cast<int>(threadIdx.x % 32);
    int before = 0;
    for (int base = 0; base < params.batch; base += 32 * kEach) {
      const int first = base + lane * kEach;
      int rows[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const bool exists = first + i < params.batch;
        rows[i] = exists ? group_cluster_rows(group_rows(params, Form, first + i), schedule) : 0;
      }
      const int up_to_here = sum_up_to_lane(rows[0] + rows[1] + rows[2] + rows[3]);
      int end = before + up_to_here;
#pragma unroll
      for (int i = kEach - 1; i >= 0; --i) {
        ptx::st_shared(table + 4 * (first + i), static_cast<unsigned>(end));
        end -= rows[i];
      }
      before += __shfl_sync(0xffffffffU, up_to_here, 31);
    }
    __syncwarp();
  }

 private:
  /// The sum over this lane and those before.
  __device__ __forceinline__ static int sum_up_to_lane(int value) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_sync(0xffffffffU, value, max_of(0, lane - distance));
      value += lane >= distance ? other : 0;
    }
    return value;
  }
};

/// Scales of A's blocks of the matrices before `matrix`.
__device__ __forceinline__ long long block_scales_before(const GemmParams& params,
                                                         const GemmExtras& extras, int matrix) {
  return static_cast<long long>(matrix) * ceil_div(params.k, kScaleBlock) * extras.a_scale_stride;
}

/// Scales of rows and of blocks as they are of an item's matrices.
template <auto C>
__device__ __forceinline__ GemmExtras item_extras(GemmExtras extras, const GemmParams& params,
                                                  int item, int matrix) {
  const int columns = C.gated ? 2 * params.n : params.n;
  if constexpr (C.scaling == Scaling::row) {
    extras.a_scales += static_cast<long long>(matrix) * params.m;
    extras.b_scales += static_cast<long long>(item) * columns;
  } else if constexpr (C.scaling == Scaling::block) {
    extras.a_scales += block_scales_before(params, extras, matrix);
    extras.b_scales +=
        static_cast<long long>(item) * ceil_div(columns, kScaleBlock) * extras.b_scale_stride;
  }
  return extras;
}

}  // namespace swr
