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
#include "common/tma_ptx.cuh"
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
      const KeyRange keys = item_.keys();
      int ids[kFoundAhead];
#pragma unroll
      for (int step = 0; step < kFoundAhead; ++step) {
        ids[step] = PagePlaces<C>::fetch(entry(step, keys));
      }
#pragma unroll
      for (int step = 0; step < kFoundAhead; ++step) {
        put(step, addresses(step, ids[step]));
      }
      next_id_ = PagePlaces<C>::fetch(entry(kFoundAhead, keys));
      __syncthreads();
    }
  }
  /// Has L2 fetch K and V of the first step, which may come before griddepcontrol_wait().
  __device__ void prefetch_first() const {
    if (steps_ > 0) {
      prefetch<C.qk()>(k_source(0, source()));
      prefetch<C.pv()>(v_source(0, source()));
    }
  }
  /// Starts the first copies.
  __device__ void ask_first() const {
    const Source of_item = source();
    if constexpr (C.stages > 1) {
      request_tiles(0, of_item);
    } else {
      request_k(0, of_item);
    }
  }
  /// Ends the first group, which holds all that the CTA has asked for since, and starts the others.
  __device__ void ask_rest() const {
    ptx::cp_async_commit_group();
#pragma unroll
    for (int step = 1; step < C.stages - 1; ++step) {
      request_both(step, source());
    }
  }

  /// Waits for the oldest group in flight and makes it visible to the CTA. Also: every warp has
  /// finished what it read before.
  __device__ static void arrive() {
    ptx::cp_async_wait_group<C.stages == 1 ? 0 : C.stages - 2>();
    if constexpr (C.wgmma) {
      ptx::fence_proxy_async();  // Warpgroups read what this thread has copied.
    }
    __syncthreads();
  }

  __device__ void begin(int step) {
    // Ahead of the barrier, where time passes anyway: what shared memory says of the item, and
    // where the runs lie whose page has come.
    const Source of_item = source();
    [[maybe_unused]] uint4 found;
    [[maybe_unused]] const int* next = nullptr;
    if constexpr (C.has_pages()) {
      found = addresses(step + kFoundAhead, next_id_);
      next = entry(step + kFoundAhead + 1, of_item.keys);
    }
    arrive();
    if constexpr (C.stages == 1) {
      request_v(step, of_item);
      ptx::cp_async_commit_group();
    } else {
      request_both(step + C.stages - 1, of_item);
    }
    if constexpr (C.has_pages()) {
      put(step + kFoundAhead, found);
      next_id_ = PagePlaces<C>::fetch(next);
    }
  }

  __device__ void turn(int step) const {
    if constexpr (C.stages == 1) {
      const Source of_item = source();
      arrive();
      request_k(step + 1, of_item);
      ptx::cp_async_commit_group();
    }
  }

  __device__ void finish(int /*step*/) const {}

 private:
  /// Tiles whose places are known when a step begins, counted from it.
  static constexpr int kFoundAhead = C.stages == 1 ? 1 : C.stages;

  __device__ int place_slot(int step) const {
    return static_cast<int>(static_cast<unsigned>(step) % C.place_slots());
  }
  __device__ const int* entry(int step, KeyRange keys) const {
    return step < steps_ ? places_.entry(first_key(step), keys) : nullptr;
  }
  __device__ uint4 addresses(int step, int id) const {
    return places_.addresses(first_key(step), id);
  }
  __device__ void put(int step, const uint4& found) const {
    if (step < steps_) {
      places_.put(place_slot(step), found);
    }
  }

  /// What copying threads need of the item.
  struct Source {
    KeyRange keys;
    KvBases bases;  ///< Unless rows lie in pages, whose places are addresses.
  };
  __device__ Source source() const {
    return {item_.keys(), C.has_pages() ? KvBases{} : item_.bases()};
  }

  template <typename Rows>
  struct OperandSource {
    Rows rows;
    int first_key;
    KeyRange keys;
  };
  __device__ auto k_source(int step, const Source& of_item) const {
    return operand_source(step, of_item, of_item.bases.k, params_.k_strides.seq, 0U);
  }
  __device__ auto v_source(int step, const Source& of_item) const {
    return operand_source(step, of_item, of_item.bases.v, params_.v_strides.seq, 8U);
  }
  __device__ auto operand_source(int step, const Source& of_item, const char* base,
                                 long long row_stride, unsigned place) const {
    const long long row_stride_bytes = row_stride * kElementBytes;
    if constexpr (C.has_pages()) {
      return OperandSource<PagedRows>{
          {places_.at(place_slot(step)) + place, row_stride_bytes}, first_key(step), of_item.keys};
    } else {
      return OperandSource<KvRows>{{base, row_stride_bytes}, first_key(step), of_item.keys};
    }
  }

  __device__ void request_k(int step, const Source& of_item) const {
    if (step < steps_) {
      request<C.qk()>(k_slot(step), k_source(step, of_item));
    }
  }
  __device__ void request_v(int step, const Source& of_item) const {
    if (step < steps_) {
      request<C.pv()>(v_slot(step), v_source(step, of_item));
    }
  }
  template <PortableAttentionConfig T>
  __device__ void request(unsigned slot, const OperandSource<PagedRows>& from) const {
    copy_paged_rows_in<T, C.run_rows()>(slot, from.rows, from.first_key, from.keys, thread_);
  }
  template <PortableAttentionConfig T>
  __device__ void request(unsigned slot, const OperandSource<KvRows>& from) const {
    copy_rows_in<T>(slot, from.rows, from.first_key, from.keys, thread_);
  }
  /// K and V of a step.
  __device__ void request_tiles(int step, const Source& of_item) const {
    if constexpr (C.has_pages() && C.head_dim == C.head_dim_v) {
      if (step < steps_) {
        const auto k = k_source(step, of_item);
        copy_paged_pairs_in<C.qk(), C.run_rows()>(k_slot(step), v_slot(step), k.rows,
                                                  params_.v_strides.seq * kElementBytes,
                                                  k.first_key, k.keys, thread_);
      }
    } else {
      request_k(step, of_item);
      request_v(step, of_item);
    }
  }
  /// As one group; past the end it is empty, which keeps the number of groups in flight the same
  /// for every step.
  __device__ void request_both(int step, const Source& of_item) const {
    request_tiles(step, of_item);
    ptx::cp_async_commit_group();
  }

  template <PortableAttentionConfig T>
  __device__ void prefetch(const OperandSource<PagedRows>& from) const {
    prefetch_rows<T>(from.first_key, from.keys, thread_, [&](int row) {
      const unsigned place = from.rows.places + static_cast<unsigned>(row / C.run_rows() * 16);
      return reinterpret_cast<const char*>(ptx::ld_shared_b64(place)) +
             row % C.run_rows() * from.rows.row_stride_bytes;
    });
  }
  template <PortableAttentionConfig T>
  __device__ void prefetch(const OperandSource<KvRows>& from) const {
    prefetch_rows<T>(from.first_key, from.keys, thread_, [&](int row) {
      return from.rows.base + (from.first_key + row) * from.rows.row_stride_bytes;
    });
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
