// SPDX-License-Identifier: MIT
// The schedule of the pass over K and V tiles, written once: which CTA computes which tile, in
// which order it walks through the Q tiles, which pairs the mask touches, and in which order the
// tiles add to dQ when that is fixed. Kernels, models and CPU tests include this file. The pass
// over Q tiles has forward's schedule (common/attention_schedule.h).
//
// Sources: Sawtooth Wavefront Reordering, Algorithms 2 to 4; DASH (arXiv 2601.21824), which orders
// the additions to dQ by walks that never meet.
#pragma once

#include "common/attention_schedule.h"
#include <swr/annotations.h>
#include <swr/attention_backward_axes.h>

namespace swr::backward {

/// Rows [index * tile_n, (index + 1) * tile_n) of one head of K and V.
struct KvTile {
  int head = 0;   ///< batch_index * heads_kv + head_index.
  int index = 0;  ///< Where it lies.
  int place = 0;  ///< How many tiles of its head are dealt before it.
};

/// What the CTAs of a launch are dealt: every K and V tile of `heads` heads, as `parts` consecutive
/// items, each a part of the tile's walk. The first of `bands` equal bands of all heads are dealt
/// before the second of any: under a causal mask the longest walks come first, whatever order a
/// band has.
struct KvItems {
  int heads = 0;     ///< batch * heads_kv.
  int kv_tiles = 0;  ///< Of one head.
  int parts = 1;
  int bands = 1;

  SWR_HD constexpr long long tiles() const { return static_cast<long long>(heads) * kv_tiles; }
  SWR_HD constexpr long long count() const { return tiles() * parts; }
};

/// Tiles [first, end) of a head.
struct Band {
  int first = 0;
  int end = 0;
};

/// The band that tile `index` is in.
SWR_HD constexpr Band band_of(int index, int kv_tiles, int bands) {
  const int band = ((index + 1) * bands - 1) / kv_tiles;
  return {kv_tiles * band / bands, kv_tiles * (band + 1) / bands};
}

/// Maps a linear tile index to its tile, with sections of every band as map_tile() has them. Tiles
/// of a band are dealt from the first to the last or the other way round.
SWR_HD constexpr KvTile map_kv_tile(long long linear, KvItems items, int section_heads,
                                    bool last_first) {
  const Band band = band_of(static_cast<int>(linear / items.heads), items.kv_tiles, items.bands);
  const QTile mapped = map_tile(linear - static_cast<long long>(band.first) * items.heads,
                                band.end - band.first, items.heads, section_heads);
  const int place = band.first + mapped.index;
  return {mapped.head, last_first ? band.end - 1 - mapped.index : place, place};
}

/// Consecutive Q tiles of a head.
struct QTiles {
  int first = 0;
  int count = 0;
};

/// The Q tiles with a row that sees a key of the K and V tile. The causal mask hides the tile from
/// the rows before; never empty.
SWR_HD constexpr QTiles q_tiles_of(int kv_index, int tile_m, int tile_n, SequenceShape shape) {
  const int first_row =
      shape.causal ? max_of(0, kv_index * tile_n - (shape.seq_kv - shape.seq_q)) : 0;
  const int first = first_row / tile_m;
  return {first, ceil_div(shape.seq_q, tile_m) - first};
}

/// K and V tiles with a key that some row of the Q tile sees: tiles [0, result). 0 for Q tiles that
/// nobody walks through.
SWR_HD constexpr int kv_tiles_of(int q_index, int tile_m, int tile_n, SequenceShape shape) {
  return kv_tile_count(q_index, tile_m, tile_n, shape);
}

/// True when some pair of the tiles is hidden or past an end, so that scores must be masked one by
/// one.
SWR_HD constexpr bool pair_needs_mask(int q_index, int kv_index, int tile_m, int tile_n,
                                      SequenceShape shape) {
  return (q_index + 1) * tile_m > shape.seq_q ||
         needs_mask(q_index, kv_index, tile_m, tile_n, shape);
}

/// Consecutive steps of a walk.
struct Steps {
  int first = 0;
  int count = 0;
};

/// The walk of a K and V tile goes through its Q tiles in every query head of its group, head by
/// head: `steps` steps, of which a part takes an equal share.
SWR_HD constexpr Steps steps_of_part(int steps, int part, int parts) {
  const auto first = static_cast<int>(static_cast<long long>(steps) * part / parts);
  const auto end = static_cast<int>(static_cast<long long>(steps) * (part + 1) / parts);
  return {first, end - first};
}

/// The round whose parity turns a sawtooth: that in which the first part of an item's tile is
/// dealt. The same for all parts, which else would not divide one walk, and whoever draws the item.
SWR_HD constexpr int round_of(Persistence persistence, long long item, int parts, long long ctas) {
  const long long first = item / parts * parts;
  switch (persistence) {
    case Persistence::grid:
      return 0;
    case Persistence::pairs:
      return static_cast<int>(first & 1);
    case Persistence::persistent:
    case Persistence::snake:
    case Persistence::dynamic:
      return static_cast<int>(first / ctas);
  }
  return 0;
}

/// How a K and V tile walks.
struct Walk {
  QOrder order = QOrder::cyclic;
  QTiles tiles;
  int round = 0;  ///< round_of() the item.
  int start = 0;  ///< QOrder::rotated: the place among the tiles that walk together.
};

/// Where a step leads: a query head of the group, and a Q tile.
struct Place {
  int group_head = 0;
  int q_tile = 0;
};

/// Of the walk through query head `head` of the group, its tile number `within`.
SWR_HD constexpr Place place_within(const Walk& walk, int head, int within, int group) {
  const int count = walk.tiles.count;
  const int passes = walk.round * group + head;
  const bool backward =
      walk.order == QOrder::right_to_left || (walk.order == QOrder::sawtooth && (passes & 1) != 0);
  int index = backward ? count - 1 - within : within;
  if (walk.order == QOrder::rotated) {
    index = (walk.start + within) % count;
  }
  return {head, walk.tiles.first + index};
}

SWR_HD constexpr Place place_at(const Walk& walk, int step, int group) {
  const int head = step / walk.tiles.count;
  return place_within(walk, head, step - head * walk.tiles.count, group);
}

/// How the K and V tiles of a head take turns in adding to dQ: in the order in which they are
/// dealt, so that whoever waits has been dealt after those it waits for. Tiles that rotate take
/// none: they would wait for each other in a circle.
struct Relay {
  bool last_first = false;  ///< Tiles of a band are dealt from last to first.
  int kv_tiles = 0;
  int bands = 1;
};

/// The turns of a K and V tile, from 0: at a Q tile with keys for it in `contributors` tiles of the
/// head the lesser of `latest` and `contributors + offset`.
struct Turns {
  int latest = 0;
  int offset = 0;

  SWR_HD constexpr int at(int contributors) const { return min_of(latest, contributors + offset); }
};

SWR_HD constexpr Turns turns_of(const KvTile& tile, const Relay& relay) {
  if (!relay.last_first) {
    return {tile.index, tile.index};
  }
  const Band band = band_of(tile.index, relay.kv_tiles, relay.bands);
  const int offset = band.first - 1 - tile.index;
  return {band.end + offset, offset};
}

}  // namespace swr::backward
