// SPDX-License-Identifier: MIT
// What the loading warpgroup and the consumers share: where tiles lie in shared memory, the list of
// work, and the barriers that hand both over.
#pragma once

#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/ring.cuh"
#include "gemm/groups.cuh"
#include "gemm/hopper/config.h"

namespace swr::hopper {

/// Addresses in the shared memory that starts at `base`.
template <HopperGemmConfig C>
struct GemmMemory {
  unsigned base;

  __device__ __forceinline__ unsigned a(int stage) const { return base + C.a_offset(stage); }
  __device__ __forceinline__ unsigned b(int stage) const { return base + C.b_offset(stage); }
  /// Where a cluster along k exchanges sums once it has multiplied all stages.
  __device__ __forceinline__ unsigned sums() const { return base; }
  /// Slot `slot` of computing warp `warp`.
  __device__ __forceinline__ unsigned staging(int warp, int slot) const {
    return base + C.staging_offset() + (warp * C.staging_slots() + slot) * C.staging_slot_bytes();
  }
  __device__ __forceinline__ unsigned work(int slot) const {
    return base + C.work_offset() + slot * C.kWorkBytes;
  }
  /// The scales of the rows of A's tile in a stage.
  __device__ __forceinline__ unsigned scales(int stage) const {
    return base + C.scales_offset() + stage * C.scale_bytes();
  }
  /// A word that the threads of one consumer share.
  __device__ __forceinline__ unsigned vote(int consumer) const {
    return base + C.vote_offset() + 4 * consumer;
  }
  __device__ __forceinline__ GroupEnds group_ends() const { return {base + C.groups_offset()}; }

  // Barriers. "full": one arrival, and the bytes of the tiles; "empty": one arrival per consumer
  // that reads the stage in each CTA that loads into it; of the work list, one per computing warp.
  __device__ __forceinline__ unsigned full(int stage) const { return barrier(2 * stage); }
  __device__ __forceinline__ unsigned empty(int stage) const { return barrier(2 * stage + 1); }
  __device__ __forceinline__ unsigned work_full(int slot) const {
    return barrier(2 * (C.stages + slot));
  }
  __device__ __forceinline__ unsigned work_empty(int slot) const {
    return barrier(2 * (C.stages + slot) + 1);
  }

  /// By one thread, before any other uses them.
  __device__ __forceinline__ void init_barriers() const {
    const int readers = C.mainloop == GemmMainloop::pingpong ? 1 : C.consumers;
    for (int stage = 0; stage < C.stages; ++stage) {
      ptx::mbarrier_init(full(stage), 1);
      ptx::mbarrier_init(empty(stage), readers * C.arrivals_per_reader() * C.ctas_per_stage());
    }
    for (int slot = 0; slot < C.kWorkSlots; ++slot) {
      ptx::mbarrier_init(work_full(slot), 1);
      ptx::mbarrier_init(work_empty(slot), C.consumers * 4);
    }
    ptx::fence_mbarrier_init();
  }

 private:
  __device__ __forceinline__ unsigned barrier(int index) const {
    return base + C.barrier_offset() + 8 * index;
  }
};

/// One entry of the work list.
struct GemmJob {
  int steps;  ///< k-blocks; 0 marks the end of the list.
  int m;      ///< First row and column of the tile.
  int n;
  int batch;
  int split;
  int tile_index;  ///< Number of the tile among those of all CTAs.
  // Of Scaling::block alone.
  int first_block = 0;  ///< Number of the k-block of step 0,
  int direction = 0;    ///< and from each step to the next.

  // Of grouped kernels, which have no use for the number of a split and of a tile.
  __device__ __forceinline__ int item() const { return split; }  ///< Of B.
  /// First row of C behind the item's.
  __device__ __forceinline__ int row_end() const { return tile_index; }
};

__device__ __forceinline__ void store_job(unsigned shared, const GemmJob& job) {
  ptx::st_shared(shared, make_uint4(job.steps, job.m, job.n, job.batch));
  ptx::st_shared(shared + 16,
                 make_uint4(job.split, job.tile_index, job.first_block, job.direction));
}

/// One computing warp takes the next entry. Lane 0 reads it and says so to the loading thread,
/// which may then overwrite it.
template <HopperGemmConfig C>
__device__ __forceinline__ GemmJob take_job(GemmMemory<C> smem, RingPosition<C.kWorkSlots>& slot) {
  ptx::mbarrier_wait(smem.work_full(slot.stage), slot.parity);
  uint4 first{};
  uint4 second{};
  if (threadIdx.x % 32 == 0) {
    first = ptx::ld_shared_v4_b32(smem.work(slot.stage));
    second = ptx::ld_shared_v4_b32(smem.work(slot.stage) + 16);
    ptx::mbarrier_arrive(smem.work_empty(slot.stage));
  }
  __syncwarp();
  slot.advance();
  GemmJob job{uniform(first.x), uniform(first.y),  uniform(first.z),
              uniform(first.w), uniform(second.x), uniform(second.y)};
  if constexpr (C.scaling == Scaling::block) {
    job.first_block = uniform(second.z);
    job.direction = uniform(second.w);
  }
  return job;
}

}  // namespace swr::hopper
