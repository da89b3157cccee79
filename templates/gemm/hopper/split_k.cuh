// SPDX-License-Identifier: MIT
// The sum over the splits of k. Every part of a tile that one warpgroup computes is summed by the
// warpgroup that finishes it last, always in the order of the splits, so that results do not depend
// on who is last.
#pragma once

#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/pipeline.cuh"
#include "gemm/hopper/sums.cuh"
#include <swr/gemm_params.h>

namespace swr::hopper {

template <HopperGemmConfig C>
class SplitK {
 public:
  __device__ __forceinline__ SplitK(GemmMemory<C> smem, int consumer, const GemmParams& params)
      : smem_(smem), consumer_(consumer), params_(params) {}

  /// Leaves this split's sums where the others find them. True when all splits have: then `sums`
  /// are those over all of k, and the caller writes C.
  __device__ __forceinline__ bool sum(const GemmJob& job, int first_row, GemmSums<C>& sums) const {
    const int row = job.m + first_row + warp_row();
    leave(job, first_row, row, sums);
    if (!is_last(job)) {
      return false;
    }
    gather(job, first_row, row, sums);
    return true;
  }

 private:
  static constexpr int kQuads = C.tile_n / 8;  ///< Groups of four registers per block and thread.
  static constexpr int kFirstBarrier = 1;      ///< Named barriers, one per consumer.

  /// The thread's first group in the partial sums of a split.
  __device__ __forceinline__ float4* partial(const GemmJob& job, int split, int first_row) const {
    const long long tile = static_cast<long long>(job.tile_index) * params_.splits + split;
    const long long offset = tile * (C.tile_m * C.tile_n) + first_row * C.tile_n;
    return reinterpret_cast<float4*>(params_.partials + offset) + threadIdx.x % C.kWarpgroup;
  }

  __device__ __forceinline__ static int quad_offset(int block, int quad) {
    return (block * kQuads + quad) * C.kWarpgroup;
  }

  /// Rows past the end of C are left out; `row` is the warp's first.
  __device__ __forceinline__ void leave(const GemmJob& job, int first_row, int row,
                                        const GemmSums<C>& sums) const {
    float4* const target = partial(job, job.split, first_row);
#pragma unroll
    for (int block = 0; block < C.m_blocks(); ++block) {
      if (row + 64 * block < params_.m) {
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
          const float* const s = &sums[block][4 * quad];
          __stcg(target + quad_offset(block, quad), make_float4(s[0], s[1], s[2], s[3]));
        }
      }
    }
  }

  /// Counts this warpgroup; the last one clears the counter for the launch to come.
  __device__ __forceinline__ bool is_last(const GemmJob& job) const {
    __threadfence();
    ptx::bar_sync<C.kWarpgroup>(kFirstBarrier + consumer_);
    if (threadIdx.x % C.kWarpgroup == 0) {
      const int part = C.parts_per_tile() == 1 ? 0 : consumer_;
      unsigned* const arrivals = params_.arrivals + job.tile_index * C.parts_per_tile() + part;
      const bool last = atomicAdd(arrivals, 1U) + 1 == static_cast<unsigned>(params_.splits);
      if (last) {
        *arrivals = 0;
      }
      ptx::st_shared(smem_.vote(consumer_), last ? 1U : 0U);
    }
    ptx::bar_sync<C.kWarpgroup>(kFirstBarrier + consumer_);
    __threadfence();
    return ptx::ld_shared_b32(smem_.vote(consumer_)) != 0;
  }

  __device__ __forceinline__ void gather(const GemmJob& job, int first_row, int row,
                                         GemmSums<C>& sums) const {
#pragma unroll
    for (int block = 0; block < C.m_blocks(); ++block) {
      if (row + 64 * block < params_.m) {
        gather_block(job, first_row, block, sums[block]);
      }
    }
  }

  /// One split at a time, the own one too: its loads are all under way at once, and no second set
  /// of registers is needed.
  __device__ __forceinline__ void gather_block(const GemmJob& job, int first_row, int block,
                                               float (&sums)[C.tile_n / 2]) const {
#pragma unroll
    for (int i = 0; i < C.tile_n / 2; ++i) {
      sums[i] = 0.0F;
    }
    for (int split = 0; split < params_.splits; ++split) {
      const float4* const source = partial(job, split, first_row) + quad_offset(block, 0);
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        const float4 term = __ldcg(source + quad * C.kWarpgroup);
        sums[4 * quad] += term.x;
        sums[4 * quad + 1] += term.y;
        sums[4 * quad + 2] += term.z;
        sums[4 * quad + 3] += term.w;
      }
    }
  }

  GemmMemory<C> smem_;
  int consumer_;
  const GemmParams& params_;
};

}  // namespace swr::hopper
