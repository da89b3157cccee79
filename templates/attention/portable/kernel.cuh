// SPDX-License-Identifier: MIT
// FlashAttention forward for sm_80 to sm_121: a Q tile stays resident while K and V tiles stream
// through a ring in shared memory. Split-Q: each warp owns whole rows, so warps never reduce
// across each other (Sawtooth Wavefront Reordering, Algorithms 1 to 4); only where a Q tile has
// fewer rows than that takes do warps divide keys as well (key_groups.cuh).
#pragma once

#include "attention/config.h"
#include "attention/portable/key_groups.cuh"
#include "attention/portable/kv_stream.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/partial_row.cuh"
#include "attention/portable/query_rows.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/shared_tile.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention/portable/warp_rows.cuh"
#include "attention/portable/work.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_params.h>

namespace swr::portable {

/// What happens to the scores of a warp before the softmax.
template <PortableAttentionConfig C>
struct Scoring {
  static constexpr bool kHasIdleWarps = C.has_idle_warps();

  int first_row;  ///< Of the warp.
  SequenceShape shape;

  __device__ bool is_idle() const { return first_row >= shape.q_rows(); }

  template <bool Masked>
  __device__ void prepare(Scores<C>& scores, const KvStream<C>& stream, int step,
                          int first_key) const {
    if constexpr (Masked) {
      struct Keys {
        int first;
        int end;
      };
      hide_scores<C, false>(scores, first_row, stream.first_key(step) + first_key,
                            [&](int row) { return Keys{0, visible_keys(row, shape)}; });
    }
  }
};

template <PortableAttentionConfig C>
using Rows = WarpRows<C, C, const KvStream<C>, Scoring<C>>;

/// Where the splits of one Q tile meet.
template <PortableAttentionConfig C>
struct Splits {
  /// Parts of a row whose loads are under way together, ten registers each: as many as need no more
  /// than the scores, O and Q of the main loop do with what it keeps beside them.
  static constexpr int kAtOnce =
      C.accumulator_registers() + C.m_blocks() * C.head_dim / 4 > 100 ? 16 : 8;

  const AttentionParams& params;
  unsigned smem;
  int linear;  ///< The tile's place among those of the launch.
  int own;

