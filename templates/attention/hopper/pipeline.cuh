// SPDX-License-Identifier: MIT
// What the loading warpgroup and the consumers share: where tiles lie in shared memory, and the
// barriers that hand them over. K and V have a ring each, so that a K tile can be used before its V
// tile has arrived.
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/work.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/ring.cuh"

namespace swr::hopper {

/// Addresses in the shared memory that starts at `base`.
template <HopperAttentionConfig C>
struct SharedMemory {
  unsigned base;

  /// The consumer's 64 rows of a Q slot; its O leaves from there too.
  __device__ __forceinline__ unsigned q(int slot, int consumer) const {
    return base + C.q_offset() + slot * C.q_tile_bytes() +
           consumer * (C.q_tile_bytes() / C.consumers());
  }
  __device__ __forceinline__ unsigned k(int stage) const {
    return base + C.k_offset() + stage * C.kv_tile_bytes();
  }
  __device__ __forceinline__ unsigned v(int stage) const {
    return base + C.v_offset() + stage * C.kv_tile_bytes();
  }
  __device__ __forceinline__ unsigned p(int consumer) const {
    return base + C.p_offset() + consumer * (C.p_tile_bytes() / C.consumers());
  }
  /// The entry of the work list that belongs to a Q slot: written by the loading thread before
  /// q_full, read until q_empty.
  __device__ __forceinline__ unsigned scan(int slot) const {
    return base + C.scan_offset() + slot * C.kScanBytes;
  }

  /// For a Q slot to be empty: four computing warps and the storing one have read its entry of the
  /// work list, and its O has been stored.
  static constexpr int kArrivalsPerConsumer = 4 + 1 + 1;

  // Barriers. "full": one arrival and the bytes of the tile; "empty": one arrival per consumer,
  // kArrivalsPerConsumer for Q.
  __device__ __forceinline__ unsigned q_full(int slot) const { return barrier(2 * slot); }
  __device__ __forceinline__ unsigned q_empty(int slot) const { return barrier(2 * slot + 1); }
  __device__ __forceinline__ unsigned k_full(int stage) const { return barrier(4 * stage + 4); }
  __device__ __forceinline__ unsigned k_empty(int stage) const { return barrier(4 * stage + 5); }
  __device__ __forceinline__ unsigned v_full(int stage) const { return barrier(4 * stage + 6); }
  __device__ __forceinline__ unsigned v_empty(int stage) const { return barrier(4 * stage + 7); }

  /// By one thread, before any other uses them.
  __device__ __forceinline__ void init_barriers() const {
    for (int slot = 0; slot < C.q_slots(); ++slot) {
      ptx::mbarrier_init(q_full(slot), 1);
      ptx::mbarrier_init(q_empty(slot), C.consumers() * kArrivalsPerConsumer);
    }
    for (int stage = 0; stage < C.stages; ++stage) {
      ptx::mbarrier_init(k_full(stage), 1);
      ptx::mbarrier_init(k_empty(stage), C.consumers());
      ptx::mbarrier_init(v_full(stage), 1);
      ptx::mbarrier_init(v_empty(stage), C.consumers());
    }
    ptx::fence_mbarrier_init();
  }

 private:
  __device__ __forceinline__ unsigned barrier(int index) const {
    static_assert(C.stages <= 7, "the barriers of more stages do not fit their 256 bytes");
    return base + C.barrier_offset() + 8 * index;
  }
};

__device__ __forceinline__ void store_scan(unsigned shared, const Scan& scan) {
  static_assert(sizeof(Scan) == 32, "HopperAttentionConfig::kScanBytes");
  ptx::st_shared(shared,
                 make_uint4(scan.tiles, scan.unmasked_tiles, scan.first_row, scan.backward));
  ptx::st_shared(shared + 16, make_uint4(scan.head, scan.batch, scan.batch_head, scan.kv_head));
}

/// One warp takes an entry of the work list. Lane 0 reads it and says so to the loading thread,
/// which may then overwrite it.
__device__ __forceinline__ Scan take_scan(unsigned shared, unsigned empty_barrier) {
  uint4 steps{};
  uint4 place{};
  if (threadIdx.x % 32 == 0) {
    steps = ptx::ld_shared_v4_b32(shared);
    place = ptx::ld_shared_v4_b32(shared + 16);
    ptx::mbarrier_arrive(empty_barrier);
  }
  __syncwarp();
  return {uniform(steps.x), uniform(steps.y), uniform(steps.z), uniform(steps.w),
          uniform(place.x), uniform(place.y), uniform(place.z), uniform(place.w)};
}

}  // namespace swr::hopper
