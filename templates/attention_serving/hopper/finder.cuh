// SPDX-License-Identifier: MIT
// The thread that finds the Q tiles of a CTA, two ahead: searching the list and dividing take a
// microsecond or two, which the loading warp would not have.
#pragma once

#include "attention_serving/hopper/memory.cuh"
#include "attention_serving/sequence_list.cuh"
#include "common/hopper_ptx.cuh"

namespace swr::serving {

/// The units of a CTA one after another, and -1 past the last. Persistence::dynamic draws those
/// after the first from a counter, which the launch before may use until it has ended.
template <HopperServingConfig C>
class UnitsInTurn {
 public:
  __device__ __forceinline__ UnitsInTurn(unsigned* counter, long long units)
      : counter_(counter), units_(units) {}

  __device__ __forceinline__ long long next() {
    const int iteration = iteration_++;
    if constexpr (C.persistence == Persistence::dynamic) {
      const long long unit = iteration == 0 ? blockIdx.x : drawn();
      if (unit < units_) {
        return unit;
      }
      leave();
      return -1;
    }
    return cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, units_);
  }

 private:
  __device__ __forceinline__ long long drawn() {
    ptx::griddepcontrol_wait();
    return static_cast<long long>(gridDim.x) + atomicAdd(counter_, 1U);
  }
  /// The last CTA that draws no more gives the counter back.
  __device__ __forceinline__ void leave() {
    ptx::griddepcontrol_wait();
    if (atomicAdd(counter_ + 1, 1U) == gridDim.x - 1) {
      counter_[0] = 0;
      counter_[1] = 0;
    }
  }

  unsigned* counter_;
  long long units_;
  int iteration_ = 0;
};

template <HopperServingConfig C>
__device__ __forceinline__ void find_items(const ItemMemory<C>& items,
                                           const SequenceList<C>& list) {
  UnitsInTurn<C> units(items.params.arrivals, list.units());
  FoundPosition<C> position;
  while (true) {
    const long long unit = units.next();
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
