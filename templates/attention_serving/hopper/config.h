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
  ServingMask mask = ServingMask::causal;  ///< Not window.
  KvSource kv_source = KvSource::rows;
  /// Rows that one box brings: tile_n, or for pages what divides both a page and tile_n, a multiple
  /// of 8.
  int piece_rows = 128;
  int tile_m = 128;  ///< 64 or 128: three computing warpgroups leave no warp that finds work.
  int tile_n = 128;
  int stages = 2;
  Mainloop mainloop = Mainloop::overlap_ordered;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::persistent;  ///< Not dynamic.

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
            .unroll = 1};
  }

  SWR_HD constexpr int threads() const { return dense().threads(); }
  SWR_HD constexpr ServingTiles tiles() const { return {tile_m, tile_n, mask, pack_gqa, deal}; }
  SWR_HD constexpr bool has_pages() const { return kv_source == KvSource::pages; }
  SWR_HD constexpr int pieces() const { return tile_n / piece_rows; }

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

  /// Registers per thread after the trade. Finding work takes more than loading.
  SWR_HD constexpr int producer_registers() const { return 40; }
  SWR_HD constexpr int consumer_registers() const { return 232; }
};

}  // namespace swr
