// SPDX-License-Identifier: MIT
// The schedule of attention, written once: where the Q tiles lie that CTAs get
// (common/cta_schedule.h), in which order one streams the K and V tiles, and which tiles the mask
// touches. Kernels include this file, the L2 model walks it and the CPU tests prove it, so the
// three cannot drift apart.
#pragma once

#include "common/cta_schedule.h"
#include <swr/annotations.h>
#include <swr/axes.h>

namespace swr {

/// The lengths a schedule depends on, and the mask.
struct SequenceShape {
  int seq_q = 0;
  int seq_kv = 0;
  bool causal = false;
  /// Query heads of a K and V head whose rows share its Q tiles: row r of a tile is query position
  /// r / packed_heads of head r % packed_heads. 1 when every query head has Q tiles of its own.
  int packed_heads = 1;

  /// Rows that the Q tiles of one head divide.
  SWR_HD constexpr int q_rows() const { return seq_q * packed_heads; }
  /// The query position of such a row.
  SWR_HD constexpr int position(int row) const { return row / packed_heads; }
};

/// One unit of work: rows [index * tile_m, (index + 1) * tile_m) of one head, or of the packed
/// query heads of one K and V head.
struct QTile {
  int head = 0;  ///< batch_index * heads_q + head_index; packed: of the K and V heads.
  int index = 0;
};

/// Consecutive K and V tiles, in the order of their keys.
struct KvTiles {
  int first = 0;
  int count = 0;
};

/// The part of a Q tile's `tiles` K and V tiles that split `split` of `splits` scans. Parts differ
/// by one tile at most; some are empty when there are more splits than tiles.
SWR_HD constexpr KvTiles kv_part(int tiles, int split, int splits) {
  const int first = tiles * split / splits;
  return {first, tiles * (split + 1) / splits - first};
}

/// What the CTAs of a launch are dealt: the Q tiles of `heads` heads, each as `splits` consecutive
/// work items. The linear tile is an item's number over `splits`, its split the remainder.
struct WorkItems {
  int heads = 0;    ///< batch * heads_q; packed: batch * heads_kv.
  int q_tiles = 0;  ///< Of one head.
  int splits = 1;

  SWR_HD constexpr long long tiles() const { return static_cast<long long>(heads) * q_tiles; }
  SWR_HD constexpr long long count() const { return tiles() * splits; }
};

/// Maps a linear tile index to its Q tile. `heads` counts batch * heads_q. Sections of
/// `section_heads` consecutive heads run one after another; inside a section the head varies
/// fastest. One head per section is q_fastest, all heads in one section is head_fastest.
SWR_HD constexpr QTile map_tile(long long linear, int q_tiles, int heads, int section_heads) {
  const long long section_tiles = static_cast<long long>(section_heads) * q_tiles;
  const int section = static_cast<int>(linear / section_tiles);
  const int within = static_cast<int>(linear - section * section_tiles);
  const int first_head = section * section_heads;
  const int heads_here = min_of(section_heads, heads - first_head);
  return {first_head + within % heads_here, within / heads_here};
}

/// Turns the Q tiles of every head around when `turned`, which is for causal masks: the tiles with
/// most K and V tiles start first and the short ones fill the end of the launch.
SWR_HD constexpr QTile longest_first(QTile tile, int q_tiles, bool turned) {
  return turned ? QTile{tile.head, q_tiles - 1 - tile.index} : tile;
}

/// Number of K and V tiles a Q tile needs: tiles [0, result). The causal mask hides the later ones
/// from every row of the tile; the result is 0 when no row sees any key.
SWR_HD constexpr int kv_tile_count(int q_index, int tile_m, int tile_n, SequenceShape shape) {
  const int all = ceil_div(shape.seq_kv, tile_n);
  if (!shape.causal) {
    return all;
  }
  const int last_row = min_of((q_index + 1) * tile_m, shape.q_rows()) - 1;
  const int visible_keys = shape.position(last_row) + shape.seq_kv - shape.seq_q + 1;
  return visible_keys <= 0 ? 0 : min_of(all, ceil_div(visible_keys, tile_n));
}

/// Of these, the number that no row needs a mask for: tiles [0, result). Every later tile hides
/// some (row, key) pair.
SWR_HD constexpr int unmasked_kv_tile_count(int q_index, int tile_m, int tile_n,
                                            SequenceShape shape) {
  const int first_position = shape.position(q_index * tile_m);
  const int seen_by_first_row = first_position + shape.seq_kv - shape.seq_q + 1;
  const int keys = shape.causal ? max_of(0, min_of(shape.seq_kv, seen_by_first_row)) : shape.seq_kv;
  return keys / tile_n;
}

/// K and V tile of a step (0, 1, ..., count - 1).
SWR_HD constexpr int kv_tile_at(int step, int count, bool backward) {
  return backward ? count - 1 - step : step;
}

/// Query row `row` may attend to the keys below the result, which is negative or 0 when to none.
SWR_HD constexpr int visible_keys(int row, SequenceShape shape) {
  return shape.causal ? min_of(shape.seq_kv, shape.position(row) + shape.seq_kv - shape.seq_q + 1)
                      : shape.seq_kv;
}

/// True when query row `row` may attend to key `key`.
SWR_HD constexpr bool is_visible(int row, int key, SequenceShape shape) {
  return key < visible_keys(row, shape);
}

/// True when some (row, key) of the tile pair is hidden, so scores must be masked one by one.
SWR_HD constexpr bool needs_mask(int q_index, int kv_index, int tile_m, int tile_n,
                                 SequenceShape shape) {
  return !is_visible(q_index * tile_m, (kv_index + 1) * tile_n - 1, shape);
}

}  // namespace swr
