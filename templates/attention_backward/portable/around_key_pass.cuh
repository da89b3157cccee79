// SPDX-License-Identifier: MIT
// What stands before and after the pass over K and V tiles where it sums dQ or is dealt in parts:
// the pairs of the rows and empty sums; sums to 16-bit elements. C is a KeyPassConfig or a
// HopperKeyPassConfig.
#pragma once

#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_backward/config.h"
#include "attention_backward/portable/dq_sums.cuh"
#include "attention_backward/portable/key_gradients.cuh"
#include "attention_backward/portable/row_stats.cuh"
#include "attention_backward/schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// A Q tile of a CTA; the head is counted over the batch.
template <auto C>
__device__ inline QTile q_tile_of_cta(const AttentionBackwardParams& params) {
  const int q_tiles = ceil_div(params.seq_q, C.tile_m);
  const auto cta = static_cast<int>(blockIdx.x);
  return {cta / q_tiles, cta % q_tiles};
}

/// rowsum(dO * O) of a row, in all four lanes that share it. All lanes of the warp.
template <auto C>
__device__ inline float output_dot(const GlobalRows& o, const GlobalRows& d_o, int row) {
  float sum = 0.0F;
  if (row < o.rows) {
    const char* const left = o.address(row);
    const char* const right = d_o.address(row);
#pragma unroll 4
    for (int chunk = static_cast<int>(threadIdx.x % 4); chunk < C.value_dim / 8; chunk += 4) {
      sum += dot<C.dtype>(load_elements<C.alignment_bytes>(left + chunk * kChunkBytes),
                          load_elements<C.alignment_bytes>(right + chunk * kChunkBytes));
    }
  }
  return quad_sum(sum);
}

template <auto C>
__device__ inline void prepare_rows(const AttentionBackwardParams& params, QTile tile) {
  const int batch = tile.head / params.heads_q;
  const int head = tile.head % params.heads_q;
  const GlobalRows o = head_rows(params.o, params.o_strides, batch, head, params.seq_q);
  const GlobalRows d_o = head_rows(params.d_o, params.d_o_strides, batch, head, params.seq_q);
  const int first = tile.index * C.tile_m;
  for (int passed = static_cast<int>(threadIdx.x / 32) * 8; passed < C.tile_m;
       passed += C.warps * 8) {
    const int row = first + passed + static_cast<int>(threadIdx.x % 32 / 4);
    const float sum = output_dot<C>(o, d_o, row);
    if (threadIdx.x % 4 == 0) {
      leave_stats(params, tile.head, row, row_stats(params, tile.head, row, sum));
    }
  }
}

/// Sums of 0. Those beyond head_dim are padding.
template <auto C>
__device__ inline void clear_sums(const AttentionBackwardParams& params, QTile tile) {
  const DqShare<C> share(params, tile.head, tile.index);
  constexpr int kGroups = C.dq_columns() / 8;
  for (int index = 0; index < C.dq_fragments(); ++index) {
    if (share.column() + 8 * (index % kGroups) < C.head_dim) {
      share.clear(index);
    }
  }
}

/// Zeros for dQ of rows that nobody will add to.
template <auto C>
__device__ inline void clear_dq(const AttentionBackwardParams& params, QTile tile) {
  const DqShare<C> share(params, tile.head, tile.index);
  const float nothing[4] = {};
  for (int m = 0; m < C.dq_blocks(); ++m) {
    for (int n = 0; n < C.dq_columns() / 8; ++n) {
      share.write(m, n, nothing);
    }
  }
}

/// One CTA per Q tile, before the pass over K and V tiles.
template <auto C>
__device__ inline void prepare(const AttentionBackwardParams& params) {
  ptx::griddepcontrol_wait();
  const QTile tile = q_tile_of_cta<C>(params);
  if (C.draws_items() && blockIdx.x == 0 && threadIdx.x == 0) {
    *params.item_counter = 0;
  }
  if constexpr (C.dq_sum == DqSum::atomic) {
    clear_sums<C>(params, tile);
  }
  if constexpr (C.dq_sum == DqSum::ordered) {
    if (threadIdx.x % 32 == 0) {
      *DqShare<C>(params, tile.head, tile.index).turn() = 0;
    }
    const SequenceShape shape{params.seq_q, params.seq_kv, C.causal};
    if (backward::kv_tiles_of(tile.index, C.tile_m, C.tile_n, shape) == 0) {
      if constexpr (C.leaves_dq_sums()) {
        clear_sums<C>(params, tile);
      } else {
        clear_dq<C>(params, tile);
      }
    }
  }
  prepare_rows<C>(params, tile);
  ptx::griddepcontrol_launch_dependents();
}

