// SPDX-License-Identifier: MIT
// Attention over unequal sequences for sm_90a: the dense Hopper family's consumers, softmax, rings
// and stores under the schedule for sequences whose lengths only the device knows. Boxes of the
// copy engine end where a sequence does, so nothing reads or writes another's rows.
#pragma once

#include "attention/hopper/consumer.cuh"
#include "attention/hopper/output.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention_serving/hopper/config.h"
#include "attention_serving/hopper/finder.cuh"
#include "attention_serving/hopper/memory.cuh"
#include "attention_serving/hopper/producer.cuh"
#include "attention_serving/hopper/queries.cuh"
#include "attention_serving/sequence_list.cuh"
#include "common/hopper_ptx.cuh"
#include <swr/serving_attention_params.h>
#include <swr/tensor_map.h>

namespace swr::serving {

/// Warpgroup 0: one warp loads, one per consumer stores, one thread of another finds work.
template <HopperServingConfig C>
__device__ __forceinline__ void move_tiles(const ItemMemory<C>& items, const HopperMaps& maps,
                                           const SequenceList<C>& list) {
  const hopper::SharedMemory<C.dense()> smem{items.base};
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 32), 0);
  if (warp == 0) {
    ServingProducer<C>(smem, items, maps).run();
  } else if (warp <= C.dense().consumers()) {
    hopper::store_outputs<C.dense()>(smem, SequenceOutputs<C>(items, maps), warp - 1);
  } else if (warp == C.dense().consumers() + 1 && ptx::elect_sync()) {
    find_items<C>(items, list);
  }
}

template <HopperServingConfig C>
__device__ __forceinline__ void run(const ServingAttentionParams& params, const HopperMaps& maps,
                                    unsigned shared) {
  static_assert(C.dense().consumers() <= 2, "no warp is left that finds work");
  const hopper::SharedMemory<C.dense()> smem{shared};
  const ItemMemory<C> items{params, shared};
  if (threadIdx.x == 0) {
    smem.init_barriers();
    items.init_barriers();
    ptx::prefetch_tensormap(maps.q);
    ptx::prefetch_tensormap(maps.k);
    ptx::prefetch_tensormap(maps.v);
    ptx::prefetch_tensormap(maps.o);
  }
  if (!params.lengths_are_ready) {
    ptx::griddepcontrol_wait();
  }
  const SequenceList<C> list(params, shared);
  list.build();  // Ends with a barrier.
  const int warpgroup =
      __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / C.dense().kWarpgroup), 0);
  if (warpgroup == 0) {
    if constexpr (C.dense().trades_registers()) {
      ptx::setmaxnreg_dec<C.producer_registers()>();
    }
    move_tiles<C>(items, maps, list);
  } else {
    if constexpr (C.dense().trades_registers()) {
      ptx::setmaxnreg_inc<C.consumer_registers()>();
    }
    hopper::Consumer<C.dense(), SequenceQueries<C>>(smem, warpgroup - 1,
                                                    {params, shared, params.scale_log2})
        .run();
  }
}

}  // namespace swr::serving
