// SPDX-License-Identifier: MIT
// The Q tiles of a CTA, in the order of common/schedule.h. The loading warpgroup and the consumers
// walk the same list, each on its own.
#pragma once

#include "attention/hopper/config.h"
#include "common/schedule.h"
#include <swr/attention_params.h>

namespace swr::hopper {

/// One Q tile: where it lies, and the K and V tiles to stream for it.
struct Scan {
  int batch;
  int head;
  int kv_head;
  int batch_head;  ///< batch * heads_q + head.
  int first_row;
  int tiles;           ///< K and V tiles to stream; at least 1.
  int unmasked_tiles;  ///< Tiles [0, unmasked_tiles) need no mask.
  bool backward;

  __device__ __forceinline__ int tile(int step) const { return kv_tile_at(step, tiles, backward); }
};

template <HopperConfig C>
class WorkList {
 public:
  __device__ __forceinline__ explicit WorkList(const AttentionParams& params)
      : params_(params),
        q_tiles_(ceil_div(params.seq_q, C.tile_m)),
        heads_(params.batch * params.heads_q) {}

  __device__ __forceinline__ SequenceShape shape() const {
    return {params_.seq_q, params_.seq_kv, C.causal};
  }

  /// False when the CTA has no Q tile of this iteration.
  __device__ __forceinline__ bool get(int iteration, Scan& scan) const {
    const long long tiles = static_cast<long long>(q_tiles_) * heads_;
    const long long linear = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, tiles);
    if (linear < 0) {
      return false;
    }
    const QTile q = longest_first(map_tile(linear, q_tiles_, heads_, params_.section_heads),
                                  q_tiles_, C.causal);
    scan.batch_head = q.head;
    scan.batch = q.head / params_.heads_q;
    scan.head = q.head % params_.heads_q;
    scan.kv_head = scan.head / (params_.heads_q / params_.heads_kv);
    scan.first_row = q.index * C.tile_m;
    // Rows that see no key go through one tile, all masked: O = 0 without a special case.
    scan.tiles = max_of(1, kv_tile_count(q.index, C.tile_m, C.tile_n, shape()));
    scan.unmasked_tiles =
        min_of(scan.tiles, unmasked_kv_tile_count(q.index, C.tile_m, C.tile_n, shape()));
    scan.backward = scans_backward(C.order, iteration);
    return true;
  }

 private:
  const AttentionParams& params_;
  int q_tiles_;
  int heads_;
};

}  // namespace swr::hopper
