// SPDX-License-Identifier: MIT
// A computing warpgroup: its rows of every tile of the CTA (cooperative), or every other tile
// (pingpong).
#pragma once

#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/wgmma_operand.cuh"
#include "common/wgmma_widths.cuh"
#include "gemm/hopper/cluster_sum.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/epilogue.cuh"
#include "gemm/hopper/pipeline.cuh"
#include "gemm/hopper/split_k.cuh"
#include "gemm/hopper/sums.cuh"
#include "gemm/part_scales.cuh"
#include <swr/gemm_params.h>

namespace swr::hopper {

template <HopperGemmConfig C>
class GemmConsumer {
 public:
  __device__ __forceinline__ GemmConsumer(GemmMemory<C> smem, int index, const GemmParams& params,
                                          const GemmExtras& extras, const TensorMap& c_map)
      : smem_(smem), index_(index), params_(params), extras_(extras), c_map_(c_map) {}

  /// All work of the CTA.
  __device__ __forceinline__ void run() {
    ptx::griddepcontrol_wait();
    if ((C.mainloop == GemmMainloop::pingpong || kTakesTurnsByPart) && index_ == 1) {
      let_other_go();
    }
    int turn = 0;
    for (GemmJob job = take_job<C>(smem_, job_); job.steps > 0; job = take_job<C>(smem_, job_)) {
      if (C.mainloop == GemmMainloop::pingpong && turn != index_) {
        stage_.advance(job.steps);
      } else if (C.is_grouped() && job.m + first_row() >= job.row_end()) {
        skip(job.steps);
      } else {
        if constexpr (C.promote_every > 0) {
          multiply_in_parts(job);
        } else {
          multiply(job);
        }
        finish(job);
      }
      turn ^= 1;
    }
    ptx::cp_async_bulk_wait_group_read();
  }

 private:
  using Scales = PartScales<C, C.m_blocks(), 64, C.tile_n>;

  /// First row of this consumer in its tile.
  __device__ __forceinline__ int first_row() const {
    return C.mainloop == GemmMainloop::pingpong ? 0 : index_ * C.consumer_rows();
  }

  /// sums = A B over the k-blocks of the job. One group of products stays under way while the next
  /// is issued; the stage before is handed back once its group has ended.
  __device__ __forceinline__ void multiply(const GemmJob& job) {
    take_turn();
    int previous = 0;
    for (int step = 0; step < job.steps; ++step) {
      ptx::mbarrier_wait(smem_.full(stage_.stage), stage_.parity);
      ptx::wgmma_fence();
      issue_products(step > 0);
      ptx::wgmma_commit_group();
      if (step > 0) {
        ptx::wgmma_wait_group<1>();
        release(previous);
        request_addend_early(job);
      }
      previous = stage_.stage;
      stage_.advance();
    }
    pass_turn();
    ptx::wgmma_wait_group<0>();
    pin_sums<C>(sums_);
    release(previous);
  }

  /// The same, of two levels: the tensor cores sum the products of promote_steps() k-blocks, one
  /// block of 64 rows at a time, and the thread adds these to its sums. The other consumer's
  /// products run meanwhile, so that all that can be done before is done under the products.
  __device__ __forceinline__ void multiply_in_parts(const GemmJob& job) {
    take_turn();
    clear<C>(sums_);
    const auto& extras = extras_of(job);
    Scales scales(params_, extras, job.m + first_row() + warp_row() + lane_row(), job.n);
    fetch(job, 0, stage_, scales);
    int step = 0;
    while (step + C.promote_steps() <= job.steps) {
      if (step > 0) {
        request_addend_early(job);
      }
      if (kUnrollsRing && stage_.stage == 0 && step + C.stages <= job.steps) {
#pragma unroll
        for (int i = 0; i < C.stages; ++i) {
          stage_.stage = i;
          add_part<1>(job, step + i, scales);
        }
        step += C.stages;
      } else {
        add_part<C.promote_steps()>(job, step, scales);
        step += C.promote_steps();
      }
    }
    if constexpr (C.promote_steps() > 1) {
      for (; step < job.steps; ++step) {
        add_part<1>(job, step, scales);
      }
    }
  }

  /// Waits for the stage that a part begins with, and reads its scales.
  __device__ __forceinline__ void fetch(const GemmJob& job, int step, RingPosition<C.stages> stage,
                                        Scales& scales) {
    scales.load_columns(job.first_block + step * job.direction);
    ptx::mbarrier_wait(smem_.full(stage.stage), stage.parity);
    scales.load_shared_rows(smem_.scales(stage.stage) +
                            4 * (first_row() + warp_row() + lane_row()));
  }

