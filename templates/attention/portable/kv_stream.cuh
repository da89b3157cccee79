// SPDX-License-Identifier: MIT
// The K and V tiles of one scan, in scan order, through a ring of C.stages tiles each. All threads
// copy them with cp.async, or one thread has the copy engine bring them (TMA).
//
// Both forms say in the same words what a step needs: begin() before its K is read, turn() between
// the reads of K and of V, finish() after those of V.
#pragma once

#include "attention/config.h"
#include "attention/portable/tile_copy.cuh"
#include "attention/portable/work.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include "common/tma_ptx.cuh"

namespace swr::portable {

/// Which tile a step takes, and the slots of the rings. `ring` is the shared address of K's.
template <PortableAttentionConfig C>
class KvScan {
 public:
  __device__ KvScan(unsigned ring, KvTiles tiles, bool backward)
      : ring_(ring), first_(tiles.first), tiles_(tiles.count), backward_(backward) {}

  __device__ int steps() const { return tiles_; }
  __device__ bool backward() const { return backward_; }
  __device__ int first_key(int step) const {
    return (first_ + kv_tile_at(step, tiles_, backward_)) * C.tile_n;
  }

 protected:
  /// The slot that is `position` places into the ring of K, and the one of V's.
  __device__ unsigned k_slot_at(int position) const {
    return ring_ + static_cast<unsigned>(position) % C.stages * C.kv_tile_bytes();
  }
  __device__ unsigned v_slot_at(int position) const {
    return k_slot_at(position) + static_cast<unsigned>(C.stages * C.kv_tile_bytes());
  }

 private:
  unsigned ring_;
  int first_;
  int tiles_;
  bool backward_;
};

/// With one stage, K of the next step is copied while V of this one is multiplied, and V while K
/// is: two barriers a step. With more, K and V of a step arrive together, C.stages - 1 steps ahead:
/// one barrier.
template <PortableAttentionConfig C>
class CopiedKvStream : public KvScan<C> {
 public:
  __device__ CopiedKvStream(unsigned smem, const Work<C>& work, KvTiles tiles, bool backward,
                            int thread, int /*streamed*/)
      : KvScan<C>(smem + C.kv_offset(), tiles, backward), work_(work), thread_(thread) {}

  __device__ unsigned k_slot(int step) const { return this->k_slot_at(step); }
  __device__ unsigned v_slot(int step) const { return this->v_slot_at(step); }

  /// Has L2 fetch K and V of the first step. More of them did not gain more
  /// (experiments/portable_attention).
  __device__ void prefetch_first() const {
    if (this->steps() > 0) {
      prefetch_tile<C, C.tile_n>(work_.keys(), this->first_key(0), thread_);
      prefetch_tile<C, C.tile_n>(work_.values(), this->first_key(0), thread_);
    }
  }

  /// Starts the first copies.
  __device__ void ask_first() const {
    request_k(0);
    if constexpr (C.stages > 1) {
      request_v(0);
    }
  }
  /// Ends the first group, which holds all that the CTA has asked for since, and starts the others.
  __device__ void ask_rest() const {
    ptx::cp_async_commit_group();
#pragma unroll
    for (int step = 1; step < C.stages - 1; ++step) {
      request_both(step);
    }
  }

  /// Waits for the oldest group in flight and makes it visible to the CTA. Also: every warp has
  /// finished what it read before.
  __device__ static void arrive() {
    ptx::cp_async_wait_group<C.stages == 1 ? 0 : C.stages - 2>();
    __syncthreads();
  }

  __device__ void begin(int step) const {
    arrive();
    if constexpr (C.stages == 1) {
      request_v(step);
      ptx::cp_async_commit_group();
    } else {
      request_both(step + C.stages - 1);
    }
  }

  __device__ void turn(int step) const {
    if constexpr (C.stages == 1) {
      arrive();
      request_k(step + 1);
      ptx::cp_async_commit_group();
    }
  }

  __device__ void finish(int /*step*/) const {}

 private:
  __device__ void request_k(int step) const {
    if (step < this->steps()) {
      copy_tile_in<C, C.tile_n>(k_slot(step), work_.keys(), this->first_key(step), thread_);
    }
  }
  __device__ void request_v(int step) const {
    if (step < this->steps()) {
      copy_tile_in<C, C.tile_n>(v_slot(step), work_.values(), this->first_key(step), thread_);
    }
  }
  /// As one group; past the end it is empty, which keeps the number of groups in flight the same
  /// for every step.
  __device__ void request_both(int step) const {
    request_k(step);
    request_v(step);
    ptx::cp_async_commit_group();
  }

  const Work<C>& work_;
  int thread_;
};

/// The mbarriers of the slots: when a slot is full, and when every warp has read it.
template <PortableAttentionConfig C>
class KvBarriers {
 public:
  enum Kind { k_full, v_full, k_empty, v_empty };

  __device__ explicit KvBarriers(unsigned smem) : first_(smem + C.barriers_offset()) {}

  /// One thread, before the CTA's first barrier.
  __device__ void initialise() const {
#pragma unroll
    for (int stage = 0; stage < C.stages; ++stage) {
      ptx::mbarrier_init(at(k_full, stage), 1);
      ptx::mbarrier_init(at(v_full, stage), 1);
      ptx::mbarrier_init(at(k_empty, stage), C.warps);
      ptx::mbarrier_init(at(v_empty, stage), C.warps);
    }
    ptx::fence_mbarrier_init();
  }

