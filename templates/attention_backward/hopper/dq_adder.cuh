// SPDX-License-Identifier: MIT
// The warps that have dQ added in turn (DqSum::ordered). Each takes every other step, so that one
// waits for its turn while the other's additions are on their way.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/pipeline.cuh"
#include "attention_backward/portable/dq_sums.cuh"
#include "attention_backward/portable/key_work.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/reduce_ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::hopper {

template <HopperKeyPassConfig C>
class DqAdder {
 public:
  /// Of the steps whose dQ is in `stage`.
  __device__ __forceinline__ DqAdder(BackwardMemory<C> smem, int stage,
                                     const AttentionBackwardParams& params)
      : smem_(smem), stage_(stage), params_(params) {}

  __device__ __forceinline__ void run() {
    ptx::griddepcontrol_wait();
    const portable::KeyWork work = drawn_work<C>(params_, smem_);
    if (threadIdx.x % 32 != 0) {
      return;
    }
    // Divisions are done once: the loading warpgroup has few registers.
    const backward::Turns turns = backward::turns_of(work.tile, portable::relay_of<C>(params_));
    const int first_head = portable::batch_head(params_, work, 0);
    unsigned parity = 0;
#pragma unroll 1
    for (portable::WalkCursor step(work, stage_); !step.ends(); step.advance(work, C.dq_stages())) {
      const backward::Place at = step.place(work);
      const int contributors = backward::kv_tiles_of(at.q_tile, C.tile_m, C.tile_n, work.shape);
      const int turn = turns.at(contributors);
      add(portable::DqShare<C>(params_, first_head + at.group_head, at.q_tile, 0),
          {turn, turn == contributors - 1}, parity);
      parity ^= 1U;
    }
  }

 private:
  /// `first` is the first of the shares of a Q tile, whose turn counts for all.
  __device__ __forceinline__ void add(const portable::DqShare<C>& first, portable::Turn turn,
                                      unsigned parity) const {
    if (turn.number > 0) {
      ptx::ld_acquire_until(first.turn(), static_cast<unsigned>(turn.number));
      ptx::fence_proxy_async_global();
    }
    ptx::mbarrier_wait(smem_.dq_full(stage_), parity);
    start(first.sums(0), turn.number == 0);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read();
    ptx::mbarrier_arrive(smem_.dq_empty(stage_));
    ptx::cp_async_bulk_wait_group();
    if (!turn.last) {
      ptx::st_release(first.turn(), static_cast<unsigned>(turn.number + 1));
    }
  }

  /// All shares of a step: the first turn stores, so that nobody has to write zeros before.
  __device__ __forceinline__ void start(float* sums, bool stores) const {
    constexpr int kShareFloats = C.dq_fragments() * 128;
#pragma unroll 1
    for (int share = 0; share < C.warps; ++share) {
      const auto bytes = static_cast<unsigned>(C.dq_share_bytes(share));
      const unsigned staged = smem_.staged_dq(stage_, share);
      if (stores) {
        ptx::cp_async_bulk_shared_to_global(sums + share * kShareFloats, staged, bytes);
      } else {
        ptx::cp_reduce_async_bulk_add_f32(sums + share * kShareFloats, staged, bytes);
      }
    }
  }

  BackwardMemory<C> smem_;
  int stage_;
  const AttentionBackwardParams& params_;
};

}  // namespace swr::hopper