  /// Adds the products of k-blocks [step, step + Steps).
  template <int Steps>
  __device__ __forceinline__ void add_part(const GemmJob& job, int step, Scales& scales) {
    Operands first;
#pragma unroll
    for (int block = 0; block < C.m_blocks(); ++block) {
      float part[C.tile_n / 2];
      if constexpr (kTakesTurnsByPart) {
        await_turn();
      }
      ptx::wgmma_fence();
      if (block == 0) {
        first = operands_of(stage_.stage);
      }
      issue_part(part, first, block, false);
      RingPosition<C.stages> stage = stage_;
      stage.advance();
#pragma unroll
      for (int i = 1; i < Steps; ++i) {
        if (block == 0) {
          ptx::mbarrier_wait(smem_.full(stage.stage), stage.parity);
        }
        ptx::wgmma_fence();
        issue_part(part, operands_of(stage.stage), block, true);
        stage.advance();
      }
      ptx::wgmma_commit_group();
      if constexpr (kTakesTurnsByPart) {
        let_other_go();
      }
      if (block == 0) {
        scales.take();
      }
      const bool is_last_block = block + 1 == C.m_blocks();
      const bool is_last_part = step + Steps == job.steps;
      if (is_last_block && is_last_part) {
        pass_turn();
      }
      if (kFetchesEarly && is_last_block && !is_last_part) {
        fetch(job, step + Steps, stage, scales);
      }
      ptx::wgmma_wait_group<0>();
      ptx::warpgroup_fence_operand(part);
      if (is_last_block) {
#pragma unroll
        for (int i = 0; i < Steps; ++i) {
          release(stage_.stage);
          stage_.advance();
        }
      }
      if (!kFetchesEarly && is_last_block && !is_last_part) {
        fetch(job, step + Steps, stage_, scales);
      }
      scales.promote(sums_[block], part, block);
    }
  }

  /// Among the products, a panel at a time: what is added to C is then there when they end. None
  /// before the second k-block: until then the copy engine may still read the slots.
  __device__ __forceinline__ void request_addend_early(const GemmJob& job) {
    if constexpr (kAddsEarly<C>) {
      request_addends<C>(smem_, params_, extras_, job, job.m + first_row() + warp_row(), slot_,
                         requested_, requested_ + 1);
    }
  }

  /// Hands the stages of a job back unread: none of its rows exists. No product keeps the warps
  /// together here; one that fell behind would miss a whole phase.
  __device__ __forceinline__ void skip(int steps) {
    take_turn();
    for (int step = 0; step < steps; ++step) {
      for (int part = 0; kTakesTurnsByPart && part < C.m_blocks(); ++part) {
        await_turn();
        let_other_go();
      }
      ptx::mbarrier_wait(smem_.full(stage_.stage), stage_.parity);
      ptx::bar_sync<C.kWarpgroup>(kFirstSkipBarrier + index_);
      release(stage_.stage);
      stage_.advance();
    }
    pass_turn();
  }

  /// With pingpong, between these a consumer is alone. Without turns the one that is ahead would
  /// wait for a stage whose phase before is not over yet, and barriers cannot tell phases two
  /// apart.
  __device__ __forceinline__ void take_turn() const {
    if constexpr (C.mainloop == GemmMainloop::pingpong) {
      await_turn();
    }
  }
  __device__ __forceinline__ void pass_turn() const {
    if constexpr (C.mainloop == GemmMainloop::pingpong) {
      let_other_go();
    }
  }
  __device__ __forceinline__ void await_turn() const {
    ptx::bar_sync<2 * C.kWarpgroup>(kFirstTurnBarrier + index_);
  }
  __device__ __forceinline__ void let_other_go() const {
    ptx::bar_arrive<2 * C.kWarpgroup>(kFirstTurnBarrier + 1 - index_);
  }

  /// One k-block, uncommitted. The first product overwrites unless `accumulate`.
  __device__ __forceinline__ void issue_products(bool accumulate) {
    const unsigned long long a =
        descriptor<C.kLineBytes>(smem_.a(stage_.stage), C.tile_k * C.kLineBytes);
    const unsigned long long b =
        descriptor<C.kLineBytes>(smem_.b(stage_.stage), C.tile_k * C.kLineBytes);
#pragma unroll
    for (int step = 0; step < kProducts; ++step) {
#pragma unroll
      for (int block = 0; block < C.m_blocks(); ++block) {
        const int row = first_row() + 64 * block;
        ptx::Wgmma<C.tile_n>::template mma_async<C.dtype, !C.a_along_k(), !C.b_along_k()>(
            sums_[block], a + operand_offset<C.a_along_k(), C.tile_m>(row, step),
            b + operand_offset<C.b_along_k(), C.tile_n>(0, step), accumulate || step > 0);
      }
    }
  }

  /// Lower halves of a stage's descriptors.
  struct Operands {
    unsigned a;
    unsigned b;
  };
  /// In registers of the warp, where additions, which have no carry, give those of all products.
  __device__ __forceinline__ Operands operands_of(int stage) const {
    return {lower_half(smem_.a(0) + first_row() * C.kLineBytes) + stage * (C.a_tile_bytes() / 16),
            lower_half(smem_.b(0)) + stage * (C.b_tile_bytes() / 16)};
  }
  /// Of the descriptor of lines at `shared`, the same in all lanes.
  __device__ __forceinline__ static unsigned lower_half(unsigned shared) {
    return ptx::redux_sync_or(
        static_cast<int>(descriptor<C.kLineBytes>(shared, C.tile_k * C.kLineBytes)));
  }

