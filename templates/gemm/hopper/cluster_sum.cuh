// SPDX-License-Identifier: MIT
// The sum over the CTAs of a cluster that share a tile along k. Each CTA writes every cluster_k-th
// group of 16 rows: it reads the others' sums of these rows from their shared memory, starting with
// its right neighbour. Who adds what in which order is fixed, so results do not depend on timing.
#pragma once

#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/pipeline.cuh"
#include "gemm/hopper/sums.cuh"

namespace swr::hopper {

template <HopperGemmConfig C>
class ClusterSum {
 public:
  __device__ __forceinline__ ClusterSum(GemmMemory<C> smem, int rows) : smem_(smem), rows_(rows) {}

  /// Adds the other CTAs' sums to those rows of a consumer's that this CTA writes. Every thread of
  /// the consumers calls it once, and all other threads of the cluster its barrier; the CTA's
  /// k-blocks have been multiplied, and their stages take the sums. `first_row` is the consumer's
  /// first in the tile, of which `rows` lie in C.
  __device__ __forceinline__ void sum(int first_row, GemmSums<C>& sums) const {
    // Another warp's products may still read the stages.
    ptx::bar_sync<C.consumers * C.kWarpgroup>(kBarrier);
    leave(first_row, sums);
    ptx::barrier_cluster_sync();
#pragma unroll
    for (int block = 0; block < C.m_blocks(); ++block) {
      const int row = first_row + 64 * block + warp_row();
      if (row < rows_ && writes_rows<C>(row)) {
        gather(row, sums[block]);
      }
    }
  }

 private:
  static constexpr int kQuads = C.tile_n / 8;  ///< Groups of four registers per block and thread.
  static constexpr int kQuadsAtOnce = 8;       ///< Loads under way: more take too many registers.
  static constexpr int kQuadBytes = 32 * 16;   ///< Of a warp.
  static constexpr int kBarrier = 1;           ///< Named barrier of all consumers.

  /// Place of the thread's first group of the warp's rows, which start at `row` of the tile.
  __device__ __forceinline__ unsigned place(int row) const {
    return smem_.sums() + row / 16 * (kQuads * kQuadBytes) + threadIdx.x % 32 * 16;
  }

  /// Leaves what other CTAs write where they find it.
  __device__ __forceinline__ void leave(int first_row, const GemmSums<C>& sums) const {
#pragma unroll
    for (int block = 0; block < C.m_blocks(); ++block) {
      const int row = first_row + 64 * block + warp_row();
      if (row < rows_ && !writes_rows<C>(row)) {
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
          const float* const s = &sums[block][4 * quad];
          ptx::st_shared(place(row) + quad * kQuadBytes, make_float4(s[0], s[1], s[2], s[3]));
        }
      }
    }
  }

  __device__ __forceinline__ void gather(int row, float (&sums)[C.tile_n / 2]) const {
    // Rolled: loads of several neighbours at a time take too many registers.
#pragma unroll 1
    for (int distance = 1; distance < C.cluster_k; ++distance) {
      const int neighbour = (k_part<C>() + distance) % C.cluster_k;
      const unsigned source = ptx::mapa(place(row), neighbour);
#pragma unroll
      for (int first = 0; first < kQuads; first += kQuadsAtOnce) {
        add_quads(source, first, min_of(first + kQuadsAtOnce, kQuads), sums);
      }
    }
  }

  /// Groups [first, end), loaded before any is added. Bounds are known when compiled.
  __device__ __forceinline__ static void add_quads(unsigned source, int first, int end,
                                                   float (&sums)[C.tile_n / 2]) {
    float4 terms[kQuadsAtOnce];
#pragma unroll
    for (int i = 0; i < kQuadsAtOnce; ++i) {
      if (first + i < end) {
        terms[i] = ptx::ld_shared_cluster_v4_f32(source + (first + i) * kQuadBytes);
      }
    }
#pragma unroll
    for (int i = 0; i < kQuadsAtOnce; ++i) {
      if (first + i < end) {
        float* const s = &sums[4 * (first + i)];
        s[0] += terms[i].x;
        s[1] += terms[i].y;
        s[2] += terms[i].z;
        s[3] += terms[i].w;
      }
    }
  }

  GemmMemory<C> smem_;
  int rows_;
};

}  // namespace swr::hopper
