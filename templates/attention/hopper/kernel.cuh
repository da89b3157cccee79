// SPDX-License-Identifier: MIT
// FlashAttention forward for sm_90a, warp-specialised: warpgroup 0 loads through the copy engine,
// the others compute 64 query rows each with wgmma (FlashAttention-3, sections 3.1 and 3.2).
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/consumer.cuh"
#include "attention/hopper/epilogue.cuh"
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

/// All Q tiles of this CTA, for one consumer.
template <HopperConfig C>
__device__ __forceinline__ void consume(const AttentionParams& params, const Maps& maps,
                                        SharedMemory<C> smem, int index) {
  const WorkList<C> work(params);
  const Epilogue<C> epilogue(smem, index, maps.o);
  Consumer<C> consumer(smem, index, params.scale_log2, work.shape());
  Scan scan;
  for (int iteration = 0; work.get(iteration, scan); ++iteration) {
    Output<C> output;
    float lse[2];
    ptx::barrier_wait(smem.q_full(), iteration & 1);
    consumer.attend(scan, output, lse);
    if (C.o_has_own_tile() && Consumer<C>::is_leader()) {
      ptx::barrier_arrive(smem.q_empty());
    }
    epilogue.write(scan, output);
    if (!C.o_has_own_tile() && Consumer<C>::is_leader()) {
      ptx::wait_stores_read();
      ptx::barrier_arrive(smem.q_empty());
    }
    epilogue.write_lse(scan, params, lse);
  }
  if (Consumer<C>::is_leader()) {
    ptx::wait_stores_read();  // Shared memory must outlive its readers.
  }
}

template <HopperConfig C>
__device__ __forceinline__ void produce(const AttentionParams& params, const Maps& maps,
                                        SharedMemory<C> smem) {
  if (threadIdx.x < 32 && ptx::elect_one()) {
    Producer<C>(smem, maps.q, maps.k, maps.v).run(WorkList<C>(params));
  }
}

template <HopperConfig C>
__device__ __forceinline__ void run(const AttentionParams& params, const Maps& maps,
                                    unsigned shared) {
  const SharedMemory<C> smem{shared};
  if (threadIdx.x == 0) {
    smem.init_barriers();
    ptx::prefetch_map(maps.q);
    ptx::prefetch_map(maps.k);
    ptx::prefetch_map(maps.v);
    ptx::prefetch_map(maps.o);
  }
  __syncthreads();
  // The shuffle tells the compiler that the index is the same in the whole warp.
  const int warpgroup = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / C.kWarpgroup), 0);
  if (warpgroup == 0) {
    if constexpr (C.trades_registers()) {
      ptx::lower_registers<C.producer_registers()>();
    }
    produce<C>(params, maps, smem);
  } else {
    if constexpr (C.trades_registers()) {
      ptx::raise_registers<C.consumer_registers()>();
    }
    consume<C>(params, maps, smem, warpgroup - 1);
  }
}

}  // namespace swr::hopper
