// SPDX-License-Identifier: MIT
// A computing warpgroup: 64 query rows of every Q tile of the CTA. The main loops differ in where
// the softmax stands between the two products of a tile (swr/axes.h, Mainloop). What Q tiles are,
// and where their results go, a `Queries` knows, so that tensors of one length and unequal
// sequences share the loops.
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/matrix.cuh"
#include "attention/hopper/output.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"

namespace swr::hopper {

/// Named barriers of the turns, one per consumer; 0 is __syncthreads.
inline constexpr int kFirstTurnBarrier = 1;

/// Who may issue products, or compute exponentials: consumers pass a token around a ring, and
/// between `take` and `pass` one is alone.
template <HopperAttentionConfig C>
struct Turns {
  static constexpr int kPair = 2 * C.kWarpgroup;
  int consumer;

  /// The last consumer starts the ring, on behalf of the turn before the first.
  __device__ __forceinline__ void start() const {
    if (C.consumers() > 1 && consumer == C.consumers() - 1) {
      ptx::bar_arrive<kPair>(kFirstTurnBarrier);
    }
  }
  __device__ __forceinline__ void take() const {
    if (C.consumers() > 1) {
      ptx::bar_sync<kPair>(kFirstTurnBarrier + consumer);
    }
  }
  __device__ __forceinline__ void pass() const {
    if (C.consumers() > 1) {
      const int next = consumer + 1 == C.consumers() ? 0 : consumer + 1;
      ptx::bar_arrive<kPair>(kFirstTurnBarrier + next);
    }
  }
};

/// `Queries` has Scan, what a Q tile streams; take(), which waits for nothing; shape(), of the Q
/// tile's sequence; and write(), which gives the Q slot back. Where kHasWindow is set, also hide(),
/// and tiles without a mask lie between those with one; where kHasCap is, cap().
template <HopperAttentionConfig C, typename Queries>
class Consumer {
 public:
  using Scan = typename Queries::Scan;

  __device__ __forceinline__ Consumer(SharedMemory<C> smem, int index,
                                      const typename Queries::Params& params)
      : smem_(smem), index_(index), queries_(params), turns_{index}, softmax_(params.scale_log2) {}

  /// All Q tiles of the CTA.
  __device__ __forceinline__ void run() {
    ptx::griddepcontrol_wait();
    turns_.start();
    if constexpr (C.overlaps()) {
      run_overlapped();
    } else {
      run_in_turn();
    }
  }

 private:
  /// Main loops plain and mutex.
  __device__ __forceinline__ void run_in_turn() {
    for (Scan scan = wait_for_q(); scan.tiles > 0; scan = wait_for_q()) {
      softmax_.reset();
      clear_output();
      stream(scan, 0);
      write(scan, softmax_, q_.stage);
      q_.advance();
    }
  }

  template <bool Masked>
  __device__ __forceinline__ void step_in_turn(const Scan& scan, int step) {
    start_q_k();
    finish_q_k<0>();
    if constexpr (Masked) {
      mask(scan, step);
    }
    softmax_.raise_maximum(scores_);
    if constexpr (C.mainloop == Mainloop::mutex) {
      turns_.take();
    }
    softmax_.exponentiate(scores_);
    softmax_.rescale(output_);
    if constexpr (C.mainloop == Mainloop::mutex) {
      turns_.pass();
    }
    round_numerators();
    start_p_v();
    finish_p_v();
  }

  /// Main loops overlap and overlap_ordered: S of the next tile is under way while O of this one
  /// is, and the softmax of the next hides behind O. Also across Q tiles, when they are chained.
  __device__ __forceinline__ void run_overlapped() {
    Scan scan = wait_for_q();
    if (scan.tiles > 0) {
      start_q_tile(scan);
    }
    while (scan.tiles > 0) {
      stream(scan, 1);
      const Scan ended = scan;
      const int slot = q_.stage;
      if constexpr (C.chains_q_tiles()) {
        q_.advance();
        scan = wait_for_q();
        if (scan.tiles > 0) {
          chain(ended, slot, scan);
        } else {
          end_q_tile(ended, slot);
        }
      } else {
        end_q_tile(ended, slot);
        q_.advance();
        scan = wait_for_q();
        if (scan.tiles > 0) {
          start_q_tile(scan);
        }
      }
    }
  }

