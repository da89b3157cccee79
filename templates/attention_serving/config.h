// SPDX-License-Identifier: MIT
// Everything of a kernel for unequal sequences that is fixed when it is compiled. Sizes that the
// dense family knows are its own: the products, the softmax and the tiles are the same code.
#pragma once

#include "attention/config.h"
#include "attention/hopper/config.h"
#include "common/serving_schedule.h"
#include <swr/axes.h>
#include <swr/serving_axes.h>

namespace swr {

/// Choices of the launch (item order, overhead, sections, workers, lengths, left padding, page
/// size, sinks) are not here, so variants that differ only in those share one cubin.
struct ServingAttentionConfig {
  int head_dim = 128;    ///< Of Q and K; a multiple of 16.
  int head_dim_v = 128;  ///< Of V and O; a multiple of 16.
  DType dtype = DType::bf16;
  ServingMask mask = ServingMask::causal;
  Softcap softcap = Softcap::none;
  KvSource kv_source = KvSource::pages;
  PageCopy page_copy = PageCopy::row;  ///< Counts for KvSource::pages.
  int tile_m = 16;
  int tile_n = 64;
  int warps = 4;
  int stages = 2;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;  ///< Counts for Deal::whole.
  bool smem_swizzle = true;
  bool pack_gqa = true;
  Deal deal = Deal::ranges;
  bool wgmma = false;  ///< A warpgroup multiplies 64 rows at a time, on sm_90a; tile_m is 64.

  /// What the product with K and the softmax are to the dense family, and what the one with V is.
  SWR_HD constexpr PortableAttentionConfig qk() const { return dense(head_dim); }
  SWR_HD constexpr PortableAttentionConfig pv() const { return dense(head_dim_v); }

  SWR_HD constexpr int threads() const { return warps * 32; }
  SWR_HD constexpr ServingTiles tiles() const { return {tile_m, tile_n, mask, pack_gqa, deal}; }
  SWR_HD constexpr bool has_pages() const { return kv_source == KvSource::pages; }

  /// The tiles as warpgroups multiply them.
  SWR_HD constexpr HopperAttentionConfig products() const {
    return {.head_dim = head_dim,
            .dtype = dtype,
            .causal = mask != ServingMask::full,
            .tile_m = tile_m,
            .tile_n = tile_n,
            .stages = stages,
            .mainloop = Mainloop::plain,
            .order = order,
            .persistence = persistence,
            .p_operand = POperand::registers,
            .exp2_fma_eighths = 0,
            .unroll = 1};
  }

  /// Rows that one look-up of a page serves.
  SWR_HD constexpr int run_rows() const { return page_copy == PageCopy::run16 ? 16 : 1; }
  SWR_HD constexpr int runs_per_tile() const { return tile_n / run_rows(); }
  /// Tiles whose places are kept: those under way and one more.
  SWR_HD constexpr int place_slots() const { return stages < 2 ? 2 : stages; }

  // Shared memory: the Q tile, where O is also staged; the rings of K and of V; over all of these
  // what key groups leave; then the places of paged rows, what is being worked on, and last the
  // list of sequences, whose length the host knows.
  SWR_HD constexpr int q_tile_bytes() const {
    return tile_m * (head_dim > head_dim_v ? head_dim : head_dim_v) * 2;
  }
  SWR_HD constexpr int k_offset() const { return q_tile_bytes(); }
  SWR_HD constexpr int v_offset() const { return k_offset() + stages * qk().kv_tile_bytes(); }
  SWR_HD constexpr int places_offset() const {
    const int rings_end = v_offset() + stages * pv().kv_tile_bytes();
    return rings_end < pv().group_results_bytes() ? pv().group_results_bytes() : rings_end;
  }
  SWR_HD constexpr int item_offset() const {
    return places_offset() + (has_pages() ? place_slots() * runs_per_tile() * kPlaceBytes : 0);
  }
  SWR_HD constexpr int list_offset() const { return item_offset() + kItemBytes; }
  SWR_HD constexpr int fixed_smem_bytes() const { return list_offset(); }
  static constexpr int kPlaceBytes = 16;
  static constexpr int kItemBytes = 112;

  /// Q tiles that are longer than their rows are usual: warps without rows copy, but do not
  /// compute.
  SWR_HD constexpr bool has_idle_warps() const { return qk().row_warps() > 1 && !wgmma; }

  /// The next launch may begin while this one still streams, rather than when it ends: in decoding,
  /// where that keeps memory busy.
  SWR_HD constexpr bool lets_next_start_early() const {
    return deal != Deal::whole || pack_gqa || qk().key_groups() > 1;
  }

 private:
  SWR_HD constexpr PortableAttentionConfig dense(int columns) const {
    return {.head_dim = columns,
            .dtype = dtype,
            .causal = mask != ServingMask::full,
            .alignment_bytes = 16,
            .tile_m = tile_m,
            .tile_n = tile_n,
            .warps = warps,
            .stages = stages,
            .order = order,
            .persistence = persistence,
            .smem_swizzle = smem_swizzle,
            .split_kv = deal != Deal::whole,
            .pack_gqa = pack_gqa,
            .wgmma = wgmma};
  }
};

}  // namespace swr
