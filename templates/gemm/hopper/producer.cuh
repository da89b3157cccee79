// SPDX-License-Identifier: MIT
// The loading warpgroup: one thread walks the schedule, tells the consumers what to compute, and
// keeps the copy engine busy as far ahead as the stages allow, also into the next tile.
#pragma once

#include "common/gemm_groups.h"
#include "common/gemm_schedule.h"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/pipeline.cuh"
#include <swr/gemm_params.h>

namespace swr::hopper {

template <HopperGemmConfig C>
class GemmProducer {
 public:
  __device__ __forceinline__ GemmProducer(GemmMemory<C> smem, const TensorMap& a,
                                          const TensorMap& b, const GemmParams& params,
                                          const GemmExtras& extras)
      : smem_(smem),
        a_map_(a),
        b_map_(b),
        params_(params),
        extras_(extras),
        stage_bytes_(C.loaded_bytes(params.m)) {}

  __device__ __forceinline__ void run() {
    const GemmSchedule schedule = C.schedule(params_);
    const long long clusters = gridDim.x / C.ctas_per_cluster();
    if constexpr (C.is_grouped()) {
      run_groups(schedule, clusters);
      return;
    }
    for (int iteration = 0;; ++iteration) {
      const int linear = schedule.work_at(blockIdx.x / C.ctas_per_cluster(), clusters, iteration);
      if (linear < 0) {
        break;
      }
      load_work(schedule, linear, iteration);
    }
    push({});
  }

 private:
  /// Number of this CTA in its cluster.
  __device__ __forceinline__ static int rank() { return blockIdx.x % C.ctas_per_cluster(); }

  __device__ __forceinline__ void load_work(const GemmSchedule& schedule, int linear,
                                            int iteration) {
    const GemmWork work = schedule.work(linear);
    const KSlab slab = schedule.slab(work.split, schedule.k_part(rank()));
    const GemmTile tile = schedule.cta_tile_of(work.tile, rank());
    const int tiles = schedule.rows() * schedule.columns();
    const int cluster_tile = linear - (work.batch * (schedule.splits - 1) + work.split) * tiles;
    GemmJob job{slab.count, tile.m * C.tile_m, tile.n * C.c_columns(),
                work.batch, work.split,        cluster_tile * C.ctas_per_cluster() + rank()};
    const bool backward = schedule.walks_backward(iteration);
    push(job, slab, backward);
    if (iteration == 0) {
      await_inputs();
    }
    load_steps(job, job.batch, slab, backward);
  }

  /// The same where rows are shared out among the items of B, which is known once launches before
  /// have ended.
  __device__ __forceinline__ void run_groups(const GemmSchedule& schedule, long long clusters) {
    await_inputs();
    const GroupEnds ends = smem_.group_ends();
    const int items = grouped_work_items(schedule, C.groups, ends);
    const int cluster = blockIdx.x / C.ctas_per_cluster();
    int iteration = 0;
    for (int linear = cluster; linear < items; linear += clusters) {
      const GroupedWork work = grouped_work(schedule, params_, C.groups, linear, ends);
      if (work.item < 0) {
        continue;
      }
      const GemmTile tile = schedule.cta_tile_of(work.tile, rank());
      const KSlab slab{0, schedule.k_blocks()};
      GemmJob job{slab.count,
                  work.rows.first + tile.m * C.tile_m,
                  tile.n * C.c_columns(),
                  work.rows.matrix,
                  work.item,
                  work.rows.end};
      const bool backward = schedule.walks_backward(iteration++);
      push(job, slab, backward);
      load_steps(job, work.item, slab, backward);
    }
    push({});
  }

  __device__ __forceinline__ void load_steps(GemmJob job, int b_item, KSlab slab, bool backward) {
    if (params_.alpha == 0.0F) {
      job.batch = -1;  // Outside of A and B the copy engine reads nothing, as BLAS has it.
      b_item = -1;
    }
    for (int step = 0; step < slab.count; ++step) {
      load_stage(job, b_item, k_block_at(step, slab, backward) * C.tile_k);
    }
  }

  /// Before the first load: consumers then know their work, and the end of the launch before has
  /// hidden the schedule's divisions. The launch after may start only now, so that all launches but
  /// this one have ended by then.
  __device__ __forceinline__ static void await_inputs() {
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
  }

  __device__ __forceinline__ void push(GemmJob job, KSlab slab = {}, bool backward = false) {
    if constexpr (C.scaling == Scaling::block) {
      job.first_block = k_block_at(0, slab, backward);
      job.direction = backward ? -1 : 1;
    }
    ptx::mbarrier_wait(smem_.work_empty(job_.stage), job_.parity ^ 1U);
    store_job(smem_.work(job_.stage), job);
    ptx::mbarrier_arrive(smem_.work_full(job_.stage));
    job_.advance();
  }

