// SPDX-License-Identifier: MIT
// What the loading warpgroup and the consumers share: where tiles lie in shared memory, and the
// barriers that hand them over. Q and dO have a ring each, so that S of a step can begin before dO
// arrives.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/portable/key_work.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/ring.cuh"

namespace swr::hopper {

/// Addresses in the shared memory that starts at `base`.
template <HopperKeyPassConfig C>
struct BackwardMemory {
  unsigned base;

  __device__ __forceinline__ unsigned k() const { return base + C.k_offset(); }
  __device__ __forceinline__ unsigned v() const { return base + C.v_offset(); }
  __device__ __forceinline__ unsigned q(int stage) const {
    return base + C.q_offset() + stage * C.q_bytes();
  }
  __device__ __forceinline__ unsigned d_o(int stage) const {
    return base + C.d_o_offset() + stage * C.d_o_bytes();
  }
  __device__ __forceinline__ unsigned ds(int stage) const {
    return base + C.ds_offset() + stage * C.ds_bytes();
  }
  __device__ __forceinline__ unsigned p(int stage) const {
    return base + C.p_offset() + stage * C.p_bytes();
  }
  /// Sums of a warp on their way to global memory; `share` counts as DqShare does.
  __device__ __forceinline__ unsigned staged_dq(int stage, int share) const {
    return base + C.staged_dq_offset() + stage * C.staged_dq_bytes() +
           share * (C.staged_dq_bytes() / C.warps);
  }
  /// What is known of the rows of a Q tile.
  __device__ __forceinline__ unsigned stats(int stage) const {
    return base + C.stats_offset() + stage * C.stats_bytes();
  }
  __device__ __forceinline__ unsigned item() const { return base + C.item_offset(); }

  // Barriers. "full": one arrival and the bytes of the tile; "empty": one arrival per consumer.
  __device__ __forceinline__ unsigned k_full() const { return barrier(0); }
  __device__ __forceinline__ unsigned v_full() const { return barrier(1); }
  /// K and V, through whose places dK and dV leave.
  __device__ __forceinline__ unsigned kv_empty() const { return barrier(2); }
  __device__ __forceinline__ unsigned q_full(int stage) const { return barrier(4 + 2 * stage); }
  __device__ __forceinline__ unsigned q_empty(int stage) const { return barrier(5 + 2 * stage); }
  __device__ __forceinline__ unsigned d_o_full(int stage) const { return barrier(10 + 2 * stage); }
  __device__ __forceinline__ unsigned d_o_empty(int stage) const { return barrier(11 + 2 * stage); }
  /// A consumer's part of a step's dQ: full by its warps, empty by the thread that adds.
  __device__ __forceinline__ unsigned dq_full(int stage, int consumer) const {
    return barrier(14 + 4 * stage + 2 * consumer);
  }
  __device__ __forceinline__ unsigned dq_empty(int stage, int consumer) const {
    return dq_full(stage, consumer) + 8;
  }

  /// By one thread, before any other uses them.
  __device__ __forceinline__ void init_barriers() const {
    ptx::mbarrier_init(k_full(), 1);
    ptx::mbarrier_init(v_full(), 1);
    ptx::mbarrier_init(kv_empty(), C.consumers());
    for (int stage = 0; stage < C.stages; ++stage) {
      ptx::mbarrier_init(q_full(stage), 1);
      ptx::mbarrier_init(q_empty(stage), C.consumers());
    }
    for (int stage = 0; stage < C.kValueStages; ++stage) {
      ptx::mbarrier_init(d_o_full(stage), 1);
      ptx::mbarrier_init(d_o_empty(stage), C.consumers());
      for (int consumer = 0; consumer < C.consumers(); ++consumer) {
        ptx::mbarrier_init(dq_full(stage, consumer), C.kWarpgroup / 32);
        ptx::mbarrier_init(dq_empty(stage, consumer), 1);
      }
    }
    ptx::fence_mbarrier_init();
  }

 private:
  __device__ __forceinline__ unsigned barrier(int index) const {
    return base + C.barrier_offset() + 8 * index;
  }
};

/// One thread draws the item of the CTA and leaves what it is, before the warpgroups trade
/// registers: that takes divisions, for which the loading one would have too few.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void draw_item(const AttentionBackwardParams& params,
                                          BackwardMemory<C> smem) {
  const portable::KeyItems<C> items(params, 0);
  const unsigned item = atomicAdd(params.item_counter, 1U);
  const portable::KeyWork work = items.work(items.tile(item), item);
  ptx::st_shared(smem.item(), make_uint4(work.tile.index, work.part, work.batch, work.head_kv));
  ptx::st_shared(smem.item() + 16,
                 make_uint4(work.steps.first, work.steps.count, work.group, work.walk.tiles.first));
}

/// What draw_item() has left. Walks do not rotate.
template <HopperKeyPassConfig C>
__device__ __forceinline__ portable::KeyWork drawn_work(const AttentionBackwardParams& params,
                                                        BackwardMemory<C> smem) {
  static_assert(C.persistence == Persistence::grid && C.order != QOrder::rotated);
  // All lanes have the same; the reduction tells the compiler.
  const auto same = [](unsigned value) { return ptx::redux_sync_or(static_cast<int>(value)); };
  const uint4 what = ptx::ld_shared_v4_b32(smem.item());
  const uint4 steps = ptx::ld_shared_v4_b32(smem.item() + 16);
  portable::KeyWork work;
  work.part = same(what.y);
  work.batch = same(what.z);
  work.head_kv = same(what.w);
  work.tile = {work.batch * params.heads_kv + work.head_kv, same(what.x), 0};
  work.group = same(steps.z);
  work.steps = {same(steps.x), same(steps.y)};
  work.shape = {params.seq_q, params.seq_kv, C.causal};
  const int first = same(steps.w);
  work.walk = {C.order, {first, ceil_div(params.seq_q, C.tile_m) - first}, 0, 0};
  return work;
}

/// The item of an iteration, or -1 when the CTA is done. A drawn one is the only one.
template <HopperKeyPassConfig C>
__device__ __forceinline__ long long item_of(const portable::KeyItems<C>& items, int iteration) {
  if constexpr (C.draws_items()) {
    return iteration == 0 ? 0 : -1;
  } else {
    return items.take(iteration);
  }
}

template <HopperKeyPassConfig C>
__device__ __forceinline__ portable::KeyWork work_of(const AttentionBackwardParams& params,
                                                     const portable::KeyItems<C>& items,
                                                     BackwardMemory<C> smem, long long item) {
  if constexpr (C.draws_items()) {
    return drawn_work<C>(params, smem);
  } else {
    return items.work(item);
  }
}

/// The tensor maps of a launch, as kernel parameters.
struct BackwardMaps {
  const TensorMap& q;
  const TensorMap& k;
  const TensorMap& v;
  const TensorMap& d_o;
  const TensorMap& dk;
  const TensorMap& dv;
};

}  // namespace swr::hopper
