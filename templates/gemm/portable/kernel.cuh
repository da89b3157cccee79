// SPDX-License-Identifier: MIT
// GEMM for sm_80 to sm_121: tiles of A and B stream through a ring in shared memory by cp.async,
// each warp multiplies its part of the tile with mma.sync.
#pragma once

#include "common/gemm_groups.h"
#include "common/gemm_schedule.h"
#include "common/ptx.cuh"
#include "gemm/groups.cuh"
#include "gemm/part_scales.cuh"
#include "gemm/portable/config.h"
#include "gemm/portable/epilogue.cuh"
#include "gemm/portable/fragments.cuh"
#include "gemm/portable/tile_copy.cuh"
#include <swr/gemm_params.h>

namespace swr::portable {

/// One item of a strided batch.
template <PortableGemmConfig C>
__device__ inline GlobalMatrix batch_item(const void* matrix, const MatrixStrides& strides,
                                          int item, int rows, int columns) {
  return {static_cast<const char*>(matrix) + item * strides.batch * C.element_bytes(),
          strides.row * C.element_bytes(), rows, columns};
}

/// The tiles of A and B of one unit of work, in the order of the schedule, through the ring.
template <PortableGemmConfig C>
class TileStream {
 public:
  __device__ TileStream(const GemmParams& params, unsigned ring, const GroupedWork& work, int row,
                        int column, KSlab slab, bool backward)
      : ring_(ring), row_(row), column_(column), slab_(slab), backward_(backward) {
    const auto& [matrix, first, rows] = work.rows;
    const int columns = C.gated ? 2 * params.n : params.n;
    a_ = C.a_along_k() ? batch_item<C>(params.a, params.a_strides, matrix, rows, params.k)
                       : batch_item<C>(params.a, params.a_strides, matrix, params.k, rows);
    b_ = C.b_along_k() ? batch_item<C>(params.b, params.b_strides, work.item, columns, params.k)
                       : batch_item<C>(params.b, params.b_strides, work.item, params.k, columns);
  }

  __device__ unsigned a_tile(int step) const {
    return ring_ + static_cast<unsigned>(step % C.stages * C.stage_bytes());
  }
  __device__ unsigned b_tile(int step) const {
    return a_tile(step) + static_cast<unsigned>(C.a_tile_bytes());
  }

  /// Starts the copies of a step as one group; past the end the group is empty, which keeps the
  /// count of groups in flight the same for every step.
  __device__ void request(int step) const {
    if (step < slab_.count) {
      const int k = k_block_at(step, slab_, backward_) * C.tile_k;
      if constexpr (C.a_along_k()) {
        copy_tile<C, C.tile_m, C.tile_k>(a_tile(step), a_, row_, k);
      } else {
        copy_tile<C, C.tile_k, C.tile_m>(a_tile(step), a_, k, row_);
      }
      if constexpr (C.b_along_k()) {
        copy_tile<C, C.tile_n, C.tile_k, C.gated>(b_tile(step), b_, column_, k);
      } else {
        copy_tile<C, C.tile_k, C.tile_n>(b_tile(step), b_, k, column_);
      }
    }
    ptx::cp_async_commit_group();
  }

  /// Waits for the oldest group in flight. Also: every warp has finished what it read before.
  __device__ static void arrive() {
    ptx::cp_async_wait_group<C.stages - 2>();
    __syncthreads();
  }