  /// S and P of the first K tile.
  __device__ __forceinline__ void start_q_tile(const Scan& scan) {
    softmax_.reset();
    clear_output();
    start_q_k();
    finish_q_k<0>();
    mask_first(scan);
    softmax_.raise_maximum(scores_);
    softmax_.exponentiate(scores_);
    round_numerators();
  }

  /// S and P of a K tile while O takes in the P and V before.
  template <bool Masked>
  __device__ __forceinline__ void overlapped_step(const Scan& scan, int step) {
    start_products();
    finish_q_k<1>();
    if constexpr (Masked) {
      mask(scan, step);
    }
    softmax_.raise_maximum(scores_);
    softmax_.exponentiate(scores_);
    finish_p_v();
    ptx::warpgroup_fence_operand(scores_);
    round_numerators();
    if constexpr (!C.rescales_before_p_v()) {
      softmax_.rescale(output_);
    }
  }

  /// The same with the last O of one Q tile, which lies in `slot`, and the first S of the next.
  __device__ __forceinline__ void chain(const Scan& scan, int slot, const Scan& next) {
    start_products();
    finish_q_k<1>();
    mask_first(next);
    const Softmax<C> ended = softmax_;
    softmax_.reset();
    softmax_.raise_maximum(scores_);
    softmax_.exponentiate(scores_);
    finish_p_v();
    ptx::warpgroup_fence_operand(scores_);
    round_numerators();
    write(scan, ended, slot);
    clear_output();
  }

  /// The last O of a Q tile.
  __device__ __forceinline__ void end_q_tile(const Scan& scan, int slot) {
    if constexpr (C.rescales_before_p_v()) {
      softmax_.rescale(output_);
    }
    start_p_v();
    finish_p_v();
    write(scan, softmax_, slot);
  }

  /// Steps [first, scan.tiles). Those where the mask cuts the tile come last in a forward scan and
  /// first in a backward one; the others run without mask code.
  __device__ __forceinline__ void stream(const Scan& scan, int first) {
    int step = first;
    if constexpr (Queries::kHasWindow) {
      for (; step < scan.first_unmasked_step(); ++step) {
        one_step<true>(scan, step);
      }
      for (; step < scan.end_of_unmasked_steps(); ++step) {
        one_step<false>(scan, step);
      }
      for (; step < scan.tiles; ++step) {
        one_step<true>(scan, step);
      }
      return;
    }
    if constexpr (C.order != Order::cyclic) {
      const int masked_end = scan.backward != 0 ? scan.tiles - scan.unmasked_tiles : 0;
      for (; step < masked_end; ++step) {
        one_step<true>(scan, step);
      }
    }
    const int unmasked_end = scan.backward != 0 ? scan.tiles : scan.unmasked_tiles;
#pragma unroll(C.unroll)
    for (; step < unmasked_end; ++step) {
      one_step<false>(scan, step);
    }
    if constexpr (C.order != Order::right_to_left) {
      for (; step < scan.tiles; ++step) {
        one_step<true>(scan, step);
      }
    }
  }

  template <bool Masked>
  __device__ __forceinline__ void one_step(const Scan& scan, int step) {
    if constexpr (C.overlaps()) {
      overlapped_step<Masked>(scan, step);
    } else {
      step_in_turn<Masked>(scan, step);
    }
  }

  /// Waits for a Q tile.
  __device__ __forceinline__ Scan wait_for_q() {
    ptx::mbarrier_wait(smem_.q_full(q_.stage), q_.parity);
    return queries_.take(smem_, q_.stage);
  }

  __device__ __forceinline__ void clear_output() {
#pragma unroll
    for (int i = 0; i < C.padded_head_dim() / 2; ++i) {
      output_[i] = 0.0F;
    }
  }

