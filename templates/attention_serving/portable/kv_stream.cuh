// SPDX-License-Identifier: MIT
// The K and V tiles of one part of an item, in scan order, through a ring of C.stages tiles each,
// which all threads copy with cp.async. begin() comes before a step's K is read, turn() between the
// reads of K and of V.
#pragma once

#include "attention_serving/config.h"
#include "attention_serving/item.cuh"
#include "attention_serving/kv_rows.cuh"
#include "attention_serving/portable/kv_copy.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// With one stage, K of the next step is copied while V of this one is multiplied, and V while K
/// is: two barriers a step. With more, K and V of a step arrive together, C.stages - 1 steps ahead:
/// one barrier. Places of paged rows are left one step before their tile is asked for.
template <ServingAttentionConfig C>
class KvStream {
 public:
  /// Every thread, once the item is parked.
  __device__ KvStream(const ServingAttentionParams& params, unsigned smem, const Item<C>& item,
                      bool backward, int thread)
      : params_(params),
        smem_(smem),
        item_(item),
        places_(params, smem, item, thread),
        thread_(thread),
        backward_(backward) {
    const KvTiles tiles = item.kv_tiles();
    first_ = ptx::redux_sync_or(tiles.first);
    steps_ = ptx::redux_sync_or(tiles.count);
  }

  __device__ int steps() const { return steps_; }
  __device__ bool backward() const { return backward_; }
  __device__ int first_key(int step) const {
    return (first_ + kv_tile_at(step, steps_, backward_)) * C.tile_n;
  }
  __device__ unsigned k_slot(int step) const {
    return smem_ + C.k_offset() + static_cast<unsigned>(step) % C.stages * C.qk().kv_tile_bytes();
  }
  __device__ unsigned v_slot(int step) const {
    return smem_ + C.v_offset() + static_cast<unsigned>(step) % C.stages * C.pv().kv_tile_bytes();
  }

  /// Looks up where the first tiles lie; ends with a barrier when it does.
  __device__ void find_first() {
    if constexpr (C.has_pages()) {
      int ids[kFoundAhead];
#pragma unroll
      for (int step = 0; step < kFoundAhead; ++step) {
        ids[step] = fetch(step);
      }
#pragma unroll
      for (int step = 0; step < kFoundAhead; ++step) {
        put(step, ids[step]);
      }
      next_id_ = fetch(kFoundAhead);
      __syncthreads();
    }
  }
  /// Has L2 fetch K and V of the first step, which may come before griddepcontrol_wait().
  __device__ void prefetch_first() const {
    if (steps_ > 0) {
      prefetch_rows<C.qk(), C.run_rows(), C.has_pages()>(k_rows(0), first_key(0), item_.keys(),
                                                         thread_);
      prefetch_rows<C.pv(), C.run_rows(), C.has_pages()>(v_rows(0), first_key(0), item_.keys(),
                                                         thread_);
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

  __device__ void begin(int step) {
    arrive();
    if constexpr (C.stages == 1) {
      request_v(step);
      ptx::cp_async_commit_group();
    } else {
      request_both(step + C.stages - 1);
    }
    if constexpr (C.has_pages()) {
      put(step + kFoundAhead, next_id_);
      next_id_ = fetch(step + kFoundAhead + 1);
    }
  }

  __device__ void turn(int step) const {
    if constexpr (C.stages == 1) {
      arrive();
      request_k(step + 1);
      ptx::cp_async_commit_group();
    }
  }

 private:
  /// Tiles whose places are known when a step begins, counted from it.
  static constexpr int kFoundAhead = C.stages == 1 ? 1 : C.stages;

  __device__ int place_slot(int step) const {
    return static_cast<int>(static_cast<unsigned>(step) % C.place_slots());
  }
  __device__ int fetch(int step) const {
    return step < steps_ ? places_.fetch(first_key(step)) : 0;
  }
  __device__ void put(int step, int id) const {
    if (step < steps_) {
      places_.put(place_slot(step), first_key(step), id);
    }
  }

  __device__ KvRows k_rows(int step) const {
    return {item_.bases().k, params_.k_strides.seq * kElementBytes, places_.at(place_slot(step))};
  }
  __device__ KvRows v_rows(int step) const {
    return {item_.bases().v, params_.v_strides.seq * kElementBytes,
            places_.at(place_slot(step)) + 8};
  }
  __device__ void request_k(int step) const {
    if (step < steps_) {
      request<C.qk()>(k_slot(step), k_rows(step), step);
    }
  }
  __device__ void request_v(int step) const {
    if (step < steps_) {
      request<C.pv()>(v_slot(step), v_rows(step), step);
    }
  }
  template <PortableAttentionConfig T>
  __device__ void request(unsigned slot, const KvRows& rows, int step) const {
    if constexpr (C.has_pages()) {
      copy_paged_rows_in<T, C.run_rows()>(slot, rows, first_key(step), item_.keys(), thread_);
    } else {
      copy_rows_in<T>(slot, rows, first_key(step), item_.keys(), thread_);
    }
  }
  /// As one group; past the end it is empty, which keeps the number of groups in flight the same
  /// for every step.
  __device__ void request_both(int step) const {
    request_k(step);
    request_v(step);
    ptx::cp_async_commit_group();
  }

  const ServingAttentionParams& params_;
  unsigned smem_;
  const Item<C>& item_;
  PagePlaces<C> places_;
  int thread_;
  bool backward_;
  int first_;
  int steps_;
  int next_id_ = 0;  ///< The page of this thread's run of the next tile to be placed.
};

}  // namespace swr::serving
