// SPDX-License-Identifier: MIT
// Attention over unequal sequences for sm_80 to sm_121: the products, the softmax and the key
// groups of the dense family under another schedule, with K and V from anywhere. Every CTA reads
// the lengths itself, so a launch needs nothing of the host but upper bounds.
#pragma once

#include "attention/portable/key_groups.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/partial_row.cuh"
#include "attention/portable/shared_tile.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention/portable/warp_rows.cuh"
#include "attention_serving/config.h"
#include "attention_serving/item.cuh"
#include "attention_serving/portable/kv_stream.cuh"
#include "attention_serving/row_ends.cuh"
#include "attention_serving/sequence_list.cuh"
#include "attention_serving/softcap.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// What happens to the scores of a warp before the softmax: the softcap, then hiding what the mask
/// hides. In this order, for hiding first would turn minus infinity into minus the cap.
template <ServingAttentionConfig C>
struct Scoring {
  static constexpr bool kHasIdleWarps = C.has_idle_warps();

  const ServingAttentionParams& params;
  const Item<C>& item;
  int warp_row;  ///< In the Q tile.

  __device__ bool is_idle() const {
    return item.tile().index * C.tile_m + warp_row >= item.sequence().q_rows();
  }

  template <bool Masked, typename Scores>
  __device__ void prepare(Scores& scores, const KvStream<C>& stream, int step,
                          int first_key) const {
    if constexpr (C.softcap != Softcap::none) {
      cap(scores);
    }
    if constexpr (Masked) {
      const MaskedSequence sequence = item.sequence();
      portable::hide_scores<C.qk(), C.mask == ServingMask::window>(
          scores, item.tile().index * C.tile_m + warp_row, stream.first_key(step) + first_key,
          [&](int row) { return sequence.visible(row); });
    }
  }

 private:
  /// Leaves scores over the cap, which the softmax multiplies with the cap.
  template <int Blocks, int Groups>
  __device__ void cap(float (&scores)[Blocks][Groups][4]) const {
#pragma unroll
    for (int m = 0; m < Blocks; ++m) {
#pragma unroll
      for (int n = 0; n < Groups; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          scores[m][n][i] = capped<C.softcap>(scores[m][n][i] * params.softcap_scale);
        }
      }
    }
  }
};

/// Who multiplies.
template <ServingAttentionConfig C>
struct RowsOf {
  using Type = portable::WarpRows<C.qk(), C.pv(), KvStream<C>, Scoring<C>>;
};
template <ServingAttentionConfig C>
using Rows = typename RowsOf<C>::Type;

/// Where the results of the item's Q tile go.
template <ServingAttentionConfig C>
struct TileTarget {
  using Rows = typename Item<C>::QueryRows;
  using Ends = RowEnds<C>;

  const ServingAttentionParams& params;
  const Item<C>& item;

  __device__ int first_row() const { return item.tile().index * C.tile_m; }
  __device__ int head_rows() const { return item.sequence().q_rows(); }
  __device__ Rows output_rows() const { return item.query_rows(params.o, params.o_strides); }
  __device__ Ends ends() const { return {params, item}; }
};

/// Where the parts of an item, which are of unequal size, meet: each at the slot that the schedule
/// gives it, with the counter of the CTA that has the first part.
template <ServingAttentionConfig C>
struct Parts {
  /// Parts of a row whose loads are under way together, ten registers each.
  static constexpr int kAtOnce = 8;

  const ServingAttentionParams& params;
  const Item<C>& item;
  ItemPart part;
  int own;

  __device__ float* at(int index) const {
    return params.partials + static_cast<long long>(part.slot(index)) * C.pv().partial_floats();
  }
  __device__ int count() const { return part.parts; }
  __device__ unsigned* arrivals() const { return params.arrivals + part.first_worker; }
  __device__ unsigned message() const { return item.message(); }
};

/// Writes what the warps have found of the item, or leaves it for the CTA that writes it.
template <ServingAttentionConfig C>
__device__ inline void write_results(const ServingAttentionParams& params, const Item<C>& item,
                                     const Rows<C>& rows, unsigned smem,
                                     portable::WarpPlace place) {
  const TileTarget<C> target{params, item};
  if (C.deal != Deal::whole && item.part().is_shared()) {
    const ItemPart part = item.part();
    const Parts<C> parts{params, item, part, part.part};
    portable::SharedTile<C.pv(), Parts<C>, TileTarget<C>>(parts, target)
        .leave_and_combine(smem, rows.output(), rows.softmax(), place);
  } else if constexpr (C.pv().key_groups() > 1) {
    portable::combine_key_groups<C.pv()>(smem, rows.output(), rows.softmax(), place,
                                         portable::rows_of_tile<C.pv()>(target),
                                         portable::RowWriter<C.pv(), TileTarget<C>>(target));
  } else {
    portable::write_rows<C.pv(), C.head_dim == C.head_dim_v>(target, rows.output(), rows.softmax(),
                                                             smem, place.row);
  }
}

/// Tiles before and after the unmasked ones need a mask. Each body is in the code once, whatever
/// comes first.
template <ServingAttentionConfig C>
__device__ inline void scan_all(Rows<C>& rows, const KvStream<C>& stream, KvTiles unmasked) {
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
  Rows<C> rows(stream, {params, item, place.row}, smem, place, thread % 32, params.scale_log2);
  scan_all<C>(rows, stream, item.unmasked());
  ptx::cp_async_wait_group<0>();
  write_results<C>(params, item, rows, smem, place);
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