  __device__ __forceinline__ void load_stage(const GemmJob& job, int b_item, int k) {
    const unsigned empty = smem_.empty(stage_.stage);
    const unsigned full = smem_.full(stage_.stage);
    ptx::mbarrier_wait(empty, stage_.parity ^ 1U);
    if constexpr (C.scaling == Scaling::block) {
      load_scales(full, job, k / kScaleBlock);
    } else {
      ptx::mbarrier_arrive_expect_tx(full, stage_bytes_);
    }
    load_operand<C.a_along_k(), C.tile_m, C.cluster_n>(a_map_, smem_.a(stage_.stage), full, job.m,
                                                       k, job.batch);
    if constexpr (C.gated) {
      load_halves(smem_.b(stage_.stage), full, job.n, k, b_item);
    } else {
      load_operand<C.b_along_k(), C.tile_n, C.cluster_m>(b_map_, smem_.b(stage_.stage), full, job.n,
                                                         k, b_item);
    }
    stage_.advance();
  }

  /// Announces a stage and loads the scales of its rows of A: whole 16 bytes, which rows of scales
  /// are padded to.
  __device__ __forceinline__ void load_scales(unsigned full, const GemmJob& job,
                                              int k_block) const {
    const int rows = min_of(C.tile_m, max_of(0, ceil_div(params_.m - job.m, 4) * 4));
    ptx::mbarrier_arrive_expect_tx(full, stage_bytes_ + 4 * rows);
    if (rows > 0) {
      long long offset = static_cast<long long>(k_block) * extras_.a_scale_stride + job.m;
      if constexpr (C.is_grouped()) {
        offset += block_scales_before(params_, extras_, max_of(0, job.batch));
      }
      ptx::cp_async_bulk_global_to_shared(smem_.scales(stage_.stage), extras_.a_scales + offset,
                                          4 * rows, full);
    }
  }

  /// Loads this CTA's share of an operand's tile: rows [row, row + Rows) along m or n, tile_k along
  /// k. CTAs that share the tile load equal parts of every panel for all of them.
  template <bool AlongK, int Rows, int Sharers>
  __device__ __forceinline__ void load_operand(const TensorMap& map, unsigned tile, unsigned full,
                                               int row, int k, int batch) const {
    constexpr int kLines = AlongK ? Rows : C.tile_k;
    constexpr int kPanels = ceil_div(AlongK ? C.tile_k : Rows, C.panel_columns());
    const int first_line = Sharers > 1 ? rank() * (kLines / Sharers) : 0;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const unsigned target = tile + (panel * kLines + first_line) * C.kLineBytes;
      const int offset = panel * C.panel_columns();
      const ptx::MatrixCorner corner = AlongK
                                           ? ptx::MatrixCorner{k + offset, row + first_line, batch}
                                           : ptx::MatrixCorner{row + offset, k + first_line, batch};
      copy_box<Sharers>(target, map, corner, full);
    }
  }

  /// Loads this CTA's share of a gated B: rows of the gate, then as many of `up`, which the map
  /// takes for another item of the batch. Of two CTAs that share the tile each loads one.
  __device__ __forceinline__ void load_halves(unsigned tile, unsigned full, int row, int k,
                                              int item) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (C.cluster_m > 1 && half != rank()) {
        continue;
      }
#pragma unroll
      for (int panel = 0; panel < ceil_div(C.tile_k, C.panel_columns()); ++panel) {
        const int line = panel * C.tile_n + half * (C.tile_n / 2);
        copy_box<C.cluster_m>(tile + line * C.kLineBytes, b_map_,
                              {k + panel * C.panel_columns(), row, item < 0 ? -1 : 2 * item + half},
                              full);
      }
    }
  }

  template <int Sharers>
  __device__ __forceinline__ static void copy_box(unsigned target, const TensorMap& map,
                                                  ptx::MatrixCorner corner, unsigned full) {
    if constexpr (Sharers > 1) {
      ptx::cp_async_bulk_tensor_3d_global_to_shared_multicast(target, map, corner, full,
                                                              (1U << Sharers) - 1U);
    } else {
      ptx::cp_async_bulk_tensor_3d_global_to_shared(target, map, corner, full);
    }
  }

  GemmMemory<C> smem_;
  const TensorMap& a_map_;
  const TensorMap& b_map_;
  const GemmParams& params_;
  const GemmExtras& extras_;
  int stage_bytes_;
  RingPosition<C.stages> stage_;
  RingPosition<C.kWorkSlots> job_;
};

}  // namespace swr::hopper
