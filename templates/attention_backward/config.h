// SPDX-License-Identifier: MIT
// Everything of the portable attention backward kernels that is fixed when they are compiled: one
// struct for the pass over K and V tiles with the kernels around it, one for the pass over Q tiles.
// Host code and kernels derive sizes from the same functions.
#pragma once

#include "attention/config.h"
#include "attention_backward/schedule.h"
#include "common/smem_layout.h"
#include <swr/annotations.h>
#include <swr/attention_backward_axes.h>
#include <swr/axes.h>
#include <swr/tensor_map.h>

namespace swr {

namespace backward {

/// What the copies of attention/portable/tile_copy.cuh need to know of rows of `columns` elements.
SWR_HD constexpr PortableAttentionConfig rows_config(int columns, int warps, int alignment_bytes,
                                                     bool smem_swizzle) {
  return {.head_dim = columns,
          .dtype = DType::fp16,
          .causal = false,
          .alignment_bytes = alignment_bytes,
          .tile_m = 16 * warps,
          .tile_n = 16,
          .warps = warps,
          .stages = 1,
          .order = Order::cyclic,
          .persistence = Persistence::grid,
          .smem_swizzle = smem_swizzle};
}

/// Bytes of the log-sum-exp and D of a row. Rows lie in pairs: two log-sum-exps, then two Ds.
inline constexpr int kStatsBytes = 8;

}  // namespace backward

/// The pass over K and V tiles: K and V of an item stay in shared memory, Q, dO and what is known
/// of their rows stream through it. Every warp owns keys, so that S^T, dP^T and what follows from
/// them are in its registers the first operand of dV += P^T dO and dK += dS^T Q; only dS crosses
/// warps, for dQ. Where dK and dV of 16 keys do not fit one warp's registers, `column_groups` warps
/// share the keys, divide the rows of S and dP and the columns of dK and dV, and P crosses too.
struct KeyPassConfig {
  int head_dim;   ///< Of Q and K.
  int value_dim;  ///< Of V and O.
  DType dtype;
  bool causal;
  int alignment_bytes;
  int tile_m;  ///< Rows of Q and dO per step.
  int tile_n;  ///< Keys of an item.
  int warps;
  int rows_at_once;  ///< Of a step whose S and dP are in registers together.
  int column_groups;
  int stages;  ///< Steps whose Q and dO are in shared memory: 1 or 2.
  DqSum dq_sum;
  bool wide_adds;  ///< DqSum::atomic by instructions that add four values (sm_90 and later).
  QOrder order;
  Persistence persistence;
  bool smem_swizzle;

  SWR_HD constexpr int threads() const { return warps * 32; }
  /// Of the kernels before and after.
  SWR_HD constexpr int around_threads() const { return threads(); }
  SWR_HD constexpr bool sums_dq() const { return dq_sum != DqSum::none; }
  /// Nobody adds to a Q tile last, so that the kernel after makes 16-bit elements of the sums.
  SWR_HD constexpr bool leaves_dq_sums() const { return dq_sum == DqSum::atomic; }
  /// Items are drawn from a counter: then whoever waits for its turn has been dealt last.
  SWR_HD constexpr bool draws_items() const {
    return persistence == Persistence::dynamic || dq_sum == DqSum::ordered;
  }

  SWR_HD constexpr int key_warps() const { return warps / column_groups; }
  /// 16-key blocks that one warp owns.
  SWR_HD constexpr int key_blocks() const { return tile_n / (16 * key_warps()); }
  /// Rows of a step whose S and dP a warp computes.
  SWR_HD constexpr int score_rows() const { return tile_m / column_groups; }
  /// Columns of dK and dV that a warp owns.
  SWR_HD constexpr int key_columns() const { return head_dim / column_groups; }
  SWR_HD constexpr int value_columns() const { return value_dim / column_groups; }