  /// The products of one block of 64 rows of a k-block.
  __device__ __forceinline__ void issue_part(float (&part)[C.tile_n / 2], Operands of, int block,
                                             bool accumulate) const {
    constexpr unsigned long long kUpper =
        descriptor<C.kLineBytes>(0, C.tile_k * C.kLineBytes) >> 32 << 32;
#pragma unroll
    for (int step = 0; step < kProducts; ++step) {
      const auto a = operand_offset<true, C.tile_m>(64 * block, step);
      const auto b = operand_offset<true, C.tile_n>(0, step);
      ptx::Wgmma<C.tile_n>::template mma_async<C.dtype, false, false>(
          part, kUpper | (of.a + static_cast<unsigned>(a)),
          kUpper | (of.b + static_cast<unsigned>(b)), accumulate || step > 0);
    }
  }

  /// From the start of a tile to row `row` (a multiple of 64) and the k of product `step`, in
  /// descriptor units.
  template <bool AlongK, int Rows>
  __device__ __forceinline__ static unsigned long long operand_offset(int row, int step) {
    if constexpr (AlongK) {
      const int panel = step / 4;
      return in_units((panel * Rows + row) * C.kLineBytes + step % 4 * 32);
    } else {
      const int panel = row / C.panel_columns();
      return in_units((panel * C.tile_k + C.product_depth() * step) * C.kLineBytes);
    }
  }

  /// Says that this consumer has read a stage, to every CTA that loads into it.
  __device__ __forceinline__ void release(int stage) const {
    if constexpr (C.arrivals_per_reader() > 1) {
      __syncwarp();  // All lanes have read their scales.
    }
    const unsigned thread = threadIdx.x % (C.kWarpgroup / C.arrivals_per_reader());
    if constexpr (C.ctas_per_stage() > 1) {
      if (thread < C.ctas_per_stage()) {
        ptx::mbarrier_arrive_cluster(smem_.empty(stage), thread);
      }
    } else if (thread == 0) {
      ptx::mbarrier_arrive(smem_.empty(stage));
    }
  }

  /// As they are of the job's item.
  __device__ __forceinline__ decltype(auto) extras_of(const GemmJob& job) const {
    if constexpr (C.is_grouped()) {
      return item_extras<C>(extras_, params_, job.item(), job.batch);
    } else {
      return (extras_);
    }
  }

  __device__ __forceinline__ void finish(const GemmJob& job) {
    if constexpr (C.cluster_k > 1) {
      ClusterSum<C>(smem_, params_.m - job.m).sum(first_row(), sums_);
    }
    if constexpr (C.split_k) {
      if (params_.splits > 1 && !SplitK<C>(smem_, index_, params_).sum(job, first_row(), sums_)) {
        return;
      }
    }
    scale_sums<C>(sums_, params_, extras_of(job), job, first_row());
    store_sums<C>(sums_, smem_, params_, extras_, c_map_, job, first_row(), slot_, requested_);
  }

  /// Two consumers of a tile whose parts are scaled issue them alternately, so that one's products
  /// run while the other scales. With two blocks of rows each they keep apart by themselves.
  static constexpr bool kTakesTurnsByPart = C.scaling == Scaling::block && C.consumers == 2 &&
                                            C.mainloop == GemmMainloop::cooperative &&
                                            C.m_blocks() == 1;
  /// In a whole turn of the ring places in it are constants, which would else cost 40 instructions
  /// between parts. Clusters and wider tiles have no registers for it.
  static constexpr bool kUnrollsRing =
      C.promote_steps() == 1 && C.ctas_per_stage() == 1 && C.accumulator_registers() <= 192;
  /// Under a part's products the next part's first stage is waited for. Where a part fills the
  /// ring, it comes only once these products have been read.
  static constexpr bool kFetchesEarly = C.promote_steps() < C.stages;
  /// Of a k-block.
  static constexpr int kProducts = C.tile_k / C.product_depth();
  /// Named barriers, one per consumer: grouped kernels, which sum no splits, have those of SplitK;
  /// those of the turns follow.
  static constexpr int kFirstSkipBarrier = 1;
  static constexpr int kFirstTurnBarrier = 3;

  GemmMemory<C> smem_;
  int index_;
  const GemmParams& params_;
  const GemmExtras& extras_;
  const TensorMap& c_map_;
  GemmSums<C> sums_;
  RingPosition<C.stages> stage_;
  RingPosition<C.kWorkSlots> job_;
  int slot_ = 0;       ///< Next staging slot of this warp.
  int requested_ = 0;  ///< Panels of the tile whose addends have been requested.
};

}  // namespace swr::hopper
