// SPDX-License-Identifier: MIT
// Attention backward for sm_90a, the pass over K and V tiles, warp-specialised: one warp moves
// tiles with the copy engine, one more has dQ added, two in turn where turns count, the warpgroups
// behind them compute with wgmma (FlashAttention-3, section 3 and its backward pass).
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/consumer.cuh"
#include "attention_backward/hopper/dq_adder.cuh"
#include "attention_backward/hopper/pipeline.cuh"
#include "attention_backward/hopper/producer.cuh"
#include "common/hopper_ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::hopper {

template <HopperKeyPassConfig C>
__device__ __forceinline__ void run_key_pass(const AttentionBackwardParams& params,
                                             const BackwardMaps& maps, unsigned shared) {
  static_assert(C.is_whole(), "tiles, warps and columns must divide");
  const BackwardMemory<C> smem{shared};
  if (threadIdx.x == 0) {
    smem.init_barriers();
    ptx::prefetch_tensormap(maps.q);
    ptx::prefetch_tensormap(maps.k);
    ptx::prefetch_tensormap(maps.v);
    ptx::prefetch_tensormap(maps.d_o);
    if constexpr (C.draws_items()) {
      ptx::griddepcontrol_wait();  // The kernel before sets the counter.
      draw_item<C>(params, smem);
    }
  }
  __syncthreads();
  // The shuffle tells the compiler that the index is the same in the whole warp.
  const int warpgroup = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / C.kWarpgroup), 0);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<C.producer_registers()>();
    if (threadIdx.x < 32) {
      KeyProducer<C>(smem, params, maps).run();
    } else if constexpr (C.stages_dq()) {
      const int stage = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 32), 0) - 1;
      if (stage < C.dq_stages()) {
        DqAdder<C>(smem, stage, params).run();
      }
    }
  } else {
    ptx::setmaxnreg_inc<C.consumer_registers()>();
    constexpr bool kAlike = C.dq_consumers() == C.consumers();
    if (kAlike || warpgroup == 1) {
      KeyConsumer<C, true>(smem, warpgroup - 1, params, maps).run();
    } else {
      KeyConsumer<C, kAlike>(smem, warpgroup - 1, params, maps).run();
    }
  }
}

}  // namespace swr::hopper