  /// That of the slot at `position` in the ring.
  __device__ unsigned at(Kind kind, int position) const {
    const unsigned slot = static_cast<unsigned>(position) % C.stages;
    return first_ + (kind * C.stages + slot) * C.kBarrierBytes;
  }
  /// Until the slot has been filled, or read, for the tile at `position`.
  __device__ void wait(Kind kind, int position) const {
    ptx::mbarrier_wait(at(kind, position), static_cast<unsigned>(position) / C.stages & 1U);
  }

 private:
  unsigned first_;
};

/// A thread asks for the tile that a slot holds next once all warps have handed the slot back: half
/// a step after the last is likely to have done so, or with one stage at once, for then nothing
/// else is under way. Warps take turns in asking, step by step. There is no CTA barrier: they may
/// be as far apart as the ring is long.
template <PortableAttentionConfig C>
class TmaKvStream : public KvScan<C> {
 public:
  /// `streamed` is the number of tiles that the CTA has streamed before.
  __device__ TmaKvStream(unsigned smem, const Work<C>& work, KvTiles tiles, bool backward,
                         int thread, int streamed)
      : KvScan<C>(smem + C.kv_offset(), tiles, backward),
        work_(work),
        barriers_(smem),
        thread_(thread),
        position_(streamed) {}

  __device__ unsigned k_slot(int step) const { return this->k_slot_at(position_ + step); }
  __device__ unsigned v_slot(int step) const { return this->v_slot_at(position_ + step); }

  /// Starts the first copies, as many as the ring holds. Requires: all warps are done with the scan
  /// before.
  __device__ void ask_first() const {
    if (thread_ == 0) {
#pragma unroll
      for (int step = 0; step < C.stages; ++step) {
        request_k(step);
        request_v(step);
      }
    }
    __syncwarp();  // The warp copies Q in step.
  }
  /// The copies of Q make a group.
  __device__ static void ask_rest() { ptx::cp_async_commit_group(); }

  /// Waits for Q.
  __device__ static void arrive() {
    ptx::cp_async_wait_group<0>();
    __syncthreads();
  }

  __device__ void begin(int step) const { barriers_.wait(Barriers::k_full, position_ + step); }

  __device__ void turn(int step) const {
    __syncwarp();
    if (thread_ % 32 == 0) {
      hand_back(Barriers::k_empty, step);
      if constexpr (C.stages == 1) {
        refill_k(step);
      } else {
        refill_v(step - 1);
      }
    }
    barriers_.wait(Barriers::v_full, position_ + step);
  }

  __device__ void finish(int step) const {
    __syncwarp();
    if (thread_ % 32 == 0) {
      hand_back(Barriers::v_empty, step);
      if constexpr (C.stages == 1) {
        refill_v(step);
      } else {
        refill_k(step);
      }
    }
  }

 private:
  using Barriers = KvBarriers<C>;

  /// One thread of a warp that has read the slot of this step.
  __device__ void hand_back(typename Barriers::Kind kind, int step) const {
    ptx::mbarrier_arrive(barriers_.at(kind, position_ + step));
  }

  /// True when the slot of this step is to be filled again, and this warp's turn has come.
  __device__ bool refills(int step) const {
    return step >= 0 && step + C.stages < this->steps() &&
           static_cast<unsigned>(step) % C.warps == static_cast<unsigned>(thread_) / 32;
  }
  __device__ void refill_k(int step) const {
    if (refills(step)) {
      barriers_.wait(Barriers::k_empty, position_ + step);
      request_k(step + C.stages);
    }
  }
  __device__ void refill_v(int step) const {
    if (refills(step)) {
      barriers_.wait(Barriers::v_empty, position_ + step);
      request_v(step + C.stages);
    }
  }

  __device__ void request_k(int step) const {
    request(k_slot(step), work_.arguments().k, step,
            barriers_.at(Barriers::k_full, position_ + step));
  }
  __device__ void request_v(int step) const {
    request(v_slot(step), work_.arguments().v, step,
            barriers_.at(Barriers::v_full, position_ + step));
  }
  __device__ void request(unsigned slot, const TensorMap& map, int step, unsigned full) const {
    if (step >= this->steps()) {
      return;
    }
    const KvHead head = work_.kv_head();
    ptx::mbarrier_arrive_expect_tx(full, C.kv_tile_bytes());
#pragma unroll
    for (int panel = 0; panel < C.kv_panels(); ++panel) {
      ptx::cp_async_bulk_tensor_4d_global_to_shared(
          slot + static_cast<unsigned>(panel * C.kv_layout().panel_bytes()), map,
          {panel * C.kv_panel_columns(), this->first_key(step), head.head, head.batch}, full);
    }
  }

  const Work<C>& work_;
  Barriers barriers_;
  int thread_;
  int position_;  ///< Of the first step in the ring.
};

template <PortableAttentionConfig C, bool UsesTma = C.uses_tma()>
struct KvStreamOf {
  using Type = CopiedKvStream<C>;
};
template <PortableAttentionConfig C>
struct KvStreamOf<C, true> {
  using Type = TmaKvStream<C>;
};
template <PortableAttentionConfig C>
using KvStream = typename KvStreamOf<C>::Type;

}  // namespace swr::portable