  SWR_HD constexpr TileLayout k_layout() const { return rows_layout(tile_n, head_dim); }
  SWR_HD constexpr TileLayout v_layout() const { return rows_layout(tile_n, value_dim); }
  SWR_HD constexpr TileLayout q_layout() const { return rows_layout(tile_m, head_dim); }
  SWR_HD constexpr TileLayout d_o_layout() const { return rows_layout(tile_m, value_dim); }
  /// dS^T, and P^T where it crosses warps: a row of tile_m elements per key.
  SWR_HD constexpr TileLayout scores_layout() const { return rows_layout(tile_n, tile_m); }

  SWR_HD constexpr int stats_bytes() const { return tile_m * backward::kStatsBytes; }
  SWR_HD constexpr int stage_bytes() const {
    return q_layout().panel_bytes() + d_o_layout().panel_bytes() + stats_bytes();
  }
  SWR_HD constexpr bool stores_ds() const { return sums_dq() || column_groups > 1; }

  // Offsets in dynamic shared memory.
  SWR_HD constexpr int k_offset() const { return 0; }
  SWR_HD constexpr int v_offset() const { return k_layout().panel_bytes(); }
  SWR_HD constexpr int ds_offset() const { return v_offset() + v_layout().panel_bytes(); }
  SWR_HD constexpr int p_offset() const {
    return ds_offset() + (stores_ds() ? scores_layout().panel_bytes() : 0);
  }
  SWR_HD constexpr int stages_offset() const {
    return p_offset() + (column_groups > 1 ? scores_layout().panel_bytes() : 0);
  }
  /// A drawn item passes from one thread to all.
  SWR_HD constexpr int item_offset() const { return stages_offset() + stages * stage_bytes(); }
  SWR_HD constexpr int smem_bytes() const { return item_offset() + (draws_items() ? 16 : 0); }

  /// dQ of a step: warps divide its rows and columns so that they read least of dS and K.
  SWR_HD constexpr int dq_row_warps() const {
    int best = 0;
    for (int rows = 1; rows <= warps; ++rows) {
      const bool divides =
          warps % rows == 0 && tile_m % (16 * rows) == 0 && head_dim % (16 * (warps / rows)) == 0;
      if (divides && (best == 0 || dq_reads(rows) < dq_reads(best))) {
        best = rows;
      }
    }
    return best;
  }
  SWR_HD constexpr int dq_blocks() const { return tile_m / (16 * dq_row_warps()); }
  SWR_HD constexpr int dq_columns() const { return head_dim / (warps / dq_row_warps()); }
  /// Columns whose sums are in registers together, beside dK and dV.
  SWR_HD constexpr int dq_piece_columns() const {
    const int room = max_of(24, 168 - accumulator_registers());
    int columns = dq_columns();
    while (dq_blocks() * columns / 2 > room && columns % 32 == 0) {
      columns /= 2;
    }
    return columns;
  }
  /// Fragments of 16 x 8 sums that a warp leaves of every step.
  SWR_HD constexpr int dq_fragments() const { return dq_blocks() * dq_columns() / 8; }
  /// Columns of the sums of all warps.
  SWR_HD constexpr int dq_sum_columns() const { return head_dim; }

  /// Boxes of tensor maps, of which the portable family has none.
  SWR_HD constexpr TensorBox row_box() const { return {}; }
  SWR_HD constexpr TensorBox key_box() const { return {}; }
  SWR_HD constexpr TensorBox gradient_box() const { return {}; }

  /// Registers per thread held across the walk: dK and dV.
  SWR_HD constexpr int accumulator_registers() const {
    return key_blocks() * (key_columns() + value_columns()) / 2;
  }
  /// With S and dP of the rows that are computed together.
  SWR_HD constexpr int peak_registers() const {
    return accumulator_registers() + key_blocks() * rows_at_once;
  }

  /// True when every size divides as the kernel needs it.
  SWR_HD constexpr bool is_whole() const {
    const bool dims = head_dim % 16 == 0 && value_dim % 16 == 0 && key_columns() % 16 == 0 &&
                      value_columns() % 16 == 0;
    const bool rows =
        tile_m % 16 == 0 && rows_at_once % 16 == 0 && score_rows() % rows_at_once == 0;
    const bool keys = key_blocks() > 0 && tile_n == 16 * key_warps() * key_blocks();
    return dims && rows && keys && (!sums_dq() || dq_row_warps() > 0);
  }

