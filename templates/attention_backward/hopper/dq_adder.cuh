// SPDX-License-Identifier: MIT
// The warps that have dQ added by the copy engine. Consumers leave their parts of a step's dQ in
// shared memory one by one. In turn (DqSum::ordered) there are two such warps, each of every other
// step, so that one waits for its turn while the other's additions are on their way.
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
    const portable::KeyItems<C> items(params_, 0);
    ptx::griddepcontrol_wait();
    for (int iteration = 0;; ++iteration) {
      const long long item = item_of<C>(items, iteration);
      if (item < 0) {
        break;
      }
      const portable::KeyWork work = work_of<C>(params_, items, smem_, item);
      if (threadIdx.x % 32 == 0) {
        add_item(work);
      }
      __syncwarp();
      if constexpr (C.persistence == Persistence::grid) {
        break;  // Known to be the only one, it takes fewer registers.
      }
    }
    ptx::cp_async_bulk_wait_group();
  }

 private:
  static_assert(C.consumers() == 2);

  /// One thread.
  __device__ __forceinline__ void add_item(const portable::KeyWork& work) {
    // Divisions are done once: the loading warpgroup has few registers.
    backward::Turns turns;
    if constexpr (C.takes_turns()) {
      turns = backward::turns_of(work.tile, portable::relay_of<C>(params_));
    }
    const int first_head = portable::batch_head(params_, work, 0);
#pragma unroll 1
    for (portable::WalkCursor step(work, stage_); !step.ends(); step.advance(work, C.dq_stages())) {
      const backward::Place at = step.place(work);
      // The first share of the Q tile, whose turn counts for all.
      const portable::DqShare<C> first(params_, first_head + at.group_head, at.q_tile, 0);
      if constexpr (C.takes_turns()) {
        add_in_turn(first, portable::turn_at<C>(turns, work, at.q_tile));
      } else {
        add(first.sums(0), false);
      }
      parity_ ^= 1U;
    }
  }

  __device__ __forceinline__ void add_in_turn(const portable::DqShare<C>& first,
                                              portable::Turn turn) const {
    if (turn.number > 0) {
      ptx::ld_acquire_until(first.turn(), static_cast<unsigned>(turn.number));
      ptx::fence_proxy_async_global();
    }
    add(first.sums(0), turn.number == 0);
    ptx::cp_async_bulk_wait_group();
    if (!turn.last) {
      ptx::st_release(first.turn(), static_cast<unsigned>(turn.number + 1));
    }
  }

  /// What the consumers have left of a step, as each is ready.
  __device__ __forceinline__ void add(float* sums, bool stores) const {
    start(0, sums, stores);
    if constexpr (C.dq_consumers() == 2) {
      start(1, sums, stores);
      ptx::cp_async_bulk_wait_group_read<1>();
      ptx::mbarrier_arrive(smem_.dq_empty(stage_, 0));
    }
    ptx::cp_async_bulk_wait_group_read<0>();
    ptx::mbarrier_arrive(smem_.dq_empty(stage_, C.dq_consumers() - 1));
  }

  /// The shares of a consumer's warps. The first turn stores, so that nobody has to write zeros
  /// before.
  __device__ __forceinline__ void start(int consumer, float* sums, bool stores) const {
    constexpr int kShareFloats = C.dq_fragments() * 128;
    constexpr int kShares = C.warps / C.dq_consumers();
    ptx::mbarrier_wait(smem_.dq_full(stage_, consumer), parity_);
    // Here and not where they were written: consumers would wait for the fence.
    ptx::fence_proxy_async();
#pragma unroll 1
    for (int i = 0; i < kShares; ++i) {
      const int share = C.dq_consumers() == 2 ? C.dq_share(consumer, i) : i;
      const auto bytes = static_cast<unsigned>(C.dq_share_bytes(share));
      const unsigned staged = smem_.staged_dq(stage_, share);
      if (stores) {
        ptx::cp_async_bulk_shared_to_global(sums + share * kShareFloats, staged, bytes);
      } else {
        ptx::cp_reduce_async_bulk_add_f32(sums + share * kShareFloats, staged, bytes);
      }
    }
    ptx::cp_async_bulk_commit_group();
  }

  BackwardMemory<C> smem_;
  int stage_;
  unsigned parity_ = 0;
  const AttentionBackwardParams& params_;
};

}  // namespace swr::hopper
