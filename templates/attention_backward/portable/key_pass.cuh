// SPDX-License-Identifier: MIT
// Attention backward for sm_80 to sm_121, the pass over K and V tiles: dK and dV of a tile stay in
// registers while the Q tiles of all query heads of its group stream by (FlashAttention-2,
// Algorithm 2, with S and dP transposed so that P^T and dS^T are operands where they arise). dQ of
// every step is added to fp32 sums in global memory, or left to the pass over Q tiles.
#pragma once

#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_backward/config.h"
#include "attention_backward/portable/dq_sums.cuh"
#include "attention_backward/portable/key_gradients.cuh"
#include "attention_backward/portable/key_work.cuh"
#include "attention_backward/portable/products.cuh"
#include "attention_backward/portable/query_stream.cuh"
#include "attention_backward/schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// P^T and dS^T of a warp: its keys, and rows_at_once rows of a step.
template <KeyPassConfig C>
using Weights = Sums<C.key_blocks(), C.rows_at_once / 8>;

/// Turns scores into P, and dP into dS. `stats` is the shared address of what is known of the first
/// rows.
template <KeyPassConfig C>
__device__ inline void weigh(Weights<C>& p, Weights<C>& ds, unsigned stats, float scale_log2) {
  const int lane_row = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int n = 0; n < C.rows_at_once / 8; ++n) {
    const float4 pairs = ptx::ld_shared_v4_f32(
        stats + static_cast<unsigned>((8 * n + lane_row) * backward::kStatsBytes));
#pragma unroll
    for (int m = 0; m < C.key_blocks(); ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float shift = i % 2 == 0 ? pairs.x : pairs.y;
        const float delta = i % 2 == 0 ? pairs.z : pairs.w;
        const float weight = ptx::ex2_approx(fmaf(p[m][n][i], scale_log2, -shift));
        ds[m][n][i] = weight * (ds[m][n][i] - delta);
        p[m][n][i] = weight;
      }
    }
  }
}

/// Sets P and dS of hidden pairs and of what lies past an end to 0, whatever they are. `first_row`
/// and `first_key` are the global indices of the warp's first row and key.
template <KeyPassConfig C>
__device__ inline void hide(Weights<C>& p, Weights<C>& ds, int first_row, int first_key,
                            SequenceShape shape) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int lane_row = first_row + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < C.key_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = first_key + 16 * m + 8 * half + lane / 4;
      const int first_seeing = C.causal ? key - (shape.seq_kv - shape.seq_q) : 0;
      const int begin = max_of(0, first_seeing) - lane_row;
      const int end = (key < shape.seq_kv ? shape.seq_q : 0) - lane_row;
#pragma unroll
      for (int n = 0; n < C.rows_at_once / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (8 * n + i < begin || 8 * n + i >= end) {
            p[m][n][2 * half + i] = 0.0F;
            ds[m][n][2 * half + i] = 0.0F;
          }
        }
      }
    }
  }
}

/// Rounds P^T or dS^T of a warp into the tile of scores at `tile`, from row `first_row` (a multiple
/// of 8) of the step on. `place` is the lane's row of keys.
template <KeyPassConfig C>
__device__ inline void store_weights(unsigned tile, const LaneOffset<C.scores_layout()>& place,
                                     const Weights<C>& weights, int first_row) {
  const unsigned lane_bytes = threadIdx.x % 4 * 4;
#pragma unroll
  for (int m = 0; m < C.key_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.rows_at_once / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        ptx::st_shared(
            place.at(tile, 16 * m + 8 * half, first_row / 8 + n) + lane_bytes,
            ptx::cvt_rn_x2<C.dtype>(weights[m][n][2 * half], weights[m][n][2 * half + 1]));
      }
    }
  }
}

/// One item: a part of the walk of one K and V tile.
template <KeyPassConfig C>
class KeyPass {
 public:
  __device__ KeyPass(const AttentionBackwardParams& params, unsigned smem, const KeyWork& work)
      : params_(params),
        smem_(smem),
        work_(work),
        place_(warp_keys<C>(static_cast<int>(threadIdx.x / 32))),
        stream_(params, smem, work) {}

  /// `item` is the one of the work.
  __device__ void run(const KeyItems<C>& items, long long item) {
    stream_.request_tile();
    stream_.request(0);
    ptx::cp_async_commit_group();
#pragma unroll 1
    for (int step = 0; step < work_.steps.count; ++step) {
      take(step);
    }
    ptx::cp_async_wait_group<0>();
    __syncthreads();  // All have read K and V, whose places dK and dV leave through.
    // What the item is, worked out again, takes no registers during the walk.
    const KeyWork work = items.work(ptx::opaque(static_cast<int>(item)));
    const WarpKeys place = warp_keys<C>(ptx::opaque(static_cast<int>(threadIdx.x)) / 32);
    write_gradients<C>(params_, smem_, work, place, gradients_);
  }

 private:
  __device__ void take(int step) {
    ptx::cp_async_wait_group<0>();
    __syncthreads();  // The step has arrived, and all are done with the one before.
    if constexpr (C.stages == 2) {
      stream_.request(step + 1);
      ptx::cp_async_commit_group();
    }
    const backward::Place at = work_.place(step);
    const StepTiles tiles = stream_.tiles(step);
    const bool masked =
        backward::pair_needs_mask(at.q_tile, work_.tile.index, C.tile_m, C.tile_n, work_.shape);
    if constexpr (C.column_groups == 1) {
      take_rows(tiles, at.q_tile, masked);
    } else {
      share_rows(tiles, at.q_tile, masked);
    }
    if constexpr (C.stages == 1 || C.sums_dq()) {
      __syncthreads();  // dS is there; Q and dO have been read.
    }
    if constexpr (C.stages == 1) {
      stream_.request(step + 1);
      ptx::cp_async_commit_group();
    }
    if constexpr (C.sums_dq()) {
      add_to_dq<C>(params_, smem_, work_, at);
    }
  }

