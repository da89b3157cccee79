// SPDX-License-Identifier: MIT
// Everything of the Hopper attention backward kernels that is fixed when they are compiled. Host
// code (constraints, launch, tensor maps) and the kernels derive every size from these functions.
#pragma once

#include "attention_backward/config.h"
#include <swr/annotations.h>
#include <swr/attention_backward_axes.h>
#include <swr/axes.h>
#include <swr/tensor_map.h>

namespace swr {

/// The pass over K and V tiles by TMA and wgmma: one warpgroup loads, each of `consumers()` others
/// owns 64 keys, or, where dK and dV of 64 keys do not fit its registers, half of their columns
/// (`divides_columns()`). S^T and dP^T are accumulators with keys as rows, so that P^T and dS^T are
/// operand A of dV += P^T dO and dK += dS^T Q where they arise; dS crosses warpgroups through
/// shared memory for dQ = dS K, whose rows or columns the consumers divide. Those that divide
/// columns compute P and dS of half of a step's rows each, and P crosses too.
///
/// Tiles lie in shared memory as panels: all rows of 64 columns, one 128-byte line per row. The
/// kernels before and after it are those of the portable family, with `warps` warps.
struct HopperKeyPassConfig {
  int head_dim;   ///< Of Q and K, a multiple of 16, at most 256.
  int value_dim;  ///< Of V and O, likewise.
  DType dtype;
  bool causal;
  int tile_m;  ///< Rows of Q and dO per step: 64 or 128.
  int tile_n;  ///< Keys of an item: 128, or 64 where consumers divide columns.
  int warps;   ///< Of the consumers.
  int stages;  ///< Q tiles in shared memory: 2 or 3. Of dO there are always 2.
  DqSum dq_sum;
  QOrder order;
  Persistence persistence;  ///< Not dynamic; grid with DqSum::ordered.

  // What the kernels of the portable family ask for.
  static constexpr int alignment_bytes = 16;
  static constexpr bool wide_adds = true;
  static constexpr bool smem_swizzle = true;

  static constexpr int kWarpgroup = 128;
  static constexpr int kSmemLimitBytes = 232448;  ///< Opt-in limit of one CTA on sm_90.
  static constexpr int kSmRegisters = 65536;
  static constexpr int kPanelColumns = 64;
  static constexpr int kLineBytes = 128;
  static constexpr int kItemBytes = 32;
  static constexpr int kBarriers = 22;
  static constexpr int kValueStages = 2;  ///< Of dO, of dS, and of dQ that waits for its turn.

  SWR_HD constexpr int consumers() const { return warps / 4; }
  SWR_HD constexpr int threads() const { return (consumers() + 1) * kWarpgroup; }
  /// Of the kernels before and after.
  SWR_HD constexpr int around_threads() const { return warps * 32; }
  SWR_HD constexpr bool sums_dq() const { return dq_sum != DqSum::none; }
  SWR_HD constexpr bool leaves_dq_sums() const { return sums_dq(); }
  /// Whoever waits for its turn has been dealt after those it waits for, whatever order CTAs start
  /// in.
  SWR_HD constexpr bool draws_items() const { return takes_turns(); }
  SWR_HD constexpr bool takes_turns() const { return dq_sum == DqSum::ordered; }

  /// Consumers share all keys of an item and divide the columns of dK and dV.
  SWR_HD constexpr bool divides_columns() const { return head_dim > 128 || value_dim > 128; }
  /// Columns as stored; the copy engine fills those past head_dim with 0.
  SWR_HD constexpr int key_columns() const { return padded(head_dim); }
  SWR_HD constexpr int value_columns() const { return padded(value_dim); }
  /// Of a consumer: columns of dK and of dV, and rows of a step whose scores it computes.
  SWR_HD constexpr int own_key_columns() const {
    return divides_columns() ? key_columns() / consumers() : head_dim;
  }
  SWR_HD constexpr int own_value_columns() const {
    return divides_columns() ? value_columns() / consumers() : value_dim;
  }
  SWR_HD constexpr int score_rows() const {
    return divides_columns() ? tile_m / consumers() : tile_m;
  }

  /// Columns of V that a consumer keeps in registers, the last ones, so that dP reads them from
  /// shared memory once an item. As many as there is room for; a product 64 wide, which that of 64
  /// rows is, would take longer with an operand in registers.
  SWR_HD constexpr int held_v_columns() const { return score_rows() == 128 ? value_dim - 16 : 0; }

  /// Boxes of the maps of q and d_o, of k and v, and of dk and dv.
  SWR_HD constexpr TensorBox row_box() const { return {kPanelColumns, tile_m, kLineBytes}; }
  SWR_HD constexpr TensorBox key_box() const { return {kPanelColumns, tile_n, kLineBytes}; }
  SWR_HD constexpr TensorBox gradient_box() const { return {kPanelColumns, 64, kLineBytes}; }

  SWR_HD constexpr int q_bytes() const { return tile_m * key_columns() * 2; }
  SWR_HD constexpr int d_o_bytes() const { return tile_m * value_columns() * 2; }
  SWR_HD constexpr int k_bytes() const { return tile_n * key_columns() * 2; }
  SWR_HD constexpr int v_bytes() const { return tile_n * value_columns() * 2; }
  /// dS, in panels: a line of 64 keys per row of the step, or, where P crosses too, of 64 rows per
  /// key.
  SWR_HD constexpr int ds_bytes() const { return stores_ds() ? tile_m * tile_n * 2 : 0; }
  /// P^T, where it crosses.
  SWR_HD constexpr int p_bytes() const { return divides_columns() ? tile_m * tile_n * 2 : 0; }
  SWR_HD constexpr bool stores_ds() const { return sums_dq() || divides_columns(); }
  /// dQ goes to L2 through shared memory, by warps that have it added and with turns wait for
  /// them, or, where that has no room, from the registers of consumers, who wait themselves.
  SWR_HD constexpr bool stages_dq() const { return sums_dq() && !divides_columns(); }
  SWR_HD constexpr int staged_dq_bytes() const {
    return stages_dq() ? tile_m * key_columns() * 4 : 0;
  }
  /// With turns a step of dQ waits for its turn while the next one is computed.
  SWR_HD constexpr int dq_stages() const { return takes_turns() ? kValueStages : 1; }
  SWR_HD constexpr int stats_bytes() const { return tile_m * backward::kStatsBytes; }

