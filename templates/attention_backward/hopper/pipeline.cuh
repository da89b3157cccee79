// SPDX-License-Identifier: MIT
// What the loading warp and the consumers share: where tiles lie in shared memory, and the barriers
// that hand them over. Q and dO have a ring each, so that S of a step can begin before dO arrives.
#pragma once

#include "attention_backward/hopper/config.h"
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
  __device__ __forceinline__ unsigned staged_dq(int share) const {
    return base + C.staged_dq_offset() + share * (C.staged_dq_bytes() / C.warps);
  }
  /// Pairs of the rows of a Q tile, and where its step leads.
  __device__ __forceinline__ unsigned stats(int stage) const {
    return base + C.stats_offset() + stage * C.stats_bytes();
  }
  __device__ __forceinline__ unsigned place(int stage) const {
    return base + C.place_offset() + stage * C.kPlaceBytes;
  }

  /// For a Q tile to be empty: its consumer is done, and its four warps have read the place.
  static constexpr int kArrivalsPerConsumer = 1 + 4;

  // Barriers. "full": one arrival and the bytes of the tile; "empty": one arrival per consumer,
  // kArrivalsPerConsumer for Q.
  __device__ __forceinline__ unsigned k_full() const { return barrier(0); }
  __device__ __forceinline__ unsigned v_full() const { return barrier(1); }
  /// K and V, through whose places dK and dV leave.
  __device__ __forceinline__ unsigned kv_empty() const { return barrier(2); }
  __device__ __forceinline__ unsigned q_full(int stage) const { return barrier(4 + 2 * stage); }
  __device__ __forceinline__ unsigned q_empty(int stage) const { return barrier(5 + 2 * stage); }
  __device__ __forceinline__ unsigned d_o_full(int stage) const { return barrier(10 + 2 * stage); }
  __device__ __forceinline__ unsigned d_o_empty(int stage) const { return barrier(11 + 2 * stage); }

  /// By one thread, before any other uses them.
  __device__ __forceinline__ void init_barriers() const {
    ptx::mbarrier_init(k_full(), 1);
    ptx::mbarrier_init(v_full(), 1);
    ptx::mbarrier_init(kv_empty(), C.consumers());
    for (int stage = 0; stage < C.stages; ++stage) {
      ptx::mbarrier_init(q_full(stage), 1);
      ptx::mbarrier_init(q_empty(stage), C.consumers() * kArrivalsPerConsumer);
    }
    for (int stage = 0; stage < C.kValueStages; ++stage) {
      ptx::mbarrier_init(d_o_full(stage), 1);
      ptx::mbarrier_init(d_o_empty(stage), C.consumers());
    }
    ptx::fence_mbarrier_init();
  }

 private:
  __device__ __forceinline__ unsigned barrier(int index) const {
    return base + C.barrier_offset() + 8 * index;
  }
};

/// Where a step leads, so that consumers need no divisions. The loading thread writes it before the
/// Q tile is full; it is read until the tile is empty.
struct StepPlace {
  int q_tile;
  int batch_head;  ///< batch * heads_q + the query head.
  int masked;      ///< Other than 0: some pair of the tiles is hidden or past an end.
};

__device__ __forceinline__ void store_place(unsigned shared, const StepPlace& place) {
  ptx::st_shared(shared, make_uint4(place.q_tile, place.batch_head, place.masked, 0));
}
/// One warp takes it. Lane 0 reads it and says so to the loading thread, which may then overwrite
/// it.
__device__ __forceinline__ StepPlace take_place(unsigned shared, unsigned empty_barrier) {
  uint4 words{};
  if (threadIdx.x % 32 == 0) {
    words = ptx::ld_shared_v4_b32(shared);
    ptx::mbarrier_arrive(empty_barrier);
  }
  __syncwarp();
  return {uniform(words.x), uniform(words.y), uniform(words.z)};
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
