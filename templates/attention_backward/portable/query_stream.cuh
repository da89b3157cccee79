// SPDX-License-Identifier: MIT
// Brings K and V of an item, and step by step Q, dO and the pairs of their rows, to shared memory.
#pragma once

#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_backward/config.h"
#include "attention_backward/portable/key_work.cuh"
#include "attention_backward/portable/row_stats.cuh"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// Shared addresses of what a step works on.
struct StepTiles {
  unsigned q;
  unsigned d_o;
  unsigned stats;
};

template <KeyPassConfig C>
class QueryStream {
 public:
  __device__ QueryStream(const AttentionBackwardParams& params, unsigned smem, const KeyWork& work)
      : params_(params), smem_(smem), work_(work) {}

  __device__ StepTiles tiles(int step) const {
    const unsigned q =
        smem_ + C.stages_offset() +
        static_cast<unsigned>(step) % C.stages * static_cast<unsigned>(C.stage_bytes());
    const unsigned d_o = q + static_cast<unsigned>(C.q_layout().panel_bytes());
    return {q, d_o, d_o + static_cast<unsigned>(C.d_o_layout().panel_bytes())};
  }

  /// K and V of the item.
  __device__ void request_tile() const {
    const int first = work_.tile.index * C.tile_n;
    const int of_item = ptx::opaque(thread());
    copy_tile_in<kKeyRows, C.tile_n>(
        smem_ + C.k_offset(), rows(params_.k, params_.k_strides, work_.head_kv, params_.seq_kv),
        first, of_item);
    copy_tile_in<kValueRows, C.tile_n>(
        smem_ + C.v_offset(), rows(params_.v, params_.v_strides, work_.head_kv, params_.seq_kv),
        first, of_item);
  }

  /// Q, dO and pairs of a step; nothing past the last one.
  __device__ void request(int step) const {
    if (step >= work_.steps.count) {
      return;
    }
    const backward::Place at = work_.place(step);
    const StepTiles target = tiles(step);
    const int first = at.q_tile * C.tile_m;
    const int head = work_.query_head(at.group_head);
    copy_tile_in<kKeyRows, C.tile_m>(
        target.q, rows(params_.q, params_.q_strides, head, params_.seq_q), first, thread());
    copy_tile_in<kValueRows, C.tile_m>(
        target.d_o, rows(params_.d_o, params_.d_o_strides, head, params_.seq_q), first, thread());
    request_stats(target.stats, batch_head(params_, work_, at.group_head), first);
  }

 private:
  static constexpr PortableAttentionConfig kKeyRows =
      backward::rows_config(C.head_dim, C.warps, C.alignment_bytes, C.smem_swizzle);
  static constexpr PortableAttentionConfig kValueRows =
      backward::rows_config(C.value_dim, C.warps, C.alignment_bytes, C.smem_swizzle);

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  __device__ GlobalRows rows(const void* tensor, const TensorStrides& strides, int head,
                             int count) const {
    return head_rows(tensor, strides, work_.batch, head, count);
  }

  /// A pair of rows is one copy, 0 where neither exists.
  __device__ void request_stats(unsigned target, int head, int first_row) const {
    constexpr int kCopies = C.tile_m * backward::kStatsBytes / kChunkBytes;
#pragma unroll
    for (int copy = thread(); copy < kCopies; copy += C.threads()) {
      const int row = first_row + 2 * copy;
      ptx::cp_async<kChunkBytes>(target + static_cast<unsigned>(copy * kChunkBytes),
                                 stats_of(params_, head, min_of(row, params_.seq_q - 1) & ~1),
                                 row < params_.seq_q ? kChunkBytes : 0);
    }
  }

  const AttentionBackwardParams& params_;
  unsigned smem_;
  const KeyWork& work_;
};

}  // namespace swr::portable