  __device__ float* at(int split) const {
    return params.partials +
           (static_cast<long long>(linear) * params.kv_splits + split) * C.partial_floats();
  }
  __device__ int count() const { return params.kv_splits; }
  __device__ unsigned* arrivals() const { return params.arrivals + linear; }
  __device__ unsigned message() const { return smem; }
};

/// Tiles from place `unmasked` on need a mask: the last steps of a scan, or the first of a backward
/// one.
template <PortableAttentionConfig C>
__device__ inline void scan_all(Rows<C>& rows, const KvStream<C>& stream, int steps,
                                int unmasked) {
  const int masked = steps - unmasked;
  if constexpr (C.order == Order::cyclic) {
    rows.template scan<false>(0, unmasked);
    rows.template scan<true>(unmasked, steps);
  } else if constexpr (C.order == Order::right_to_left) {
    rows.template scan<true>(0, masked);
    rows.template scan<false>(masked, steps);
  } else {
#pragma unroll 1
    for (int part = 0; part < 2; ++part) {  // Each body once in the code, whatever comes first.
      if (stream.backward() == (part == 0)) {
        rows.template scan<true>(part * unmasked, part * unmasked + masked);
      } else {
        rows.template scan<false>(part * masked, part * masked + unmasked);
      }
    }
  }
}

/// Computes one Q tile, or one split of it. `smem` holds the Q tile, the K ring, the V ring, what
/// is parked and mbarriers. `streamed` is the number of K and V tiles that the CTA has scanned
/// before; returns how many it scans now.
template <PortableAttentionConfig C>
__device__ inline int attend(const Arguments<C>& arguments, unsigned smem, QTile tile, int split,
                             bool backward, int streamed) {
  const AttentionParams& params = arguments.params;
  const SequenceShape shape = sequence_shape<C>(params);
  const int thread = ptx::opaque(static_cast<int>(threadIdx.x));
  const WarpPlace place = warp_place<C>(thread / 32);
  KvTiles scanned{0, kv_tile_count(tile.index, C.tile_m, C.tile_n, shape)};
  int unmasked = unmasked_kv_tile_count(tile.index, C.tile_m, C.tile_n, shape);
  if constexpr (C.split_kv) {
    scanned = kv_part(scanned.count, split, params.kv_splits);
    unmasked = max_of(0, unmasked - scanned.first);
  }
  unmasked = min_of(scanned.count, unmasked);

  __syncthreads();  // The previous Q tile's readers are done with shared memory.
  const Work<C> work(arguments, smem, tile);
  if constexpr (C.parks_work()) {
    __syncthreads();
  }
  const KvStream<C> stream(smem, work, scanned, backward, thread, streamed);
  if constexpr (C.prefetches_kv()) {
    stream.prefetch_first();
  }
  // Where Q, K and V lie has been computed while the launch before ended. At once from the second Q
  // tile on.
  ptx::griddepcontrol_wait();
  if constexpr (C.prefetches_kv()) {
    ptx::griddepcontrol_launch_dependents();  // Memory then has work while this launch ends.
  }
  const auto ask_for_q = [&] {
    copy_tile_in<C, C.tile_m>(smem, query_rows<C>(params.q, params.q_strides, params, tile.head),
                              tile.index * C.tile_m, thread);
  };
  if constexpr (C.pack_gqa) {
    stream.ask_first();  // Does not wait for the divisions that packed rows take.
    ask_for_q();
  } else {
    ask_for_q();
    stream.ask_first();
  }
  stream.ask_rest();
  stream.arrive();
  Rows<C> rows(stream, {tile.index * C.tile_m + place.row, shape}, smem, place, thread % 32,
               params.scale_log2);
  scan_all<C>(rows, stream, scanned.count, unmasked);
  if constexpr (!C.prefetches_kv()) {
    // Only now: CTAs of the launch after that came while others of this one compute would wait in
    // places that the kernels of others could use.
    ptx::griddepcontrol_launch_dependents();
  }
  ptx::cp_async_wait_group<0>();
  const TileTarget<C> target{params, work.tile()};
  if constexpr (C.split_kv) {
    const int linear = target.tile.head * work_items<C>(params).q_tiles + target.tile.index;
    const Splits<C> splits{params, smem, linear, split};
    SharedTile<C, Splits<C>, TileTarget<C>>(splits, target)
        .leave_and_combine(smem, rows.output(), rows.softmax(), place);
  } else if constexpr (C.key_groups() > 1) {
    combine_key_groups<C>(smem, rows.output(), rows.softmax(), place, rows_of_tile<C>(target),
                          RowWriter<C, TileTarget<C>>(target));
  } else {
    write_rows<C, true>(target, rows.output(), rows.softmax(), smem, place.row);
  }
  return scanned.count;
}

/// All Q tiles, or splits of them, of this CTA.
template <PortableAttentionConfig C>
__device__ inline void run(const Arguments<C>& arguments, unsigned smem) {
  const AttentionParams& params = arguments.params;
  if constexpr (C.uses_tma()) {
    if (threadIdx.x == 0) {
      ptx::prefetch_tensormap(arguments.k);
      ptx::prefetch_tensormap(arguments.v);
      KvBarriers<C>(smem).initialise();
    }
  }
  int streamed = 0;
  for (int iteration = 0;; ++iteration) {
    const WorkItems items = work_items<C>(params);
    const long long item = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, items.count());
    if (item < 0) {
      return;
    }
    const int split = C.split_kv ? static_cast<int>(item % items.splits) : 0;
    const QTile tile = longest_first(
        map_tile(item / items.splits, items.q_tiles, items.heads, params.section_heads),
        items.q_tiles, C.causal && params.longest_first != 0);
    streamed +=
        attend<C>(arguments, smem, {ptx::redux_sync_or(tile.head), ptx::redux_sync_or(tile.index)},
                  split, scans_backward(C.order, iteration), streamed);
  }
}

}  // namespace swr::portable
