// SPDX-License-Identifier: MIT
// Attention backward for sm_80 to sm_121, the pass over Q tiles of BackwardForm::two_pass: dQ of a
// Q tile stays in registers while K and V tiles stream by, as O does in forward. Deterministic, no
// workspace but a pair per row, which it leaves for the pass over K and V tiles.
#pragma once

#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_backward/config.h"
#include "attention_backward/portable/products.cuh"
#include "attention_backward/portable/row_stats.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// P and dS of a warp: its rows, and keys_at_once keys of a tile.
template <QueryPassConfig C>
using RowWeights = Sums<C.row_blocks(), C.keys_at_once / 8>;

/// Brings Q and dO of a Q tile, and K and V tile by tile, to shared memory.
template <QueryPassConfig C>
class KeyStream {
 public:
  __device__ KeyStream(const AttentionBackwardParams& params, unsigned smem, int batch, int head,
                       int tiles, bool backward)
      : params_(params),
        smem_(smem),
        batch_(batch),
        head_(head),
        tiles_(tiles),
        backward_(backward) {}

  __device__ unsigned k(int step) const {
    return smem_ + static_cast<unsigned>(C.stages_offset()) +
           static_cast<unsigned>(step) % C.stages * static_cast<unsigned>(C.stage_bytes());
  }
  __device__ unsigned v(int step) const {
    return k(step) + static_cast<unsigned>(C.k_layout().panel_bytes());
  }
  __device__ int tile(int step) const { return kv_tile_at(step, tiles_, backward_); }

  __device__ void request_queries(int first_row) const {
    copy_tile_in<kKeyRows, C.tile_m>(
        smem_, head_rows(params_.q, params_.q_strides, batch_, head_, params_.seq_q), first_row,
        thread());
    copy_tile_in<kValueRows, C.tile_m>(
        smem_ + C.d_o_offset(),
        head_rows(params_.d_o, params_.d_o_strides, batch_, head_, params_.seq_q), first_row,
        thread());
  }
  /// K and V of a step; nothing past the last one.
  __device__ void request(int step) const {
    if (step < tiles_) {
      const int head_kv = head_ / (params_.heads_q / params_.heads_kv);
      const int first_key = tile(step) * C.tile_n;
      copy_tile_in<kKeyRows, C.tile_n>(
          k(step), head_rows(params_.k, params_.k_strides, batch_, head_kv, params_.seq_kv),
          first_key, thread());
      copy_tile_in<kValueRows, C.tile_n>(
          v(step), head_rows(params_.v, params_.v_strides, batch_, head_kv, params_.seq_kv),
          first_key, thread());
    }
    ptx::cp_async_commit_group();
  }

  static constexpr PortableAttentionConfig kKeyRows =
      backward::rows_config(C.head_dim, C.warps, C.alignment_bytes, C.smem_swizzle);
  static constexpr PortableAttentionConfig kValueRows =
      backward::rows_config(C.value_dim, C.warps, C.alignment_bytes, C.smem_swizzle);

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  const AttentionBackwardParams& params_;
  unsigned smem_;
  int batch_;
  int head_;
  int tiles_;
  bool backward_;
};

/// One Q tile.
template <QueryPassConfig C>
class QueryPass {
 public:
  __device__ QueryPass(const AttentionBackwardParams& params, unsigned smem, QTile tile,
                       bool backward)
      : params_(params),
        smem_(smem),
        tile_(tile),
        shape_{params.seq_q, params.seq_kv, C.causal},
        tiles_(kv_tile_count(tile.index, C.tile_m, C.tile_n, shape_)),
        warp_row_(static_cast<int>(threadIdx.x / 32) * 16 * C.row_blocks()),
        stream_(params, smem, tile.head / params.heads_q, tile.head % params.heads_q, tiles_,
                backward) {}

  __device__ void run() {
    stream_.request_queries(tile_.index * C.tile_m);
    stream_.request(0);
    ptx::cp_async_wait_group<0>();
    __syncthreads();
    load_stats();
#pragma unroll 1
    for (int step = 0; step < tiles_; ++step) {
      take(step);
    }
    ptx::cp_async_wait_group<0>();
    write_dq();
  }

 private:
  __device__ void take(int step) {
    ptx::cp_async_wait_group<0>();
    __syncthreads();  // K and V have arrived, and all are done with those before.
    if constexpr (C.stages == 2) {
      stream_.request(step + 1);
    }
    const int kv_tile = stream_.tile(step);
    const bool masked = needs_mask(tile_.index, kv_tile, C.tile_m, C.tile_n, shape_);
    const ColumnSpan<C.k_layout(), C.head_dim / 16> k(stream_.k(step), 0);
#pragma unroll
    for (int key = 0; key < C.tile_n; key += C.keys_at_once) {
      RowWeights<C> ds;
      compute_ds(ds, step, key, kv_tile * C.tile_n + key, masked);
#pragma unroll
      for (int part = 0; part < C.keys_at_once / 16; ++part) {
        OperandA<C.row_blocks()> left;
        round_to_operand<C.dtype>(left, ds, part);
        multiply_columns<C.dtype>(dq_, left, k, key + 16 * part);
      }
    }
    if constexpr (C.stages == 1) {
      __syncthreads();  // K and V have been read.
      stream_.request(step + 1);
    }
  }

