// SPDX-License-Identifier: MIT
// Warps that have scanned different keys for the same rows add up what they found, in shared
// memory. A tile of keys is then the work of all warps even where decoding has one block of rows,
// which a single warp multiplies more slowly than memory delivers.
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "attention/portable/partial_row.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"
#include "common/tma_ptx.cuh"

namespace swr::portable {

/// The rows that the key groups of a CTA leave in shared memory at `smem`, over the Q tile and the
/// rings: C.group_results_bytes() bytes. A row holds its columns, its shift and sum, and padding:
/// neither the lanes that write pairs of eight rows nor the threads that read four columns each
/// then meet in a bank.
template <PortableAttentionConfig C>
class GroupResults {
 public:
  __device__ explicit GroupResults(unsigned smem) : smem_(smem) {}

  /// The warp's rows, in the accumulator layout.
  __device__ void leave(const Output<C>& output, const SoftmaxState<C>& softmax,
                        WarpPlace place) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int group = place.key / C.warp_keys();
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = row_sum(softmax.sum[m][half]);
        const unsigned row = row_at(group, place.row + 16 * m + 8 * half + lane / 4);
#pragma unroll
        for (int d = 0; d < C.head_dim / 8; ++d) {
          ptx::st_shared(row + static_cast<unsigned>((8 * d + lane % 4 * 2) * kFloatBytes),
                         make_float2(output[m][d][2 * half], output[m][d][2 * half + 1]));
        }
        if (lane % 4 == 0) {
          ptx::st_shared(row + kStateOffset, make_float2(softmax.shift[m][half], sum));
        }
      }
    }
  }

  /// What `chunk` names of a row, over the keys of all groups, added in their order.
  __device__ PartialRow gather(int row, int chunk) const {
    PartialRow parts[C.key_groups()];
#pragma unroll
    for (int group = 0; group < C.key_groups(); ++group) {
      load(parts[group], row_at(group, row), chunk);
    }
    PartialRow all;
    all.add(parts);
    return all;
  }

 private:
  static constexpr int kFloatBytes = 4;
  static constexpr unsigned kStateOffset = C.head_dim * kFloatBytes;

  __device__ unsigned row_at(int group, int row) const {
    return smem_ + static_cast<unsigned>((group * C.tile_m + row) * C.group_row_bytes());
  }
  __device__ static void load(PartialRow& values, unsigned row, int chunk) {
    const unsigned left = row + static_cast<unsigned>(chunk * 4 * kFloatBytes);
    const float4 state = ptx::ld_shared_v4_f32(row + kStateOffset);
    values.shift = state.x;
    values.sum = state.y;
    values.left = ptx::ld_shared_v4_f32(left);
    values.right = ptx::ld_shared_v4_f32(left + C.head_dim / 2 * kFloatBytes);
  }

  unsigned smem_;
};

/// All threads of the CTA, once their copies have arrived: adds up what the key groups have found
/// in `smem`, and calls `take(row, chunk, values)` once for every PartialRow of the first `rows`
/// rows of the tile.
template <PortableAttentionConfig C, typename Take>
__device__ inline void combine_key_groups(unsigned smem, const Output<C>& output,
                                          const SoftmaxState<C>& softmax, WarpPlace place, int rows,
                                          const Take& take) {
  const GroupResults<C> results(smem);
  __syncthreads();  // Every warp is done with K and V.
  results.leave(output, softmax, place);
  __syncthreads();
  for_each_chunk<C>(rows,
                    [&](int row, int chunk) { take(row, chunk, results.gather(row, chunk)); });
  if constexpr (C.uses_tma()) {
    ptx::fence_proxy_async();  // The copy engine writes here next.
  }
}

}  // namespace swr::portable