 private:
  unsigned ring_;
  int row_;
  int column_;
  KSlab slab_;
  bool backward_;
  GlobalMatrix a_;
  GlobalMatrix b_;
};

template <PortableGemmConfig C>
__device__ inline void compute(const GemmParams& params, const GemmExtras& extras,
                               const GemmSchedule& schedule, unsigned shared,
                               const GroupedWork& work, int split, int linear, bool backward) {
  const KSlab slab = schedule.slab(split);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int warp_row = warp % C.warps_m * (16 * C.m_blocks());
  const int warp_column = warp / C.warps_m * (8 * C.n_blocks());
  const int row = work.rows.first + work.tile.m * C.tile_m;
  const int column = work.tile.n * C.c_columns();
  const int c_column = column + warp / C.warps_m * C.warp_c_columns();
  const TileStream<C> stream(params, shared, work, row, column, slab, backward);

  __syncthreads();  // The tile before has been read.
  for (int step = 0; step < C.stages - 1; ++step) {
    stream.request(step);
  }
  Sums<C> sums = {};
  if constexpr (C.promote_every > 0) {
    constexpr int kSteps = C.promote_every / C.tile_k;
    PartScales<C, C.m_blocks(), 16, 8 * C.n_blocks()> scales(
        params, extras, row + warp_row + static_cast<int>(threadIdx.x % 32 / 4), c_column);
    for (int first = 0; first < slab.count; first += kSteps) {
      Sums<C> part = {};
      scales.load_rows(k_block_at(first, slab, backward));
      scales.load_columns(k_block_at(first, slab, backward));
      for (int step = first; step < min_of(first + kSteps, slab.count); ++step) {
        stream.arrive();
        stream.request(step + C.stages - 1);
        multiply_tile<C>(part, stream.a_tile(step), stream.b_tile(step), warp_row, warp_column);
      }
      scales.take();
#pragma unroll
      for (int m = 0; m < C.m_blocks(); ++m) {
        scales.promote(&sums[m][0][0], &part[m][0][0], m);
      }
    }
  } else {
    for (int step = 0; step < slab.count; ++step) {
      stream.arrive();
      stream.request(step + C.stages - 1);
      multiply_tile<C>(sums, stream.a_tile(step), stream.b_tile(step), warp_row, warp_column);
    }
  }
  if constexpr (C.split_k) {
    const int tiles = schedule.rows() * schedule.columns();
    const int tile = linear - (work.item * (schedule.splits - 1) + split) * tiles;
    if (params.splits > 1 && !sum_splits<C>(sums, params, tile, split, shared + C.vote_offset())) {
      return;
    }
  }
  write_sums<C>(sums, params, extras, work.rows.matrix, row + warp_row, work.rows.end, c_column);
}

template <PortableGemmConfig C>
__device__ inline void run_groups(const GemmParams& params, const GemmExtras& extras,
                                  const GemmSchedule& schedule, unsigned shared) {
  const GroupEnds ends{shared + C.groups_offset()};
  if constexpr (C.counts_groups()) {
    if (threadIdx.x < 32) {
      ends.count<C.groups>(params, schedule);
    }
    __syncthreads();
  }
  const int items = grouped_work_items(schedule, C.groups, ends);
  int iteration = 0;
  for (int linear = blockIdx.x; linear < items; linear += gridDim.x) {
    const GroupedWork work = grouped_work(schedule, params, C.groups, linear, ends);
    if (work.item >= 0) {
      compute<C>(params, item_extras<C>(extras, params, work.item, work.rows.matrix), schedule,
                 shared, work, 0, linear, schedule.walks_backward(iteration++));
    }
  }
}

template <PortableGemmConfig C>
__device__ inline void run(const GemmParams& params, const GemmExtras& extras, unsigned shared) {
  const GemmSchedule schedule = C.schedule(params);
  if constexpr (C.is_grouped()) {
    run_groups<C>(params, extras, schedule, shared);
    return;
  }
  for (int iteration = 0;; ++iteration) {
    const int linear = schedule.work_at(blockIdx.x, gridDim.x, iteration);
    if (linear < 0) {
      return;
    }
    const GemmWork work = schedule.work(linear);
    compute<C>(params, extras, schedule, shared, {work.batch, {work.batch, 0, params.m}, work.tile},
               work.split, linear, schedule.walks_backward(iteration));
  }
}

}  // namespace swr::portable
