// SPDX-License-Identifier: MIT
// GEMM for sm_90a, warp-specialised: warpgroup 0 loads tiles with the copy engine, the others
// multiply with wgmma.
#pragma once

#include "common/hopper_ptx.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/consumer.cuh"
#include "gemm/hopper/pipeline.cuh"
#include "gemm/hopper/producer.cuh"
#include "gemm/row_copies.h"
#include "gemm/unaligned.cuh"
#include <swr/gemm_params.h>
#include <swr/tensor_map.h>

namespace swr::hopper {

/// The tensor maps of a launch, as kernel parameters.
struct GemmMaps {
  const TensorMap& a;
  const TensorMap& b;
  const TensorMap& c;
};

/// Between the initialisation of barriers and their first use.
template <HopperGemmConfig C>
__device__ __forceinline__ void sync_barriers() {
  if constexpr (C.ctas_per_stage() > 1) {
    ptx::barrier_cluster_sync_relaxed();
  } else {
    __syncthreads();
  }
}

template <HopperGemmConfig C>
__device__ __forceinline__ void load(const GemmParams& params, const GemmExtras& extras,
                                     const GemmMaps& maps, GemmMemory<C> smem) {
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 32), 0);
  if constexpr (C.counts_groups()) {
    if (warp == 0) {
      ptx::griddepcontrol_wait();
      smem.group_ends().template count<C.groups>(params, C.schedule(params));
    }
  }
  if (warp == 0 && ptx::elect_sync()) {
    GemmProducer<C>(smem, maps.a, maps.b, params, extras).run();
  }
}

template <HopperGemmConfig C>
__device__ __forceinline__ void run(const GemmParams& params, const GemmExtras& extras,
                                    const GemmMaps& maps, unsigned shared) {
  const GemmMemory<C> smem{shared};
  // Two warps, so that neither waits for the other.
  if (threadIdx.x == 32) {
    smem.init_barriers();
  } else if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(maps.a);
    ptx::prefetch_tensormap(maps.b);
    if constexpr (!C.has_odd_rows()) {
      ptx::prefetch_tensormap(maps.c);
    }
  }
  sync_barriers<C>();
  // The shuffle tells the compiler that the index is the same in the whole warp.
  const int warpgroup = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / C.kWarpgroup), 0);
  if (warpgroup == 0) {
    if constexpr (C.trades_registers()) {
      ptx::setmaxnreg_dec<C.producer_registers()>();
    }
    load<C>(params, extras, maps, smem);
    if constexpr (C.cluster_k > 1) {
      ptx::barrier_cluster_sync_relaxed();  // ClusterSum's barrier takes every thread; these wrote
                                            // nothing.
    }
  } else {
    if constexpr (C.trades_registers()) {
      ptx::setmaxnreg_inc<C.consumer_registers()>();
    }
    GemmConsumer<C>(smem, warpgroup - 1, params, extras, maps.c).run();
  }
  if constexpr (C.ctas_per_cluster() > 1) {
    ptx::barrier_cluster_sync_relaxed();  // Others reach into this CTA until they end.
  }
}

/// A product, or the copies before one.
template <HopperGemmConfig C>
__device__ __forceinline__ void run_launch(const GemmParams& params,
                                           const LastGemmParameter<C.has_odd_rows()>& last,
                                           const GemmMaps& maps, unsigned shared) {
  if constexpr (C.has_odd_rows()) {
    if (last.copies.chunks() > 0) {
      ptx::griddepcontrol_wait();
      ptx::griddepcontrol_launch_dependents();
      copy_rows<C.threads()>(last.copies);
      return;
    }
  }
  run<C>(params, last.extras, maps, shared);
}

}  // namespace swr::hopper
