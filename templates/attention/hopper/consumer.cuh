// SPDX-License-Identifier: MIT
// A computing warpgroup: 64 query rows, all K and V tiles. The main loops differ in where the
// softmax stands between the two products of a tile (swr/axes.h, Mainloop).
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/matrix.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/hopper/work.cuh"
#include "common/hopper_ptx.cuh"

namespace swr::hopper {

/// Named barriers (0 is __syncthreads): one per consumer for taking turns, one for its own threads.
inline constexpr int kFirstTurnBarrier = 1;
inline constexpr int kFirstOwnBarrier = 4;

/// Consumers pass a token around a ring: between `take` and `pass` a consumer is alone.
template <HopperConfig C>
struct Turns {
  static constexpr int kPair = 2 * C.kWarpgroup;
  int consumer;

  /// The last consumer starts the ring, on behalf of the turn before the first.
  __device__ __forceinline__ void start() const {
    if (C.consumers() > 1 && consumer == C.consumers() - 1) {
      ptx::named_arrive<kPair>(kFirstTurnBarrier);
    }
  }
  __device__ __forceinline__ void take() const {
    if (C.consumers() > 1) {
      ptx::named_sync<kPair>(kFirstTurnBarrier + consumer);
    }
  }
  __device__ __forceinline__ void pass() const {
    if (C.consumers() > 1) {
      const int next = consumer + 1 == C.consumers() ? 0 : consumer + 1;
      ptx::named_arrive<kPair>(kFirstTurnBarrier + next);
    }
  }
};

template <HopperConfig C>
class Consumer {
 public:
  __device__ __forceinline__ Consumer(SharedMemory<C> smem, int index, float scale_log2,
                                      SequenceShape shape)
      : smem_(smem), index_(index), shape_(shape), turns_{index}, softmax_(scale_log2) {
    turns_.start();
  }

  /// Streams the K and V tiles of one Q tile. Afterwards `output` is normalised, `lse` holds the
  /// log-sum-exp of the thread's two rows, and the Q tile is no longer read.
  __device__ __forceinline__ void attend(const Scan& scan, Output<C>& output, float (&lse)[2]) {
    softmax_.reset();
#pragma unroll
    for (int i = 0; i < C.padded_head_dim() / 2; ++i) {
      output[i] = 0.0F;
    }
    if (scan.tiles > 0) {
      if constexpr (C.overlaps()) {
        attend_overlapped(scan, output);
      } else {
        attend_in_turn(scan, output);
      }
    }
    softmax_.finish(output, lse);
  }

  /// First of the thread's two rows, counted from the consumer's first.
  __device__ __forceinline__ static int thread_row() {
    return static_cast<int>(threadIdx.x % C.kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4);
  }
  __device__ __forceinline__ static bool is_leader() { return threadIdx.x % C.kWarpgroup == 0; }

 private:
  /// Main loops plain and mutex.
  __device__ __forceinline__ void attend_in_turn(const Scan& scan, Output<C>& output) {
    for_each_step(scan, 0, [&](int step, auto masked) {
      Scores<C> scores;
      start_q_k(scores);
      finish_q_k<0>(scores);
      if constexpr (masked.value) {
        mask(scan, step, scores);
      }
      softmax_.raise_maximum(scores);
      if constexpr (C.mainloop == Mainloop::mutex) {
        turns_.take();
      }
      softmax_.exponentiate(scores);
      softmax_.rescale(output);
      if constexpr (C.mainloop == Mainloop::mutex) {
        turns_.pass();
      }
      round_numerators(scores);
      start_p_v(output);
      finish_p_v(output);
    });
  }