/// The same unless C, the configuration of a variant, has a pass over Q tiles.
template <auto C>
__device__ inline void prepare_for(const AttentionBackwardParams& params) {
  if constexpr (!C.has_query_pass()) {
    prepare<C.key>(params);
  }
}

/// Sums of a Q tile to dQ. As many are read together as a compiler leaves together: it moves no
/// read before a write.
template <auto C>
__device__ inline void finish_dq(const AttentionBackwardParams& params) {
  const QTile tile = q_tile_of_cta<C>(params);
  const DqShare<C> share(params, tile.head, tile.index);
  constexpr int kGroups = C.dq_columns() / 8;
  constexpr int kFours = kGroups > 4 ? 2 : 1;
#pragma unroll
  for (int m = 0; m < C.dq_blocks(); ++m) {
#pragma unroll
    for (int first = 0; first < kGroups; first += 4 * kFours) {
      float values[kFours][4][4] = {};
#pragma unroll
      for (int i = 0; i < 4 * kFours; ++i) {
        if (share.has_group(first + i)) {
          share.read(m * kGroups + first + i, values[i / 4][i % 4]);
        }
      }
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        share.write_four(m, first + 4 * i, values[i]);
      }
    }
  }
}

/// Adds the parts of dK or dV of a K and V tile, in their order.
template <auto C, int Columns>
__device__ inline void add_parts(const AttentionBackwardParams& params, const float* parts,
                                 const GlobalRows& target, int head, int first_key, float factor) {
  constexpr int kQuads = Columns / 4;
  const long long part_stride =
      static_cast<long long>(params.batch) * params.heads_kv * params.seq_kv * Columns;
  const int rows = min_of(C.tile_n, params.seq_kv - first_key);
  for (int index = static_cast<int>(threadIdx.x); index < rows * kQuads;
       index += C.around_threads()) {
    const int row = first_key + index / kQuads;
    const int column = index % kQuads * 4;
    const float* source =
        parts + (static_cast<long long>(head) * params.seq_kv + row) * Columns + column;
    float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    // More would take registers from all CTAs, also those that have no parts.
#pragma unroll 4
    for (int part = 0; part < params.parts; ++part) {
      const float4 more = __ldcg(reinterpret_cast<const float4*>(source));
      sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
      source += part_stride;
    }
    constexpr int kElementBytes = 2;
    constexpr PortableAttentionConfig kRows =
        backward::rows_config(Columns, C.warps, C.alignment_bytes, C.smem_swizzle);
    copy_out<kRows>(target.address(row) + column * kElementBytes,
                    make_uint2(ptx::cvt_rn_x2<C.dtype>(sum.x * factor, sum.y * factor),
                               ptx::cvt_rn_x2<C.dtype>(sum.z * factor, sum.w * factor)));
  }
}

template <auto C>
__device__ inline void finish_dk_dv(const AttentionBackwardParams& params, int cta) {
  const int kv_tiles = ceil_div(params.seq_kv, C.tile_n);
  const int head = cta / kv_tiles;
  const int first_key = cta % kv_tiles * C.tile_n;
  const int batch = head / params.heads_kv;
  const int head_kv = head % params.heads_kv;
  add_parts<C, C.head_dim>(params, params.dkv_parts,
                           head_rows(params.dk, params.dk_strides, batch, head_kv, params.seq_kv),
                           head, first_key, params.scale);
  add_parts<C, C.value_dim>(params, params.dkv_parts + part_floats(params, C.head_dim),
                            head_rows(params.dv, params.dv_strides, batch, head_kv, params.seq_kv),
                            head, first_key, 1.0F);
}

/// After the pass over K and V tiles: where it leaves sums of dQ a CTA per Q tile, then with
/// several parts one per K and V tile.
template <auto C>
__device__ inline void finish(const AttentionBackwardParams& params) {
  ptx::griddepcontrol_wait();
  const int q_ctas =
      C.leaves_dq_sums() ? params.batch * params.heads_q * ceil_div(params.seq_q, C.tile_m) : 0;
  const auto cta = static_cast<int>(blockIdx.x);
  if (cta < q_ctas) {
    if constexpr (C.leaves_dq_sums()) {
      finish_dq<C>(params);
    }
  } else {
    finish_dk_dv<C>(params, cta - q_ctas);
  }
  ptx::griddepcontrol_launch_dependents();
}

}  // namespace swr::portable
