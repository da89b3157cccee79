// SPDX-License-Identifier: MIT
// FlashAttention forward for sm_90a, warp-specialised: warpgroup 0 moves tiles with the copy
// engine, the others compute 64 query rows each with wgmma (FlashAttention-3, sections 3.1
// and 3.2).
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/consumer.cuh"
#include "attention/hopper/output.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/producer.cuh"
#include "attention/hopper/work.cuh"
#include "common/hopper_ptx.cuh"
#include <swr/attention_params.h>
#include <swr/tensor_map.h>

namespace swr::hopper {

/// The tensor maps of a launch, as kernel parameters.
struct Maps {
  const TensorMap& q;
  const TensorMap& k;
  const TensorMap& v;
  const TensorMap& o;
};

/// Warpgroup 0: one warp loads, one per consumer stores.
template <HopperAttentionConfig C>
__device__ __forceinline__ void move_tiles(const AttentionParams& params, const Maps& maps,
                                           SharedMemory<C> smem) {
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 32), 0);
  if (warp == 0) {
    if (ptx::elect_sync()) {
      Producer<C>(smem, maps.q, maps.k, maps.v).run(WorkList<C>(params));
    }
  } else if (warp <= C.consumers()) {
    store_outputs<C>(smem, TensorOutputs<C>{maps.o}, warp - 1);
  }
}

template <HopperAttentionConfig C>
__device__ __forceinline__ void run(const AttentionParams& params, const Maps& maps,
                                    unsigned shared) {
  const SharedMemory<C> smem{shared};
  if (threadIdx.x == 0) {
    smem.init_barriers();
    ptx::prefetch_tensormap(maps.q);
    ptx::prefetch_tensormap(maps.k);
    ptx::prefetch_tensormap(maps.v);
    ptx::prefetch_tensormap(maps.o);
  }
  __syncthreads();
  // The shuffle tells the compiler that the index is the same in the whole warp.
  const int warpgroup = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / C.kWarpgroup), 0);
  if (warpgroup == 0) {
    if constexpr (C.trades_registers()) {
      ptx::setmaxnreg_dec<C.producer_registers()>();
    }
    move_tiles<C>(params, maps, smem);
  } else {
    if constexpr (C.trades_registers()) {
      ptx::setmaxnreg_inc<C.consumer_registers()>();
    }
    Consumer<C, TensorQueries<C>>(smem, warpgroup - 1, params).run();
  }
}

}  // namespace swr::hopper
