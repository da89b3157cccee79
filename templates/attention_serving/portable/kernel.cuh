// SPDX-License-Identifier: MIT
// Attention over unequal sequences for sm_80 to sm_121: the products, the softmax and the key
// groups of the dense family under another schedule, with K and V from anywhere. Every CTA reads
// the lengths itself, so a launch needs nothing of the host but upper bounds.
#pragma once

#include "attention/portable/key_groups.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_serving/config.h"
#include "attention_serving/item.cuh"
#include "attention_serving/portable/fragments.cuh"
#include "attention_serving/portable/kv_stream.cuh"
#include "attention_serving/portable/output.cuh"
#include "attention_serving/portable/scores.cuh"
#include "attention_serving/portable/shared_item.cuh"
#include "attention_serving/sequence_list.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// The rows of one warp of a Q tile, over the scan of K and V. Warps without rows compute nothing,
/// but take every step: they copy too, and a barrier of the CTA is one instruction that all of its
/// threads come to, so that none may stand on a path that only some warps take.
template <ServingAttentionConfig C>
class WarpRows {
 public:
  __device__ WarpRows(const ServingAttentionParams& params, KvStream<C>& stream,
                      const Item<C>& item, unsigned q_tile, portable::WarpPlace place, int lane)
      : params_(params),
        stream_(stream),
        item_(item),
        query_(q_tile, place.row, lane),
        place_(place) {
    query_.load();
    if constexpr (C.has_idle_warps()) {
      const int first_row = item.tile().index * C.tile_m + place.row;
      is_idle_ = ptx::redux_sync_or(first_row >= item.sequence().q_rows() ? 1 : 0);
    }
  }

  /// One K/V tile, which needs a mask or does not.
  template <bool Masked>
  __device__ void take(int step) {
    stream_.begin(step);
    typename Fragments<C>::Scores scores;
    if (!is_idle()) {
      portable::multiply_q_k<C.qk()>(scores, query_, stream_.k_slot(step), first_key());
      if constexpr (C.softcap != Softcap::none) {
        cap_scores<C>(scores, params_.softcap_scale);
      }
      if constexpr (Masked) {
        hide_scores<C>(scores, item_.tile().index * C.tile_m + place_.row,
                       stream_.first_key(step) + first_key(), item_.sequence());
      }
    }
    stream_.turn(step);
    if (!is_idle()) {
      softmax_.raise(scores, output_, params_.scale_log2);
      const auto numerators = [&](portable::Numerators<C.pv()>& p, int keys) {
        softmax_.exponentiate(p, scores, keys, params_.scale_log2);
      };
      portable::multiply_p_v<C.pv()>(output_, numerators, stream_.v_slot(step), first_key());
    }
  }

  /// Steps [first, last), which all need a mask or all do not.
  template <bool Masked>
  __device__ void scan(int first, int last) {
#pragma unroll 1
    for (int step = first; step < last; ++step) {
      take<Masked>(step);
    }
  }

  __device__ const typename Fragments<C>::Output& output() const { return output_; }
  __device__ const typename Fragments<C>::Softmax& softmax() const { return softmax_; }

 private:
  /// Known when the kernel is compiled, unless warps share rows.
  __device__ int first_key() const { return C.qk().key_groups() == 1 ? 0 : place_.key; }
  /// Alike in all lanes. Opaque, or ptxas takes up to 30 registers more for the loop.
  __device__ bool is_idle() const { return C.has_idle_warps() && ptx::opaque(is_idle_) != 0; }

  const ServingAttentionParams& params_;
  KvStream<C>& stream_;
  const Item<C>& item_;
  portable::QueryFragments<C.qk()> query_;
  portable::WarpPlace place_;
  int is_idle_ = 0;
  typename Fragments<C>::Output output_ = {};
  typename Fragments<C>::Softmax softmax_;
};

/// Tiles before and after the unmasked ones need a mask. Each body is in the code once, whatever
/// comes first.
template <ServingAttentionConfig C>
__device__ inline void scan_all(WarpRows<C>& rows, const KvStream<C>& stream, KvTiles unmasked) {
  const int steps = stream.steps();
  const int first = stream.backward() ? steps - unmasked.first - unmasked.count : unmasked.first;
  const int last = first + unmasked.count;
#pragma unroll 1
  for (int step = 0; step < steps;) {
    const int end = step < first ? first : step < last ? last : steps;
    if (first <= step && step < last) {
      rows.template scan<false>(step, end);
    } else {
      rows.template scan<true>(step, end);
    }
    step = end;
  }
}

