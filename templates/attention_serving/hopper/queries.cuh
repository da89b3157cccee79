// SPDX-License-Identifier: MIT
// The Q tiles of unequal sequences, as the dense family's consumers and storing warps ask for them.
#pragma once

#include "attention/hopper/output.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention_serving/hopper/memory.cuh"
#include "attention_serving/row_ends.cuh"
#include "attention_serving/softcap.cuh"
#include "common/hopper_ptx.cuh"

namespace swr::serving {

/// What a consumer has in registers of a Q tile; all else it reads from the slot's item.
struct Steps {
  int tiles;           ///< K and V tiles to stream; 0 marks the end of the work.
  int unmasked_tiles;  ///< Tiles [0, unmasked_tiles) need no mask.
  int first_row;
  int backward;

  __device__ __forceinline__ int tile(int step) const {
    return kv_tile_at(step, tiles, backward != 0);
  }
};

/// The same under a window, which cuts tiles at both ends.
struct WindowSteps {
  int tiles;
  int unmasked_tiles;
  int first_row;
  int backward;
  int first_tile;
  int first_unmasked;  ///< Of the tiles, in the order of keys.

  __device__ __forceinline__ int tile(int step) const {
    return first_tile + kv_tile_at(step, tiles, backward != 0);
  }
  __device__ __forceinline__ int first_unmasked_step() const {
    return backward != 0 ? tiles - first_unmasked - unmasked_tiles : first_unmasked;
  }
  __device__ __forceinline__ int end_of_unmasked_steps() const {
    return first_unmasked_step() + unmasked_tiles;
  }
};
template <bool HasWindow>
struct StepsOf {
  using Type = Steps;
};
template <>
struct StepsOf<true> {
  using Type = WindowSteps;
};

/// Sets scores to minus infinity that the window hides. `row` is this thread's first row,
/// `first_key` the tile's first key.
template <HopperServingConfig C>
__device__ __forceinline__ void hide_scores(hopper::Scores<C.dense()>& scores, int row,
                                            int first_key, const MaskedSequence& sequence) {
  const int lane_key = first_key + static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const KeyRange keys = sequence.visible(row + 8 * half);
    const int first = keys.first - lane_key;
    const int end = keys.end - lane_key;
#pragma unroll
    for (int j = 0; j < C.tile_n / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * j + i < first || 8 * j + i >= end) {
          scores[4 * j + 2 * half + i] = hopper::minus_infinity();
        }
      }
    }
  }
}

/// Where items are, and what they are read with.
struct QueryParams {
  const ServingAttentionParams& params;
  unsigned shared;
  float scale_log2;
};

template <HopperServingConfig C>
class SequenceQueries {
  static constexpr HopperAttentionConfig kDense = C.dense();

 public:
  static constexpr bool kHasWindow = C.has_window();
  static constexpr bool kHasCap = C.softcap != Softcap::none;
  using Scan = typename StepsOf<kHasWindow>::Type;
  using Params = QueryParams;

  __device__ __forceinline__ explicit SequenceQueries(const QueryParams& from)
      : items_{from.params, from.shared} {}

  __device__ __forceinline__ Scan take(hopper::SharedMemory<kDense> /*smem*/, int slot) {
    const Item<C> item = items_.of_slot(slot);
    const bool backward = scans_backward(C.order, iteration_);
    ++iteration_;
    const int tiles = hopper::uniform(static_cast<unsigned>(tiles_of<C>(item)));
    const int unmasked = hopper::uniform(static_cast<unsigned>(item.unmasked().count));
    const int first_row = hopper::uniform(static_cast<unsigned>(item.tile().index * C.tile_m));
    if constexpr (kHasWindow) {
      return {tiles,
              unmasked,
              first_row,
              backward ? 1 : 0,
              hopper::uniform(static_cast<unsigned>(item.kv_tiles().first)),
              hopper::uniform(static_cast<unsigned>(item.unmasked().first))};
    } else {
      return {tiles, unmasked, first_row, backward ? 1 : 0};
    }
  }
  __device__ __forceinline__ void hide(hopper::Scores<kDense>& scores, int row, int first_key,
                                       int slot) const {
    hide_scores<C>(scores, row, first_key, items_.of_slot(slot).sequence());
  }
  /// Scores over the cap: the softmax multiplies with it.
  __device__ __forceinline__ void cap(hopper::Scores<kDense>& scores) const {
#pragma unroll
    for (int i = 0; i < C.tile_n / 2; ++i) {
      scores[i] = capped<C.softcap>(scores[i] * items_.params.softcap_scale);
    }
  }
  __device__ __forceinline__ SequenceShape shape(int slot) const {
    const MaskedSequence sequence = items_.of_slot(slot).sequence();
    return {sequence.seq_q, sequence.seq_kv, kDense.causal};
  }
  /// Each warp says that it reads the slot's item no more.
  __device__ __forceinline__ void write(hopper::SharedMemory<kDense> smem, const Scan& scan,
                                        int slot, int consumer,
                                        const hopper::Softmax<kDense>& softmax,
                                        hopper::Output<kDense>& output) const {
    const Item<C> item = items_.of_slot(slot);
    const RowEnds<C> ends(items_.params, item);
    const int seq_q = item.sequence().seq_q;
    const int row = scan.first_row + 64 * consumer + hopper::ConsumerThread<kDense>::row();
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowResult result =
          ends.finish(row + 8 * half, softmax.shift_log2(half), softmax.sum(half));
      factors[half] = result.factor;
      if (threadIdx.x % 4 == 0 && row + 8 * half < seq_q) {
        ends.write_lse(row + 8 * half, result);
      }
    }
    softmax.scale(output, factors);
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      ptx::mbarrier_arrive(smem.q_empty(slot));
    }
    hopper::hand_over_output<kDense>(smem, slot, consumer, output);
  }

 private:
  ItemMemory<C> items_;
  int iteration_ = 0;
};

/// Where the storing warp brings O: rows that are queries, and no others.
template <HopperServingConfig C>
class SequenceOutputs {
  static constexpr HopperAttentionConfig kDense = C.dense();

 public:
  struct Tile {
    int tiles;
    int row;  ///< Of the sequence, the Q tile's first.
    int seq_q;
    int head;
    RowPlace first;
  };

  __device__ __forceinline__ SequenceOutputs(const ItemMemory<C>& items, const HopperMaps& maps)
      : items_(items), maps_(maps) {}

  __device__ __forceinline__ Tile take(hopper::SharedMemory<kDense> smem, int slot) const {
    const Item<C> item = items_.of_slot(slot);
    const QTile tile = item.tile();
    const Tile taken{hopper::uniform(static_cast<unsigned>(tiles_of<C>(item))),
                     tile.index * C.tile_m, item.sequence().seq_q, tile.head, item.first_query()};
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      ptx::mbarrier_arrive(smem.q_empty(slot));
    }
    return taken;
  }
  __device__ __forceinline__ void store(hopper::SharedMemory<kDense> smem, const Tile& tile,
                                        int slot, int consumer, int panel) const {
    const int row = tile.row + 64 * consumer;
    const int live = rows_below(tile.seq_q, row, 64);
    if (live > 0) {
      ptx::cp_async_bulk_tensor_5d_shared_to_global(
          maps_.o,
          cut_box(maps_.steps.o, panel * kDense.panel_columns(),
                  {tile.first.row + row, tile.first.batch}, live, tile.head),
          smem.q(slot, consumer) + panel * hopper::kQBoxBytes<kDense>);
    }
  }

 private:
  const ItemMemory<C>& items_;
  const HopperMaps& maps_;
};

}  // namespace swr::serving