  /// Main loops overlap and overlap_ordered: S of the next tile is under way while O of this one
  /// is, and the softmax of the next hides behind O.
  __device__ __forceinline__ void attend_overlapped(const Scan& scan, Output<C>& output) {
    Scores<C> scores;
    start_q_k(scores);
    finish_q_k<0>(scores);
    mask(scan, 0, scores);
    softmax_.raise_maximum(scores);
    softmax_.exponentiate(scores);
    round_numerators(scores);
    for_each_step(scan, 1, [&](int step, auto masked) {
      if constexpr (C.mainloop == Mainloop::overlap_ordered) {
        turns_.take();
      }
      start_q_k(scores);
      if constexpr (C.rescales_before_p_v()) {
        softmax_.rescale(output);
      }
      start_p_v(output);
      if constexpr (C.mainloop == Mainloop::overlap_ordered) {
        turns_.pass();
      }
      finish_q_k<1>(scores);
      if constexpr (masked.value) {
        mask(scan, step, scores);
      }
      softmax_.raise_maximum(scores);
      softmax_.exponentiate(scores);
      finish_p_v(output);
      ptx::pin(scores);
      round_numerators(scores);
      if constexpr (!C.rescales_before_p_v()) {
        softmax_.rescale(output);
      }
    });
    if constexpr (C.rescales_before_p_v()) {
      softmax_.rescale(output);
    }
    start_p_v(output);
    finish_p_v(output);
  }

  template <bool Value>
  struct Flag {
    static constexpr bool value = Value;
  };

  /// Calls body(step, Flag) for steps [first, scan.tiles), with Flag<true> where the mask cuts the
  /// tile: those steps come last in a forward scan, first in a backward one.
  template <typename Body>
  __device__ __forceinline__ static void for_each_step(const Scan& scan, int first, Body body) {
    const int masked = scan.tiles - scan.unmasked_tiles;
    int step = first;
    if constexpr (C.order != Order::cyclic) {
      for (const int end = scan.backward ? masked : 0; step < end; ++step) {
        body(step, Flag<true>{});
      }
    }
    const int unmasked_end = scan.backward ? scan.tiles : scan.unmasked_tiles;
#pragma unroll(C.unroll)
    for (; step < unmasked_end; ++step) {
      body(step, Flag<false>{});
    }
    if constexpr (C.order != Order::right_to_left) {
      for (; step < scan.tiles; ++step) {
        body(step, Flag<true>{});
      }
    }
  }

  __device__ __forceinline__ void mask(const Scan& scan, int step, Scores<C>& scores) const {
    mask_scores<C>(scores, scan.first_row + 64 * index_ + thread_row(), scan.tile(step) * C.tile_n,
                   shape_);
  }

  __device__ __forceinline__ void start_q_k(Scores<C>& scores) {
    ptx::barrier_wait(smem_.k_full(k_.stage), k_.parity);
    ptx::pin(scores);
    ptx::products_begin();
    multiply_q_k<C>(scores, smem_.q(index_), smem_.k(k_.stage));
    ptx::products_commit();
  }

  template <int Pending>
  __device__ __forceinline__ void finish_q_k(Scores<C>& scores) {
    ptx::products_wait<Pending>();
    ptx::pin(scores);
    release(smem_.k_empty(k_.stage));
    k_.advance();
  }

  __device__ __forceinline__ void start_p_v(Output<C>& output) {
    ptx::barrier_wait(smem_.v_full(v_.stage), v_.parity);
    ptx::pin(output);
    ptx::products_begin();
    if constexpr (C.p_operand == POperand::registers) {
      multiply_p_v<C>(output, numerators_, smem_.v(v_.stage));
    } else {
      multiply_p_v<C>(output, smem_.p(index_), smem_.v(v_.stage));
    }
    ptx::products_commit();
  }

  __device__ __forceinline__ void finish_p_v(Output<C>& output) {
    ptx::products_wait<0>();
    ptx::pin(output);
    release(smem_.v_empty(v_.stage));
    v_.advance();
  }

  /// Rounds P and puts it where the second product reads it. Through shared memory, each warp reads
  /// back its own rows only.
  __device__ __forceinline__ void round_numerators(const Scores<C>& scores) {
    pack_pairs<C.dtype>(numerators_, scores);
    if constexpr (C.p_operand == POperand::shared) {
      store_panels<C.p_panel_columns() * 2>(smem_.p(index_), numerators_, thread_row() / 16 * 16);
      ptx::fence_async_shared();
      __syncwarp();
    }
  }

  __device__ __forceinline__ static void release(unsigned barrier) {
    if (is_leader()) {
      ptx::barrier_arrive(barrier);
    }
  }

  SharedMemory<C> smem_;
  int index_;
  SequenceShape shape_;
  Turns<C> turns_;
  Softmax<C> softmax_;
  Numerators<C> numerators_;
  RingPosition<C.stages> k_;
  RingPosition<C.stages> v_;
};

}  // namespace swr::hopper
