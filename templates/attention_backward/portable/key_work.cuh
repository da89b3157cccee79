// SPDX-License-Identifier: MIT
// Which item of the pass over K and V tiles a CTA works on, and where its steps lead.
#pragma once

#include "attention_backward/config.h"
#include "attention_backward/schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// One item.
struct KeyWork {
  backward::KvTile tile;
  int part;
  int batch;
  int head_kv;
  int group;  ///< Query heads of a K and V head.
  backward::Steps steps;
  backward::Walk walk;
  SequenceShape shape;

  /// Where a step of the part leads.
  __device__ backward::Place place(int step) const {
    return backward::place_at(walk, steps.first + step, group);
  }
  /// A query head of the group, counted over the heads of one batch item and over the batch.
  __device__ int query_head(int group_head) const { return head_kv * group + group_head; }
};

/// Steps of a walk one after the other, without a division each.
class WalkCursor {
 public:
  __device__ WalkCursor(const KeyWork& work, int step)
      : left_(work.steps.count - step),
        head_((work.steps.first + step) / work.walk.tiles.count),
        within_(work.steps.first + step - head_ * work.walk.tiles.count) {}

  __device__ bool ends() const { return left_ <= 0; }
  __device__ backward::Place place(const KeyWork& work) const {
    return backward::place_within(work.walk, head_, within_, work.group);
  }
  __device__ void advance(const KeyWork& work, int steps) {
    left_ -= steps;
    within_ += steps;
    while (within_ >= work.walk.tiles.count) {
      within_ -= work.walk.tiles.count;
      ++head_;
    }
  }

 private:
  int left_;
  int head_;
  int within_;
};

/// Query head of a step, over the batch.
__device__ inline int batch_head(const AttentionBackwardParams& params, const KeyWork& work,
                                 int group_head) {
  return work.batch * params.heads_q + work.query_head(group_head);
}

/// Where a warp stands: its first key in the tile, and which of the warps with the same keys it is.
struct WarpKeys {
  int key;
  int group;
};

template <KeyPassConfig C>
__device__ inline WarpKeys warp_keys(int warp) {
  if constexpr (C.column_groups == 1) {
    return {warp * 16 * C.key_blocks(), 0};
  } else {
    return {warp % C.key_warps() * 16 * C.key_blocks(), warp / C.key_warps()};
  }
}

/// The items of a CTA. C is a KeyPassConfig or a HopperKeyPassConfig.
template <auto C>
class KeyItems {
 public:
  __device__ KeyItems(const AttentionBackwardParams& params, unsigned smem)
      : params_(params),
        smem_(smem),
        items_{params.batch * params.heads_kv, ceil_div(params.seq_kv, C.tile_n), params.parts,
               params.bands} {}

  /// The item of an iteration, or -1 when the CTA is done. All threads of the CTA.
  __device__ long long take(int iteration) const {
    if constexpr (C.draws_items()) {
      if (C.persistence == Persistence::grid && iteration > 0) {
        return -1;
      }
      const unsigned drawn = smem_ + C.item_offset();
      __syncthreads();  // All have read the item before.
      if (threadIdx.x == 0) {
        ptx::st_shared(drawn, atomicAdd(params_.item_counter, 1U));
      }
      __syncthreads();
      const long long item = ptx::ld_shared_b32(drawn);
      return item < items_.count() ? item : -1;
    } else {
      return cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, items_.count());
    }
  }

  __device__ KeyWork work(long long item) const {
    const backward::KvTile mapped = tile(item);
    return work({ptx::redux_sync_or(mapped.head), ptx::redux_sync_or(mapped.index),
                 ptx::redux_sync_or(mapped.place)},
                item);
  }
  /// The same of the item's tile, by any number of lanes.
  __device__ KeyWork work(const backward::KvTile& tile, long long item) const {
    KeyWork work;
    work.tile = tile;
    work.part = static_cast<int>(item % params_.parts);
    work.batch = work.tile.head / params_.heads_kv;
    work.head_kv = work.tile.head - work.batch * params_.heads_kv;
    work.group = params_.heads_q / params_.heads_kv;
    work.shape = {params_.seq_q, params_.seq_kv, C.causal};
    const backward::QTiles tiles =
        backward::q_tiles_of(work.tile.index, C.tile_m, C.tile_n, work.shape);
    work.steps = backward::steps_of_part(tiles.count * work.group, work.part, params_.parts);
    const int round = backward::round_of(C.persistence, item, params_.parts, gridDim.x);
    work.walk = {C.order, tiles, round, work.tile.place % params_.rotation % tiles.count};
    return work;
  }

  __device__ backward::KvTile tile(long long item) const {
    return backward::map_kv_tile(item / params_.parts, items_, params_.section_heads,
                                 params_.last_kv_first != 0);
  }

 private:
  const AttentionBackwardParams& params_;
  unsigned smem_;
  backward::KvItems items_;
};

}  // namespace swr::portable