  // Offsets in dynamic shared memory, which starts at a multiple of 1024 bytes.
  SWR_HD constexpr int k_offset() const { return 0; }
  SWR_HD constexpr int v_offset() const { return k_offset() + k_bytes(); }
  SWR_HD constexpr int q_offset() const { return v_offset() + v_bytes(); }
  SWR_HD constexpr int d_o_offset() const { return q_offset() + stages * q_bytes(); }
  SWR_HD constexpr int ds_offset() const { return d_o_offset() + kValueStages * d_o_bytes(); }
  SWR_HD constexpr int p_offset() const { return ds_offset() + kValueStages * ds_bytes(); }
  SWR_HD constexpr int staged_dq_offset() const { return p_offset() + kValueStages * p_bytes(); }
  SWR_HD constexpr int stats_offset() const {
    return staged_dq_offset() + dq_stages() * staged_dq_bytes();
  }
  SWR_HD constexpr int barrier_offset() const { return stats_offset() + stages * stats_bytes(); }
  /// What a drawn item is passes from one thread to all.
  SWR_HD constexpr int item_offset() const { return barrier_offset() + kBarriers * 8; }
  SWR_HD constexpr int smem_bytes() const { return item_offset() + kItemBytes; }

  // The share of a warp in the dQ of a step. With 64 rows consumers divide its columns, with 128
  // its rows.
  SWR_HD constexpr int dq_row_warps() const { return tile_m / 16; }
  SWR_HD constexpr int dq_blocks() const { return 1; }
  SWR_HD constexpr int dq_columns() const { return key_columns() / (warps / dq_row_warps()); }
  SWR_HD constexpr int dq_fragments() const { return dq_columns() / 8; }
  /// Consumers that compute what is staged: where columns are padding the first alone, of all
  /// others, so that none of those are.
  SWR_HD constexpr int dq_consumers() const {
    return stages_dq() && tile_m == 64 && head_dim < key_columns() ? 1 : consumers();
  }
  /// Columns of dQ that such a consumer computes.
  SWR_HD constexpr int dq_product_columns() const {
    return dq_consumers() == 1 ? head_dim : dq_columns();
  }
  /// Which share a consumer's warp has, as DqShare counts.
  SWR_HD constexpr int dq_share(int consumer, int warp) const {
    return tile_m == 64 ? 2 * warp + consumer : 4 * consumer + warp;
  }
  /// Those of a share that begins at `column` that are not padding.
  SWR_HD constexpr int own_dq_fragments(int column) const {
    return max_of(0, min_of(dq_columns(), head_dim - column)) / 8;
  }
  /// Bytes to add of share `share`, of 4-byte sums of 16 rows.
  SWR_HD constexpr int dq_share_bytes(int share) const {
    return own_dq_fragments(share % (warps / dq_row_warps()) * dq_columns()) * 512;
  }
  /// Columns of the sums of all warps.
  SWR_HD constexpr int dq_sum_columns() const { return key_columns(); }

  /// Registers per thread after the warpgroups have traded them (setmaxnreg). A CTA has no more
  /// than it was launched with: who asks for more waits for ever.
  SWR_HD constexpr int producer_registers() const { return 40; }
  SWR_HD constexpr int consumer_registers() const { return 232; }
  /// At most, per thread; registers are dealt by eights.
  SWR_HD constexpr int launched_registers() const { return kSmRegisters / threads() / 8 * 8; }
  SWR_HD constexpr bool trades_what_it_has() const {
    return producer_registers() + consumers() * consumer_registers() <=
           (consumers() + 1) * launched_registers();
  }
  /// Held at the peak of a step: dK and dV, with S and dP in fp32 and P rounded, or with dQ.
  SWR_HD constexpr int peak_registers() const {
    const int scores = score_rows() + score_rows() / 4;
    const int dq = sums_dq() ? dq_product_columns() / 2 : 0;
    return (own_key_columns() + own_value_columns()) / 2 + max_of(scores, dq);
  }

  /// True when every size divides as the kernel needs it.
  SWR_HD constexpr bool is_whole() const {
    const bool dims =
        head_dim % 16 == 0 && value_dim % 16 == 0 && head_dim <= 256 && value_dim <= 256;
    const bool rows = tile_m == 64 || (tile_m == 128 && !divides_columns());
    const bool tiles = warps == 8 && tile_n == (divides_columns() ? 64 : 128) && rows &&
                       dq_columns() % kPanelColumns == 0;
    return dims && tiles && trades_what_it_has() && (stages == 2 || stages == 3);
  }

 private:
  /// Whole panels, of every consumer that has columns of its own.
  SWR_HD constexpr int padded(int columns) const {
    const int unit = divides_columns() ? kPanelColumns * consumers() : kPanelColumns;
    return (columns + unit - 1) / unit * unit;
  }
};

/// The pass over Q tiles is the portable one.
using HopperAttentionBackwardConfig = BackwardKernelsConfig<HopperKeyPassConfig>;

}  // namespace swr
