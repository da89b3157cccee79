// SPDX-License-Identifier: MIT
// dK and dV of an item: sums in registers, written as 16-bit elements through shared memory, or, in
// parts, as fp32 for the kernel that adds the parts up.
#pragma once

#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_backward/config.h"
#include "attention_backward/portable/key_work.cuh"
#include "attention_backward/portable/products.cuh"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// A warp's keys of dK and dV, and its columns.
template <KeyPassConfig C>
struct KeyGradients {
  Sums<C.key_blocks(), C.key_columns() / 8> dk = {};
  Sums<C.key_blocks(), C.value_columns() / 8> dv = {};
};

/// Rounds sums into the rows of a tile that the warp's keys are.
template <DType Type, TileLayout Layout, int Blocks, int Groups>
__device__ inline void store_sums(unsigned tile, const Sums<Blocks, Groups>& sums, WarpKeys place,
                                  float factor) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x % 32));
#pragma unroll
  for (int m = 0; m < Blocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.key + 16 * m + 8 * half + lane / 4;
#pragma unroll
      for (int n = 0; n < Groups; ++n) {
        ptx::st_shared(
            tile + static_cast<unsigned>(Layout.offset(row, place.group * Groups + n)) +
                static_cast<unsigned>(lane % 4 * 4),
            ptx::cvt_rn_x2<Type>(sums[m][n][2 * half] * factor, sums[m][n][2 * half + 1] * factor));
      }
    }
  }
}

/// Writes sums of keys that exist as fp32 rows of `columns` elements, from `target`, the first
/// key's, on.
template <int Blocks, int Groups>
__device__ inline void store_part(float* target, const Sums<Blocks, Groups>& sums, WarpKeys place,
                                  int columns, int keys_left) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x % 32));
#pragma unroll
  for (int m = 0; m < Blocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.key + 16 * m + 8 * half + lane / 4;
      if (row < keys_left) {
        float* const values = target + static_cast<long long>(row) * columns +
                              place.group * Groups * 8 + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < Groups; ++n) {
          __stcg(reinterpret_cast<float2*>(values + 8 * n),
                 make_float2(sums[m][n][2 * half], sums[m][n][2 * half + 1]));
        }
      }
    }
  }
}

/// Where parts of dK, and behind all of them parts of dV, lie.
__device__ inline float* part_rows(const AttentionBackwardParams& params, int part, int head,
                                   int row, int columns) {
  const long long rows = static_cast<long long>(params.batch) * params.heads_kv * params.seq_kv;
  return params.dkv_parts +
         (part * rows + static_cast<long long>(head) * params.seq_kv + row) * columns;
}
/// Floats of all parts of a tensor with so many columns.
__device__ inline long long part_floats(const AttentionBackwardParams& params, int columns) {
  return static_cast<long long>(params.parts) * params.batch * params.heads_kv * params.seq_kv *
         columns;
}

/// All threads of the CTA, done with K and V in shared memory, write dK and dV of the item.
template <KeyPassConfig C>
__device__ inline void write_gradients(const AttentionBackwardParams& params, unsigned smem,
                                       const KeyWork& work, WarpKeys place,
                                       const KeyGradients<C>& gradients) {
  const int first_key = work.tile.index * C.tile_n;
  if (params.parts > 1) {
    const int keys_left = params.seq_kv - first_key;
    store_part(part_rows(params, work.part, work.tile.head, first_key, C.head_dim), gradients.dk,
               place, C.head_dim, keys_left);
    store_part(part_rows(params, work.part, work.tile.head, first_key, C.value_dim) +
                   part_floats(params, C.head_dim),
               gradients.dv, place, C.value_dim, keys_left);
    return;
  }
  constexpr PortableAttentionConfig kKeyRows =
      backward::rows_config(C.head_dim, C.warps, C.alignment_bytes, C.smem_swizzle);
  constexpr PortableAttentionConfig kValueRows =
      backward::rows_config(C.value_dim, C.warps, C.alignment_bytes, C.smem_swizzle);
  constexpr int kRows = C.tile_n / C.warps;
  store_sums<C.dtype, C.k_layout()>(smem + C.k_offset(), gradients.dk, place, params.scale);
  store_sums<C.dtype, C.v_layout()>(smem + C.v_offset(), gradients.dv, place, 1.0F);
  __syncthreads();
  const int thread = ptx::opaque(static_cast<int>(threadIdx.x));
  const int warp = thread / 32;
  const int lane = thread % 32;
  copy_rows_out<kKeyRows, kRows>(
      smem + C.k_offset(),
      head_rows(params.dk, params.dk_strides, work.batch, work.head_kv, params.seq_kv), first_key,
      warp * kRows, lane);
  copy_rows_out<kValueRows, kRows>(
      smem + C.v_offset(),
      head_rows(params.dv, params.dv_strides, work.batch, work.head_kv, params.seq_kv), first_key,
      warp * kRows, lane);
}

}  // namespace swr::portable