 private:
  SWR_HD constexpr TileLayout rows_layout(int rows, int columns) const {
    return {rows, columns * 2 / kChunkBytes, smem_swizzle};
  }
  SWR_HD constexpr int dq_reads(int row_warps) const {
    return tile_m * (warps / row_warps) + head_dim * row_warps;
  }
};

/// The pass over Q tiles, which computes dQ: Q and dO of a Q tile stay in shared memory, K and V
/// tiles stream through it. Every warp owns rows; dS is in its registers the first operand of
/// dQ += dS K. It also leaves what the pass over K and V tiles needs of every row.
struct QueryPassConfig {
  int head_dim;
  int value_dim;
  DType dtype;
  bool causal;
  int alignment_bytes;
  int tile_m;
  int tile_n;
  int warps;
  int keys_at_once;  ///< Of a tile whose S and dP are in registers together.
  int stages;        ///< K and V tiles in shared memory: 1 or 2.
  Order order;
  Persistence persistence;  ///< Not dynamic.
  bool smem_swizzle;

  SWR_HD constexpr int threads() const { return warps * 32; }
  /// 16-row blocks that one warp owns.
  SWR_HD constexpr int row_blocks() const { return tile_m / (16 * warps); }

  SWR_HD constexpr TileLayout q_layout() const { return rows_layout(tile_m, head_dim); }
  SWR_HD constexpr TileLayout d_o_layout() const { return rows_layout(tile_m, value_dim); }
  SWR_HD constexpr TileLayout k_layout() const { return rows_layout(tile_n, head_dim); }
  SWR_HD constexpr TileLayout v_layout() const { return rows_layout(tile_n, value_dim); }

  SWR_HD constexpr int stage_bytes() const {
    return k_layout().panel_bytes() + v_layout().panel_bytes();
  }
  SWR_HD constexpr int d_o_offset() const { return q_layout().panel_bytes(); }
  SWR_HD constexpr int stages_offset() const { return d_o_offset() + d_o_layout().panel_bytes(); }
  SWR_HD constexpr int smem_bytes() const { return stages_offset() + stages * stage_bytes(); }

  SWR_HD constexpr int accumulator_registers() const { return row_blocks() * head_dim / 2; }
  SWR_HD constexpr int peak_registers() const {
    return accumulator_registers() + row_blocks() * keys_at_once;
  }

  SWR_HD constexpr bool is_whole() const {
    return head_dim % 16 == 0 && value_dim % 16 == 0 && row_blocks() > 0 &&
           tile_m == 16 * warps * row_blocks() && keys_at_once % 16 == 0 &&
           tile_n % keys_at_once == 0;
  }

 private:
  SWR_HD constexpr TileLayout rows_layout(int rows, int columns) const {
    return {rows, columns * 2 / kChunkBytes, smem_swizzle};
  }
};

/// All kernels of a variant, with a family's pass over K and V tiles. The pass over Q tiles is that
/// of BackwardForm::two_pass, and only there.
template <typename KeyConfig>
struct BackwardKernelsConfig {
  BackwardForm form;
  KeyConfig key;
  QueryPassConfig query;

  SWR_HD constexpr bool has_query_pass() const { return form == BackwardForm::two_pass; }
  /// Of the kernel with the most threads, and of the one with the most shared memory.
  SWR_HD constexpr int threads() const {
    return has_query_pass() ? max_of(key.threads(), query.threads()) : key.threads();
  }
  SWR_HD constexpr int smem_bytes() const {
    return has_query_pass() ? max_of(key.smem_bytes(), query.smem_bytes()) : key.smem_bytes();
  }
};

using AttentionBackwardConfig = BackwardKernelsConfig<KeyPassConfig>;

}  // namespace swr
