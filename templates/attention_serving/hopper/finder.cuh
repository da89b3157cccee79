// SPDX-License-Identifier: MIT
// The thread that finds the Q tiles of a CTA, two ahead: searching the list and dividing take a
// microsecond or two, which the loading warp would not have.
#pragma once

#include "attention_serving/hopper/memory.cuh"
#include "attention_serving/sequence_list.cuh"
#include "common/hopper_ptx.cuh"

namespace swr::serving {

template <HopperServingConfig C>
__device__ __forceinline__ void find_items(const ItemMemory<C>& items,
                                           const SequenceList<C>& list) {
  const long long units = list.units();
  FoundPosition<C> position;
  for (int iteration = 0;; ++iteration) {
    const long long unit = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, units);
    ptx::mbarrier_wait(items.found_empty(position.stage), position.parity ^ 1);
    const Item<C> item = items.found(position.stage);
    if (unit < 0) {
      item.park_end();
    } else {
      item.find(list, unit, {});
    }
    ptx::mbarrier_arrive(items.found_full(position.stage));
    if (unit < 0) {
      return;
    }
    position.advance();
  }
}

}  // namespace swr::serving