/// Computes what is parked as `item`. `smem` holds the Q tile and the rings.
template <ServingAttentionConfig C>
__device__ inline void attend(const ServingAttentionParams& params, unsigned smem,
                              const Item<C>& item, bool backward) {
  const int thread = ptx::opaque(static_cast<int>(threadIdx.x));
  const portable::WarpPlace place = portable::warp_place<C.qk()>(thread / 32);
  KvStream<C> stream(params, smem, item, backward, thread);
  const auto ask_for_q = [&] {
    portable::copy_tile_in<C.qk(), C.tile_m>(smem, item.query_rows(params.q, params.q_strides),
                                             item.tile().index * C.tile_m, thread);
  };
  stream.find_first();
  if (C.lets_next_start_early() && params.lengths_are_ready) {
    stream.prefetch_first();
  }
  ptx::griddepcontrol_wait();  // At once when the lengths had to be waited for.
  if constexpr (C.pack_gqa) {
    stream.ask_first();  // Does not wait for the divisions that packed rows take.
    ask_for_q();
  } else {
    ask_for_q();
    stream.ask_first();
  }
  stream.ask_rest();
  if constexpr (C.lets_next_start_early()) {
    ptx::griddepcontrol_launch_dependents();
  }
  stream.arrive();
  WarpRows<C> rows(params, stream, item, smem, place, thread % 32);
  scan_all<C>(rows, stream, item.unmasked());
  ptx::cp_async_wait_group<0>();
  if (C.deal != Deal::whole && item.part().is_shared()) {
    SharedItem<C>(params, smem, item).leave_and_combine(rows.output(), rows.softmax(), place);
  } else if constexpr (C.pv().key_groups() > 1) {
    const RowWriter<C> writer(params, item);
    portable::combine_key_groups<C.pv()>(smem, rows.output(), rows.softmax(), place,
                                         rows_of_tile<C>(item), writer);
  } else {
    write_output<C>(params, item, rows.output(), rows.softmax(), smem, place.row);
  }
}

/// Finds the item of a unit, computes this CTA's part of it and returns the first unit after it.
template <ServingAttentionConfig C>
__device__ inline long long take_item(const ServingAttentionParams& params, unsigned smem,
                                      const SequenceList<C>& list, long long unit,
                                      const Ranges& ranges, int iteration) {
  const Item<C> item(params, smem + C.item_offset());
  __syncthreads();  // The previous item's readers are done with shared memory.
  if (threadIdx.x == 0) {
    item.find(list, unit, ranges);
  }
  __syncthreads();
  if (C.deal == Deal::whole || item.takes_part()) {
    attend<C>(params, smem, item, scans_backward(C.order, iteration));
  }
  return item.next_unit();
}

/// All that is dealt to this CTA.
template <ServingAttentionConfig C>
__device__ inline void run(const ServingAttentionParams& params, unsigned smem) {
  if (!params.lengths_are_ready) {
    ptx::griddepcontrol_wait();
  }
  if constexpr (C.deal == Deal::direct) {
    const Item<C> item(params, smem + C.item_offset());
    if (threadIdx.x == 0) {
      item.find(direct_place(C.tiles(), params, blockIdx.x, gridDim.x));
    }
    __syncthreads();
    if (item.takes_part()) {
      attend<C>(params, smem, item, scans_backward(C.order, 0));
    }
    return;
  }
  const SequenceList<C> list(params, smem);
  list.build();
  if constexpr (C.deal == Deal::whole) {
    const long long units = list.units();
    for (int iteration = 0;; ++iteration) {
      const long long unit = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, units);
      if (unit < 0) {
        break;
      }
      take_item<C>(params, smem, list, unit, {}, iteration);
    }
  } else {
    const int worker = static_cast<int>(blockIdx.x);
    const Ranges ranges = list.ranges();
    if (worker >= ranges.workers) {
      return;
    }
    long long unit = ranges.first(worker);
    for (int iteration = 0; unit < ranges.end(worker); ++iteration) {
      unit = take_item<C>(params, smem, list, unit, ranges, iteration);
    }
  }
}

}  // namespace swr::serving
