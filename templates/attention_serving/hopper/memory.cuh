// SPDX-License-Identifier: MIT
// What warps of a Hopper kernel for unequal sequences hand each other beside tiles: items that one
// thread finds ahead, and the item of each Q slot.
#pragma once

#include "attention_serving/hopper/config.h"
#include "attention_serving/item.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ring.cuh"
#include <swr/serving_attention_params.h>
#include <swr/tensor_map.h>

namespace swr::serving {

/// The tensor maps of a launch, as kernel parameters.
struct HopperMaps {
  const TensorMap& q;
  const TensorMap& k;
  const TensorMap& v;
  const TensorMap& o;
  const ServingMapSteps& steps;
};

template <HopperServingConfig C>
using FoundPosition = hopper::RingPosition<C.kFoundSlots>;

/// Items in the shared memory that starts at `base`.
template <HopperServingConfig C>
struct ItemMemory {
  const ServingAttentionParams& params;
  unsigned base;

  /// Of a Q slot: written by the loading warp before q_full, read until q_empty.
  __device__ __forceinline__ Item<C> of_slot(int slot) const {
    return {params, base + C.item_offset(slot)};
  }
  /// Written by the finding thread before found_full, read by the loading warp until found_empty.
  __device__ __forceinline__ Item<C> found(int slot) const {
    return {params, base + C.found_offset(slot)};
  }
  __device__ __forceinline__ unsigned found_full(int slot) const {
    return base + C.found_barrier_offset() + 16 * slot;
  }
  __device__ __forceinline__ unsigned found_empty(int slot) const { return found_full(slot) + 8; }

  /// By one thread, before any other uses them.
  __device__ __forceinline__ void init_barriers() const {
    for (int slot = 0; slot < C.kFoundSlots; ++slot) {
      ptx::mbarrier_init(found_full(slot), 1);
      ptx::mbarrier_init(found_empty(slot), 1);
    }
    ptx::fence_mbarrier_init();
  }
};

/// K and V tiles that a Q tile streams; 0 marks the end of the work. Rows that see no key go
/// through one tile, all masked: O = 0 without a special case.
template <HopperServingConfig C>
__device__ __forceinline__ int tiles_of(const Item<C>& item) {
  return item.takes_part() ? max_of(1, item.kv_tiles().count) : 0;
}

/// Rows of [first, first + rows) below `end`.
__device__ __forceinline__ int rows_below(int end, int first, int rows) {
  return clamp_to(end - first, 0, rows);
}

/// The corner of such a box in one panel.
__device__ __forceinline__ ptx::CutBoxCorner cut_box(MapSteps steps, int column, RowPlace first,
                                                     int live, int head) {
  const CutPlace place = cut_place(steps, first.batch, first.row, live);
  return {column, place.cut, place.row, head, kCutLength};
}

}  // namespace swr::serving
