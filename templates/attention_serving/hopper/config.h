// SPDX-License-Identifier: MIT
// Everything of a Hopper kernel for unequal sequences that is fixed when it is compiled. Tiles,
// products, softmax and barriers are those of the dense family, and so are their sizes.
#pragma once

#include "attention/hopper/config.h"
#include "common/serving_schedule.h"
#include <swr/axes.h>
#include <swr/serving_axes.h>
#include <swr/tensor_map.h>

namespace swr {

/// How a tensor's rows and containers (pages or batch items) count in the dimension `row` of its
/// map (tensor_maps.h in operations/attention_serving).
struct MapSteps {
  int row;
  int container;
  int head = 0;  ///< Where heads have no dimension of their own.
};
struct ServingMapSteps {
  MapSteps q;
  MapSteps k;
  MapSteps v;
  MapSteps o;
};

/// Where a box stands in the dimensions cut and row of a map.
struct CutPlace {
  int cut;
  int row;
};
/// So long the dimension cut is; also where boxes stand in the dimension that makes up for it.
inline constexpr int kCutLength = 1 << 30;

/// Of the box that begins at row `first` of a container and of whose rows only `live` belong to
/// anybody: the others read as zeros and are not written.
SWR_HD constexpr CutPlace cut_place(MapSteps steps, int container, int first, int live) {
  return {kCutLength - live, container * steps.container + (first + live) * steps.row};
}

/// A warpgroup that moves tiles and finds work, and tile_m / 64 that compute. Q tiles are dealt
/// whole, and no query heads are packed. Launch: `threads()` threads, `fixed_smem_bytes()` of
/// dynamic shared memory and the list of sequences behind.
struct HopperServingConfig {
  int head_dim = 128;  ///< Of Q, K, V and O; a multiple of 16.
  DType dtype = DType::bf16;
  ServingMask mask = ServingMask::causal;
  Softcap softcap = Softcap::none;
  KvSource kv_source = KvSource::rows;
  /// Rows that one box brings, a multiple of 8 that divides tile_n and, if there are pages, those;
  /// tile_n for rows without a window.
  int piece_rows = 128;
  int tile_m = 128;  ///< 64 or 128: three computing warpgroups leave no warp that finds work.
  int tile_n = 128;
  int stages = 2;
  Mainloop mainloop = Mainloop::overlap_ordered;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::persistent;

  static constexpr Deal deal = Deal::whole;
  static constexpr bool pack_gqa = false;

  /// What the dense family's classes are compiled for.
  SWR_HD constexpr HopperAttentionConfig dense() const {
    return {.head_dim = head_dim,
            .dtype = dtype,
            .causal = mask != ServingMask::full,
            .tile_m = tile_m,
            .tile_n = tile_n,
            .stages = stages,
            .mainloop = mainloop,
            .order = order,
            .persistence = persistence,
            .p_operand = POperand::registers,
            .exp2_fma_eighths = 0,
            .unroll = 1,
            .kv_octets = has_whole_boxes(),
            .capped_scores = softcap != Softcap::none && dtype == DType::bf16};
  }

  SWR_HD constexpr int threads() const { return dense().threads(); }
  SWR_HD constexpr ServingTiles tiles() const { return {tile_m, tile_n, mask, pack_gqa, deal}; }
  SWR_HD constexpr bool has_pages() const { return kv_source == KvSource::pages; }
  SWR_HD constexpr int pieces() const { return tile_n / piece_rows; }
  SWR_HD constexpr bool has_window() const { return mask == ServingMask::window; }
  /// Whether a box brings rows of all panels, and lanes what is cut at either end: of short pieces,
  /// since lanes take long, and under a window, since boxes of one panel are cut at the end alone.
  SWR_HD constexpr bool has_whole_boxes() const {
    constexpr int kMostRows = 16;
    return (has_window() || (has_pages() && piece_rows <= kMostRows)) &&
           can_have_whole_boxes(head_dim);
  }
  /// Panels that are full: no dimension ends between their columns.
  SWR_HD static constexpr bool can_have_whole_boxes(int head_dim) { return head_dim % 32 == 0; }
  /// Where chunk `chunk` of 16 bytes of row `row` lies in a piece of octets, swizzled as the copy
  /// engine does.
  SWR_HD constexpr int octet_offset(int row, int chunk) const {
    const int chunks = dense().panel_columns() / 8;
    const int line = row % 8;
    const int swizzled = chunk % chunks ^ (line / (8 / chunks) & (chunks - 1));
    return row / 8 * dense().kv_octet_bytes() + chunk / chunks * dense().kv_panel_bytes() +
           (line * chunks + swizzled) * 16;
  }
  SWR_HD constexpr int piece_bytes() const { return dense().kv_tile_bytes() / pieces(); }

  // Boxes of the tensor maps.
  SWR_HD constexpr TensorBox q_box() const { return dense().q_box(); }
  SWR_HD constexpr TensorBox kv_box() const {
    return {dense().panel_columns(), piece_rows, dense().panel_columns() * 2};
  }

  // Shared memory: what the dense family has; what is being worked on, per Q slot; what is found
  // ahead, and its barriers; last the list of sequences, whose length the host knows.
  SWR_HD constexpr int item_offset(int slot) const {
    return dense().smem_bytes() + slot * kItemBytes;
  }
  SWR_HD constexpr int found_offset(int slot) const {
    return item_offset(dense().q_slots() + slot);
  }
  SWR_HD constexpr int found_barrier_offset() const { return found_offset(kFoundSlots); }
  SWR_HD constexpr int list_offset() const { return found_barrier_offset() + 16 * kFoundSlots; }
  SWR_HD constexpr int fixed_smem_bytes() const { return list_offset(); }
  static constexpr int kItemBytes = 112;
  static constexpr int kFoundSlots = 2;

  /// Registers per thread after the trade. Finding work takes more than loading, and copying what
  /// is cut more yet.
  SWR_HD constexpr int producer_registers() const { return has_whole_boxes() ? 56 : 40; }
  SWR_HD constexpr int consumer_registers() const { return has_whole_boxes() ? 224 : 232; }
};

}  // namespace swr