  /// P^T and dS^T of rows [row, row + rows_at_once) of a step.
  __device__ void compute_weights(Weights<C>& p, Weights<C>& ds, const StepTiles& tiles, int row,
                                  int q_tile, bool masked) const {
    multiply_rows<C.dtype, C.k_layout(), C.q_layout()>(p, smem_ + C.k_offset(), place_.key, tiles.q,
                                                       row);
    multiply_rows<C.dtype, C.v_layout(), C.d_o_layout()>(ds, smem_ + C.v_offset(), place_.key,
                                                         tiles.d_o, row);
    weigh<C>(p, ds, tiles.stats + static_cast<unsigned>(row * backward::kStatsBytes),
             params_.scale_log2);
    if (masked) {
      hide<C>(p, ds, q_tile * C.tile_m + row, work_.tile.index * C.tile_n + place_.key,
              work_.shape);
    }
  }

  /// The warp's keys are its own: P^T and dS^T go from registers into dV and dK.
  __device__ void take_rows(const StepTiles& tiles, int q_tile, bool masked) {
    const LaneOffset<C.scores_layout()> ds_place(place_.key + lane() / 4, 0);
    const ColumnSpan<C.d_o_layout(), C.value_dim / 16> d_o(tiles.d_o, 0);
    const ColumnSpan<C.q_layout(), C.head_dim / 16> q(tiles.q, 0);
#pragma unroll 1
    for (int row = 0; row < C.tile_m; row += C.rows_at_once) {
      Weights<C> p;
      Weights<C> ds;
      compute_weights(p, ds, tiles, row, q_tile, masked);
      if constexpr (C.stores_ds()) {
        store_weights<C>(smem_ + C.ds_offset(), ds_place, ds, row);
      }
#pragma unroll
      for (int step = 0; step < C.rows_at_once / 16; ++step) {
        OperandA<C.key_blocks()> left;
        round_to_operand<C.dtype>(left, p, step);
        multiply_columns<C.dtype>(gradients_.dv, left, d_o, row + 16 * step);
        round_to_operand<C.dtype>(left, ds, step);
        multiply_columns<C.dtype>(gradients_.dk, left, q, row + 16 * step);
      }
    }
  }

  /// Several warps have the same keys: each computes P^T and dS^T of its rows, and then dV and dK
  /// of its columns from those of all.
  __device__ void share_rows(const StepTiles& tiles, int q_tile, bool masked) {
    const LaneOffset<C.scores_layout()> store_place(place_.key + ptx::opaque(lane()) / 4, 0);
#pragma unroll
    for (int at = 0; at < C.score_rows(); at += C.rows_at_once) {
      Weights<C> p;
      Weights<C> ds;
      const int row = place_.group * C.score_rows() + at;
      compute_weights(p, ds, tiles, row, q_tile, masked);
      store_weights<C>(smem_ + C.p_offset(), store_place, p, row);
      store_weights<C>(smem_ + C.ds_offset(), store_place, ds, row);
    }
    __syncthreads();
    const LaneOffset<C.scores_layout()> load_place(place_.key + lane() % 16, lane() / 16);
    const ColumnSpan<C.d_o_layout(), C.value_columns() / 16> d_o(
        tiles.d_o, place_.group * C.value_columns() / 8);
    const ColumnSpan<C.q_layout(), C.key_columns() / 16> q(tiles.q,
                                                           place_.group * C.key_columns() / 8);
#pragma unroll 1
    for (int step = 0; step < C.tile_m / 16; ++step) {
      OperandA<C.key_blocks()> left;
      load_weights(left, smem_ + C.p_offset(), load_place, step);
      multiply_columns<C.dtype>(gradients_.dv, left, d_o, 16 * step);
      load_weights(left, smem_ + C.ds_offset(), load_place, step);
      multiply_columns<C.dtype>(gradients_.dk, left, q, 16 * step);
    }
  }

  /// P^T or dS^T of rows [16 step, 16 step + 16) as operand A.
  __device__ static void load_weights(OperandA<C.key_blocks()>& operand, unsigned tile,
                                      const LaneOffset<C.scores_layout()>& place, int step) {
#pragma unroll
    for (int m = 0; m < C.key_blocks(); ++m) {
      ptx::ldmatrix_x4(operand[m], place.at(tile, 16 * m, 2 * step));
    }
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }

  const AttentionBackwardParams& params_;
  unsigned smem_;
  const KeyWork& work_;
  WarpKeys place_;
  QueryStream<C> stream_;
  KeyGradients<C> gradients_;
};

/// All items of this CTA.
template <KeyPassConfig C>
__device__ inline void run_key_pass(const AttentionBackwardParams& params, unsigned smem) {
  static_assert(C.is_whole(), "tiles, warps and columns must divide");
  const KeyItems<C> items(params, smem);
  for (int iteration = 0;; ++iteration) {
    // What the launch before wrote, item counter included, can be read. At once the second time.
    ptx::griddepcontrol_wait();
    const long long item = items.take(iteration);
    if (item < 0) {
      break;
    }
    __syncthreads();  // The item before has left shared memory.
    const KeyWork work = items.work(item);
    KeyPass<C>(params, smem, work).run(items, item);
  }
  ptx::griddepcontrol_launch_dependents();
}

}  // namespace swr::portable