  __device__ __forceinline__ void mask(const Scan& scan, int step) {
    const int row = scan.first_row + 64 * index_ + ConsumerThread<C>::row();
    if constexpr (Queries::kHasWindow) {
      queries_.hide(scores_, row, scan.tile(step) * C.tile_n, q_.stage);
    } else {
      mask_scores<C>(scores_, row, scan.tile(step) * C.tile_n, queries_.shape(q_.stage));
    }
  }

  /// Only when the mask cuts the first tile streamed.
  __device__ __forceinline__ void mask_first(const Scan& scan) {
    if constexpr (Queries::kHasWindow) {
      if (scan.first_unmasked_step() > 0 || scan.end_of_unmasked_steps() == 0) {
        mask(scan, 0);
      }
    } else if (scan.tile(0) >= scan.unmasked_tiles) {
      mask(scan, 0);
    }
  }

  __device__ __forceinline__ void start_q_k() {
    ptx::mbarrier_wait(smem_.k_full(k_.stage), k_.parity);
    ptx::warpgroup_fence_operand(scores_);
    ptx::wgmma_fence();
    multiply_q_k<C>(scores_, smem_.q(q_.stage, index_), smem_.k(k_.stage));
    ptx::wgmma_commit_group();
  }

  template <int Pending>
  __device__ __forceinline__ void finish_q_k() {
    ptx::wgmma_wait_group<Pending>();
    ptx::warpgroup_fence_operand(scores_);
    release(smem_.k_empty(k_.stage));
    k_.advance();
    if constexpr (Queries::kHasCap) {
      queries_.cap(scores_);
    }
  }

  __device__ __forceinline__ void start_p_v() {
    ptx::mbarrier_wait(smem_.v_full(v_.stage), v_.parity);
    ptx::warpgroup_fence_operand(output_);
    ptx::wgmma_fence();
    if constexpr (C.p_operand == POperand::registers) {
      multiply_p_v<C>(output_, numerators_, smem_.v(v_.stage));
    } else {
      multiply_p_v<C>(output_, smem_.p(index_), smem_.v(v_.stage));
    }
    ptx::wgmma_commit_group();
  }

  __device__ __forceinline__ void finish_p_v() {
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(output_);
    release(smem_.v_empty(v_.stage));
    v_.advance();
  }

  /// S of the next tile, then O of this one.
  __device__ __forceinline__ void start_products() {
    if constexpr (C.mainloop == Mainloop::overlap_ordered) {
      turns_.take();
    }
    start_q_k();
    if constexpr (C.rescales_before_p_v()) {
      softmax_.rescale(output_);
    }
    start_p_v();
    if constexpr (C.mainloop == Mainloop::overlap_ordered) {
      turns_.pass();
    }
  }

  /// Rounds P and puts it where the second product reads it. Through shared memory, each warp reads
  /// back its own rows only.
  __device__ __forceinline__ void round_numerators() {
    pack_pairs<C.dtype>(numerators_, scores_);
    if constexpr (C.p_operand == POperand::shared) {
      store_panels<C.p_panel_columns() * 2>(smem_.p(index_), numerators_,
                                            ConsumerThread<C>::warp_row());
      ptx::fence_proxy_async();
      __syncwarp();
    }
  }

  __device__ __forceinline__ void write(const Scan& scan, const Softmax<C>& softmax, int slot) {
    queries_.write(smem_, scan, slot, index_, softmax, output_);
  }

  /// One thread speaks for the warpgroup: its products have been waited for.
  __device__ __forceinline__ static void release(unsigned barrier) {
    if (threadIdx.x % C.kWarpgroup == 0) {
      ptx::mbarrier_arrive(barrier);
    }
  }

  SharedMemory<C> smem_;
  int index_;
  Queries queries_;
  Turns<C> turns_;
  Softmax<C> softmax_;
  Scores<C> scores_;
  Numerators<C> numerators_;
  Output<C> output_;
  RingPosition<C.q_slots()> q_;
  RingPosition<C.stages> k_;
  RingPosition<C.stages> v_;
};

}  // namespace swr::hopper