  /// dS of keys [key, key + keys_at_once) of a tile; `first_key` is the first one's global index.
  __device__ void compute_ds(RowWeights<C>& ds, int step, int key, int first_key,
                             bool masked) const {
    RowWeights<C> scores;
    multiply_rows<C.dtype, C.q_layout(), C.k_layout()>(scores, smem_, warp_row_, stream_.k(step),
                                                       key);
    multiply_rows<C.dtype, C.d_o_layout(), C.v_layout()>(ds, smem_ + C.d_o_offset(), warp_row_,
                                                         stream_.v(step), key);
#pragma unroll
    for (int m = 0; m < C.row_blocks(); ++m) {
#pragma unroll
      for (int n = 0; n < C.keys_at_once / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const RowStats& row = stats_[m][i / 2];
          const float p = ptx::ex2_approx(fmaf(scores[m][n][i], params_.scale_log2, -row.lse_log2));
          ds[m][n][i] = p * (ds[m][n][i] - row.delta);
        }
      }
    }
    if (masked) {
      hide(ds, first_key);
    }
  }

  /// Sets dS of hidden pairs to 0, whatever it is.
  __device__ void hide(RowWeights<C>& ds, int first_key) const {
    const int lane_key = first_key + lane() % 4 * 2;
#pragma unroll
    for (int m = 0; m < C.row_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int visible = visible_keys(row(m, half), shape_) - lane_key;
#pragma unroll
        for (int n = 0; n < C.keys_at_once / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (8 * n + i >= visible) {
              ds[m][n][2 * half + i] = 0.0F;
            }
          }
        }
      }
    }
  }

  /// The pairs of the lane's rows, which it also leaves for the other pass.
  __device__ void load_stats() {
    const GlobalRows o = head_rows(params_.o, params_.o_strides, tile_.head / params_.heads_q,
                                   tile_.head % params_.heads_q, params_.seq_q);
#pragma unroll
    for (int m = 0; m < C.row_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = output_dot(o, m, half);
        stats_[m][half] = row_stats(params_, tile_.head, row(m, half), sum);
        if (lane() % 4 == 0) {
          leave_stats(params_, tile_.head, row(m, half), stats_[m][half]);
        }
      }
    }
  }

  /// rowsum(dO * O) of a row, in the four lanes that share it; dO is in shared memory.
  __device__ float output_dot(const GlobalRows& o, int m, int half) const {
    const int tile_row = warp_row_ + 16 * m + 8 * half + lane() / 4;
    float sum = 0.0F;
    if (row(m, half) < o.rows) {
      const char* const left = o.address(row(m, half));
#pragma unroll 4
      for (int chunk = lane() % 4; chunk < C.value_dim / 8; chunk += 4) {
        const uint4 right = ptx::ld_shared_v4_b32(
            smem_ + static_cast<unsigned>(C.d_o_offset() + C.d_o_layout().offset(tile_row, chunk)));
        sum += dot<C.dtype>(load_elements<C.alignment_bytes>(left + chunk * kChunkBytes), right);
      }
    }
    return quad_sum(sum);
  }

  /// Through the warp's own rows of the Q tile.
  __device__ void write_dq() const {
    __syncwarp();
#pragma unroll
    for (int m = 0; m < C.row_blocks(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int tile_row = warp_row_ + 16 * m + 8 * half + lane() / 4;
#pragma unroll
        for (int d = 0; d < C.head_dim / 8; ++d) {
          const auto& sums = dq_[m][d];
          ptx::st_shared(smem_ + static_cast<unsigned>(C.q_layout().offset(tile_row, d)) +
                             static_cast<unsigned>(lane() % 4 * 4),
                         ptx::cvt_rn_x2<C.dtype>(sums[2 * half] * params_.scale,
                                                 sums[2 * half + 1] * params_.scale));
        }
      }
    }
    __syncwarp();
    copy_rows_out<KeyStream<C>::kKeyRows, 16 * C.row_blocks()>(
        smem_,
        head_rows(params_.dq, params_.dq_strides, tile_.head / params_.heads_q,
                  tile_.head % params_.heads_q, params_.seq_q),
        tile_.index * C.tile_m, warp_row_, lane());
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  /// Global index of a row that the lane takes part in.
  __device__ int row(int m, int half) const {
    return tile_.index * C.tile_m + warp_row_ + 16 * m + 8 * half + lane() / 4;
  }

  const AttentionBackwardParams& params_;
  unsigned smem_;
  QTile tile_;
  SequenceShape shape_;
  int tiles_;
  int warp_row_;
  KeyStream<C> stream_;
  RowStats stats_[C.row_blocks()][2];
  Sums<C.row_blocks(), C.head_dim / 8> dq_ = {};
};

/// All Q tiles of this CTA.
template <QueryPassConfig C>
__device__ inline void run_query_pass(const AttentionBackwardParams& params, unsigned smem) {
  static_assert(C.is_whole(), "tiles and warps must divide");
  const WorkItems items{params.batch * params.heads_q, ceil_div(params.seq_q, C.tile_m)};
  for (int iteration = 0;; ++iteration) {
    const long long item = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, items.count());
    if (item < 0) {
      break;
    }
    const QTile tile =
        longest_first(map_tile(item, items.q_tiles, items.heads, params.q_section_heads),
                      items.q_tiles, C.causal);
    __syncthreads();  // The Q tile before has left shared memory.
    ptx::griddepcontrol_wait();
    if (item == 0 && threadIdx.x == 0 && params.item_counter != nullptr) {
      *params.item_counter = 0;
    }
    QueryPass<C>(params, smem, {ptx::redux_sync_or(tile.head), ptx::redux_sync_or(tile.index)},
                 scans_backward(C.order, iteration))
        .run();
  }
  ptx::griddepcontrol_launch_dependents();
}

/// The same where C, the configuration of a variant, has that pass; else nothing is compiled.
template <auto C>
__device__ inline void query_pass_of(const AttentionBackwardParams& params, unsigned smem) {
  if constexpr (C.has_query_pass()) {
    run_query_pass<C.query>(params, smem);
  }
}

}  // namespace swr::portable
