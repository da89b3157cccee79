// SPDX-License-Identifier: MIT
// The Q tiles of a CTA, in the order of common/attention_schedule.h. The loading thread walks the
// list and leaves each entry in shared memory beside the Q tile, so that the consumers need no
// divisions.
#pragma once

#include "attention/hopper/config.h"
#include "common/attention_schedule.h"
#include <swr/attention_params.h>

namespace swr::hopper {

/// One Q tile: where it lies, and the K and V tiles to stream for it.
struct alignas(16) Scan {
  int tiles;           ///< K and V tiles to stream; 0 marks the end of the list.
  int unmasked_tiles;  ///< Tiles [0, unmasked_tiles) need no mask.
  int first_row;
  int backward;
  int head;
  int batch;
  int batch_head;  ///< batch * heads_q + head.
  int kv_head;

  __device__ __forceinline__ int tile(int step) const {
    return kv_tile_at(step, tiles, backward != 0);
  }
};

template <HopperAttentionConfig C>
class WorkList {
 public:
  __device__ __forceinline__ explicit WorkList(const AttentionParams& params)
      : params_(params),
        q_tiles_(ceil_div(params.seq_q, C.tile_m)),
        heads_(params.batch * params.heads_q),
        tiles_(static_cast<long long>(q_tiles_) * heads_) {}

  /// The Q tile in hand, or tiles = 0 past the end of the list. Needs no global memory.
  __device__ __forceinline__ Scan current() const {
    const long long linear = current_linear();
    return linear < 0 || linear >= tiles_ ? Scan{} : scan(linear, round(linear));
  }

  /// Takes the next one in hand, unless the list has ended.
  __device__ __forceinline__ void move_on_from(const Scan& in_hand) {
    if (in_hand.tiles > 0) {
      draw();
      ++iteration_;
    }
  }

  /// Both: returns the Q tile in hand.
  __device__ __forceinline__ Scan next() {
    const Scan result = current();
    move_on_from(result);
    return result;
  }

  /// After the end of the list: the last CTA clears the counter for the launch to come.
  __device__ __forceinline__ void finish() const {
    if constexpr (C.persistence == Persistence::dynamic) {
      if (atomicAdd(params_.tile_counter + 1, 1U) == gridDim.x - 1) {
        params_.tile_counter[0] = 0;
        params_.tile_counter[1] = 0;
      }
    }
  }

 private:
  /// The iteration whose parity turns a sawtooth. Drawn tiles take that of the deal in schedule.h,
  /// so that results do not depend on which CTA drew them.
  __device__ __forceinline__ int round(long long linear) const {
    if constexpr (C.persistence == Persistence::dynamic && C.order == Order::sawtooth) {
      return static_cast<int>(linear / gridDim.x);
    }
    return iteration_;
  }

  __device__ __forceinline__ long long current_linear() const {
    if constexpr (C.persistence == Persistence::dynamic) {
      return iteration_ == 0 ? blockIdx.x : drawn_;
    }
    return cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration_, tiles_);
  }

  /// Draws the tile after the one in hand, so that nobody waits for the counter. The first tile of
  /// each CTA is dealt, not drawn.
  __device__ __forceinline__ void draw() {
    if constexpr (C.persistence == Persistence::dynamic) {
      drawn_ = static_cast<long long>(gridDim.x) + atomicAdd(params_.tile_counter, 1U);
    }
  }

  __device__ __forceinline__ Scan scan(long long linear, int iteration) const {
    const SequenceShape shape{params_.seq_q, params_.seq_kv, C.causal};
    const QTile q = longest_first(map_tile(linear, q_tiles_, heads_, params_.section_heads),
                                  q_tiles_, C.causal);
    Scan result;
    // Rows that see no key go through one tile, all masked: O = 0 without a special case.
    result.tiles = max_of(1, kv_tile_count(q.index, C.tile_m, C.tile_n, shape));
    result.unmasked_tiles =
        min_of(result.tiles, unmasked_kv_tile_count(q.index, C.tile_m, C.tile_n, shape));
    result.first_row = q.index * C.tile_m;
    result.backward = scans_backward(C.order, iteration) ? 1 : 0;
    result.batch_head = q.head;
    result.batch = q.head / params_.heads_q;
    result.head = q.head % params_.heads_q;
    result.kv_head = result.head / (params_.heads_q / params_.heads_kv);
    return result;
  }

  const AttentionParams& params_;
  int q_tiles_;
  int heads_;
  long long tiles_;
  int iteration_ = 0;
  long long drawn_ = 0;
};

}  // namespace swr::hopper
