// SPDX-License-Identifier: MIT
// The schedule of attention over unequal sequences, written once: how long a sequence is and where
// it lies, which keys a Q tile needs, and which CTA computes which part of which Q tile. Kernels
// include this file, models walk it and the CPU tests prove it.
//
// Sources: Dao et al., "Flash-Decoding for long-context inference" (parts of a row of keys);
// Merrill and Garland, "Merge-based parallel sparse matrix-vector multiplication" (equal ranges of
// unequal rows); Sawtooth Wavefront Reordering for what it takes from schedule.h.
#pragma once

#include "common/attention_schedule.h"
#include <swr/annotations.h>
#include <swr/serving_attention_params.h>

namespace swr {

/// Consecutive keys [first, end).
struct KeyRange {
  int first = 0;
  int end = 0;

  SWR_HD constexpr bool contains(int key) const { return first <= key && key < end; }
};

SWR_HD constexpr int clamp_to(int value, int low, int high) {
  return max_of(low, min_of(value, high));
}

/// For numbers that are not negative. Divisions of 64 bits take a GPU four times as long as those
/// of 32, and hardly any list is so long that it needs them.
SWR_HD constexpr long long quotient(long long dividend, long long divisor) {
  if (((dividend | divisor) >> 32) == 0) {
    return static_cast<unsigned>(dividend) / static_cast<unsigned>(divisor);
  }
  return dividend / divisor;
}

/// Rounds down, for negative numbers too. `divisor` is positive.
SWR_HD constexpr int floor_div(int value, int divisor) {
  const int quotient = value / divisor;
  return value - quotient * divisor < 0 ? quotient - 1 : quotient;
}

/// The lengths of one sequence and what hides its keys. The window is one of plain numbers: a
/// causal mask is right = 0.
struct MaskedSequence {
  int seq_q = 0;
  int seq_kv = 0;
  int packed_heads = 1;  ///< As in SequenceShape.
  ServingMask mask = ServingMask::full;
  KeyWindow window;

  SWR_HD constexpr int q_rows() const { return seq_q * packed_heads; }

  /// The keys that row `row` of the sequence's Q tiles sees; first may be beyond end when none.
  /// Both bounds rise with the row.
  SWR_HD constexpr KeyRange visible(int row) const {
    if (mask == ServingMask::full) {
      return {0, seq_kv};
    }
    const int position = row / packed_heads + seq_kv - seq_q;
    if (mask == ServingMask::causal) {
      return {0, min_of(seq_kv, position + 1)};
    }
    KeyRange keys{window.left < 0 ? 0 : max_of(0, position - window.left),
                  window.right < 0 ? seq_kv : min_of(seq_kv, position + window.right + 1)};
    if (window.chunk > 0) {
      const int chunk_first = floor_div(position, window.chunk) * window.chunk;
      keys = {max_of(keys.first, chunk_first), min_of(keys.end, chunk_first + window.chunk)};
    }
    return keys;
  }
};

/// The K and V tiles [first, end) that a Q tile needs; tiles [unmasked_first, unmasked_end) of them
/// hide nothing from any of its rows. Empty ranges have first == end.
struct KvInterval {
  int first = 0;
  int end = 0;
  int unmasked_first = 0;
  int unmasked_end = 0;
  KeyRange keys;  ///< That some row of the tile may see: those below and above are not read.

  SWR_HD constexpr int count() const { return end - first; }
};

/// Requires: the Q tile has a row, q_index * tile_m < sequence.q_rows().
SWR_HD constexpr KvInterval kv_interval(int q_index, int tile_m, int tile_n,
                                        const MaskedSequence& sequence) {
  const KeyRange of_first = sequence.visible(q_index * tile_m);
  const KeyRange of_last = sequence.visible(min_of((q_index + 1) * tile_m, sequence.q_rows()) - 1);
  KvInterval interval;
  if (of_first.first >= of_last.end) {
    return interval;
  }
  interval.keys = {of_first.first, of_last.end};
  interval.first = of_first.first / tile_n;
  interval.end = ceil_div(of_last.end, tile_n);
  interval.unmasked_first = clamp_to(ceil_div(of_last.first, tile_n), interval.first, interval.end);
  interval.unmasked_end =
      clamp_to(floor_div(of_first.end, tile_n), interval.unmasked_first, interval.end);
  return interval;
}

/// One sequence as its lengths and tables say.
struct Sequence {
  int index = 0;
  int seq_q = 0;
  int seq_kv = 0;
  int first_q = 0;   ///< Its first row of q, o and lse, past what the batch stride gives.
  int q_batch = 0;   ///< Index of the batch dimension of q, o and lse.
  int first_kv = 0;  ///< The row of its first key: of k and v, or counted over its pages.
  int kv_batch = 0;  ///< Index of the batch dimension of k and v. Not for pages.
  const int* pages = nullptr;
};

/// Rows of the last of sequence i's pages are counted by last_page_len, those of the others by
/// page_size.
SWR_HD constexpr int keys_of_pages(const PageTable& pages, int i) {
  const int count = pages.indptr[i + 1] - pages.indptr[i];
  return count <= 0 ? 0 : (count - 1) * pages.page_size + pages.last_page_len[i];
}

/// The queries of sequence i.
SWR_HD constexpr int query_length(const ServingAttentionParams& params, int i) {
  const SequenceLengths& lengths = params.lengths;
  int rows = params.max_seq_q;
  if (lengths.cu_seqlens_q != nullptr) {
    rows = lengths.cu_seqlens_q[i + 1] - lengths.cu_seqlens_q[i];
  }
  if (lengths.seqused_q != nullptr) {
    rows = min_of(rows, lengths.seqused_q[i]);
  }
  return clamp_to(rows, 0, params.max_seq_q);
}

/// Rows of K and V that sequence i has before this call appends any, left padding included.
SWR_HD constexpr int cached_rows(const ServingAttentionParams& params, int i) {
  const SequenceLengths& lengths = params.lengths;
  if (lengths.seqused_k != nullptr) {
    return lengths.seqused_k[i];
  }
  if (lengths.cu_seqlens_k != nullptr) {
    return lengths.cu_seqlens_k[i + 1] - lengths.cu_seqlens_k[i];
  }
  return params.pages.indptr != nullptr ? keys_of_pages(params.pages, i) : params.max_seq_kv;
}
/// Rows that this call appends to those of sequence i.
SWR_HD constexpr int appended_rows(const ServingAttentionParams& params, int i) {
  const SequenceLengths& lengths = params.lengths;
  return lengths.cu_seqlens_k_new != nullptr
             ? lengths.cu_seqlens_k_new[i + 1] - lengths.cu_seqlens_k_new[i]
             : lengths.seq_k_new;
}
/// Rows that there is room for. Requests that fill up a captured batch may claim more than their
/// table has pages for.
SWR_HD constexpr int most_rows(const ServingAttentionParams& params) {
  if (params.pages.table == nullptr) {
    return params.max_seq_kv;
  }
  const long long room =
      static_cast<long long>(params.pages.pages_per_sequence) * params.pages.page_size;
  return room < params.max_seq_kv ? static_cast<int>(room) : params.max_seq_kv;
}
/// The keys of sequence i.
SWR_HD constexpr int key_length(const ServingAttentionParams& params, int i) {
  const int rows = min_of(cached_rows(params, i) + appended_rows(params, i), most_rows(params));
  const int* const padding = params.lengths.leftpad_k;
  return max_of(0, padding != nullptr ? rows - padding[i] : rows);
}

/// Everything about sequence i, read from where the lengths lie.
SWR_HD constexpr Sequence sequence_at(const ServingAttentionParams& params, int i) {
  const SequenceLengths& lengths = params.lengths;
  Sequence sequence;
  sequence.index = i;
  sequence.seq_q = query_length(params, i);
  sequence.seq_kv = key_length(params, i);
  if (lengths.cu_seqlens_q != nullptr) {
    sequence.first_q = lengths.cu_seqlens_q[i];
  } else {
    sequence.q_batch = i;
  }
  if (lengths.cu_seqlens_k != nullptr) {
    sequence.first_kv = lengths.cu_seqlens_k[i];
  } else {
    sequence.kv_batch = lengths.kv_batch_index != nullptr ? lengths.kv_batch_index[i] : i;
  }
  if (lengths.leftpad_k != nullptr) {
    sequence.first_kv += lengths.leftpad_k[i];
  }
  if (params.pages.table != nullptr) {
    sequence.pages = params.pages.table + i * params.pages.table_stride;
  } else if (params.pages.indptr != nullptr) {
    sequence.pages = params.pages.indices + params.pages.indptr[i];
  }
  return sequence;
}

/// What of the schedule is fixed when a kernel is compiled.
struct ServingTiles {
  int tile_m = 16;
  int tile_n = 16;
  ServingMask mask = ServingMask::full;
  bool pack_gqa = false;
  Deal deal = Deal::whole;
};

/// Q tiles of one sequence, dealt as items: those of all heads.
struct SequenceItems {
  int heads = 0;
  int q_tiles = 0;         ///< Of one head.
  int units_per_item = 1;  ///< Deal::ranges: item_overhead and the tiles of an average item.

  SWR_HD constexpr long long items() const { return static_cast<long long>(heads) * q_tiles; }
  SWR_HD constexpr long long units() const { return items() * units_per_item; }
};

/// Query heads that share Q tiles.
SWR_HD constexpr int packed_heads(const ServingTiles& tiles, const ServingAttentionParams& params) {
  return tiles.pack_gqa ? params.heads_q / params.heads_kv : 1;
}
/// Heads of one sequence that have Q tiles of their own.
SWR_HD constexpr int scheduled_heads(const ServingTiles& tiles,
                                     const ServingAttentionParams& params) {
  return tiles.pack_gqa ? params.heads_kv : params.heads_q;
}
SWR_HD constexpr MaskedSequence masked_sequence(const ServingTiles& tiles,
                                                const ServingAttentionParams& params, int seq_q,
                                                int seq_kv) {
  return {seq_q, seq_kv, packed_heads(tiles, params), tiles.mask, params.window};
}

/// K and V tiles of an average item of a sequence, at least 1: the mean over four of its Q tiles.
/// Ranges are cut by it, so that it decides how evenly work is dealt, and nothing else.
SWR_HD constexpr int mean_kv_tiles(const MaskedSequence& sequence, int q_tiles, int tile_m,
                                   int tile_n) {
  if (q_tiles == 1 || sequence.mask == ServingMask::full) {
    return max_of(1, kv_interval(0, tile_m, tile_n, sequence).count());
  }
  long long sum = 0;
  for (int sample = 0; sample < 4; ++sample) {
    const int q_index = static_cast<int>(static_cast<long long>(q_tiles - 1) * sample / 3);
    sum += kv_interval(q_index, tile_m, tile_n, sequence).count();
  }
  return max_of(1, static_cast<int>((sum + 2) / 4));
}

SWR_HD constexpr SequenceItems items_of(const ServingTiles& tiles,
                                        const ServingAttentionParams& params, int seq_q,
                                        int seq_kv) {
  const MaskedSequence sequence = masked_sequence(tiles, params, seq_q, seq_kv);
  SequenceItems items{scheduled_heads(tiles, params), ceil_div(sequence.q_rows(), tiles.tile_m), 1};
  if (tiles.deal == Deal::ranges && items.q_tiles > 0) {
    items.units_per_item =
        params.item_overhead + mean_kv_tiles(sequence, items.q_tiles, tiles.tile_m, tiles.tile_n);
  }
  return items;
}

/// What sequences are sorted by for ItemOrder::longest_first.
SWR_HD constexpr int sorting_key(const ServingTiles& tiles, const ServingAttentionParams& params,
                                 int i) {
  const MaskedSequence sequence =
      masked_sequence(tiles, params, query_length(params, i), key_length(params, i));
  const int q_tiles = ceil_div(sequence.q_rows(), tiles.tile_m);
  return q_tiles == 0 ? 0 : mean_kv_tiles(sequence, q_tiles, tiles.tile_m, tiles.tile_n);
}

/// The Q tile of a sequence's item.
SWR_HD constexpr QTile item_tile(long long item, const SequenceItems& items, int section_heads,
                                 ItemOrder order) {
  const QTile tile =
      map_tile(item, items.q_tiles, items.heads, clamp_to(section_heads, 1, items.heads));
  switch (order) {
    case ItemOrder::as_given:
      break;
    case ItemOrder::longest_first:
      return {tile.head, items.q_tiles - 1 - tile.index};
    case ItemOrder::folded:
      return {tile.head, tile.index % 2 == 0 ? tile.index / 2 : items.q_tiles - 1 - tile.index / 2};
  }
  return tile;
}

/// The list of sequences that every CTA makes for itself has so many entries; where there are more
/// sequences, an entry stands for several neighbours.
inline constexpr int kListEntries = 512;

SWR_HD constexpr int sequences_per_entry(int batch) {
  return batch <= kListEntries ? 1 : ceil_div(batch, kListEntries);
}
SWR_HD constexpr int list_entries(int batch) { return ceil_div(batch, sequences_per_entry(batch)); }
/// Lists of more than one sequence an entry are not sorted.
SWR_HD constexpr bool is_sorted(ItemOrder order, int batch) {
  return order == ItemOrder::longest_first && sequences_per_entry(batch) == 1;
}

/// Units of the sequences of an entry, before sorting.
SWR_HD constexpr long long entry_units(const ServingTiles& tiles,
                                       const ServingAttentionParams& params, int entry) {
  const int group = sequences_per_entry(params.batch);
  long long units = 0;
  for (int i = entry * group; i < min_of((entry + 1) * group, params.batch); ++i) {
    units += items_of(tiles, params, query_length(params, i), key_length(params, i)).units();
  }
  return units;
}

/// Where a unit of the list lies.
struct ItemPlace {
  int sequence = 0;
  SequenceItems items;
  long long item = 0;        ///< Of the sequence.
  long long first_unit = 0;  ///< Of the item, in the list.
};

/// The item that holds a unit. `list.end(place)` is the number of units of places [0, place], and
/// `list.entry(place)` the entry that was sorted there. Requires: 0 <= unit < the units of all.
template <typename List>
SWR_HD constexpr ItemPlace place_of_unit(const ServingTiles& tiles,
                                         const ServingAttentionParams& params, const List& list,
                                         long long unit) {
  int low = 0;
  int high = list_entries(params.batch) - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (list.end(middle) > unit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  ItemPlace place;
  place.first_unit = low == 0 ? 0 : list.end(low - 1);
  place.sequence = list.entry(low) * sequences_per_entry(params.batch);
  for (;; ++place.sequence) {
    place.items = items_of(tiles, params, query_length(params, place.sequence),
                           key_length(params, place.sequence));
    if (unit - place.first_unit < place.items.units()) {
      break;
    }
    place.first_unit += place.items.units();
  }
  place.item = quotient(unit - place.first_unit, place.items.units_per_item);
  place.first_unit += place.item * place.items.units_per_item;
  return place;
}

/// The equal ranges that the units of all items are cut into, one per worker. None is empty.
struct Ranges {
  long long units = 0;
  int workers = 0;

  SWR_HD constexpr long long first(int worker) const { return quotient(units * worker, workers); }
  SWR_HD constexpr long long end(int worker) const { return first(worker + 1); }
  /// Whose range holds a unit.
  SWR_HD constexpr int worker_of(long long unit) const {
    return static_cast<int>(quotient((unit + 1) * workers + units - 1, units)) - 1;
  }
};

/// As many ranges as there are CTAs, but none shorter than `least` units, at least 1, unless there
/// are fewer in all.
SWR_HD constexpr Ranges cut_ranges(long long units, int ctas, int least) {
  const long long most = units == 0 ? 0 : quotient(units, least);
  return {units, most < ctas ? max_of(units == 0 ? 0 : 1, static_cast<int>(most)) : ctas};
}

/// Of how many ranges one in four may be given up for the others to be even.
SWR_HD constexpr int least_even_workers(int most) { return max_of(1, most - most / 4); }
/// Whether ranges of `items` items of equal length are whole items, or equal parts of one: then no
/// CTA begins a second item for a part of it, which costs the pipeline's filling and a combination.
SWR_HD constexpr bool are_even(int items, int workers) {
  return items % workers == 0 || workers % items == 0;
}
/// Requires: items > 0, most > 0.
SWR_HD constexpr int even_workers(int items, int most) {
  for (int workers = most; workers >= least_even_workers(most); --workers) {
    if (are_even(items, workers)) {
      return workers;
    }
  }
  return most;
}

/// A worker's part of an item.
struct ItemPart {
  KvTiles tiles;         ///< Of the item's interval, counted from its first tile.
  int part = 0;          ///< Which of its parts, in the order of keys.
  int parts = 1;         ///< CTAs that share the item.
  int first_worker = 0;  ///< Whose part is the first.

  SWR_HD constexpr bool is_shared() const { return parts > 1; }
  /// The place of what the part leaves, below 2 * workers: of a worker's items only its first may
  /// have begun before it, and only its last may go on after it.
  SWR_HD constexpr int slot(int of_part) const {
    return 2 * (first_worker + of_part) + (of_part == 0 ? 1 : 0);
  }
};

/// The part of an item of `tiles` K and V tiles that falls to a worker, in proportion to units:
/// some parts are empty when there are fewer tiles than units. False when the worker has only units
/// that stand for the overhead of beginning: it then does nothing for the item.
SWR_HD constexpr bool part_of_item(ItemPart& part, const ItemPlace& place, int overhead, int tiles,
                                   const Ranges& ranges, int worker) {
  const long long first_tile_unit = place.first_unit + overhead;
  const int tile_units = place.items.units_per_item - overhead;
  const long long from = ranges.first(worker) - first_tile_unit;
  const long long to = ranges.end(worker) - first_tile_unit;
  if (to <= 0) {
    return false;
  }
  part = {{0, tiles}, 0, 1, worker};
  if (from <= 0 && to >= tile_units) {
    return true;
  }
  const auto tile_at = [&](long long unit) {
    return tiles == tile_units ? static_cast<int>(unit)
                               : static_cast<int>(quotient(tiles * unit, tile_units));
  };
  const int first = tile_at(from > 0 ? from : 0);
  part.tiles = {first, tile_at(to < tile_units ? to : tile_units) - first};
  part.first_worker = ranges.worker_of(first_tile_unit);
  part.part = worker - part.first_worker;
  part.parts = ranges.worker_of(first_tile_unit + tile_units - 1) - part.first_worker + 1;
  return true;
}

/// Deal::direct: what the index of a CTA says. CTAs of one item follow each other.
struct DirectPlace {
  int sequence = 0;
  QTile tile;
  int part = 0;
  int parts = 1;  ///< CTAs that there are for the item.
};

/// Q tiles that the bounds of `params` allow, all heads and sequences together.
SWR_HD constexpr unsigned direct_items(const ServingTiles& tiles,
                                       const ServingAttentionParams& params) {
  const long long rows = static_cast<long long>(params.max_seq_q) * packed_heads(tiles, params);
  return static_cast<unsigned>((rows + tiles.tile_m - 1) / tiles.tile_m) *
         static_cast<unsigned>(scheduled_heads(tiles, params) * params.batch);
}
/// Requires: `ctas` is a multiple of direct_items().
SWR_HD constexpr DirectPlace direct_place(const ServingTiles& tiles,
                                          const ServingAttentionParams& params, unsigned cta,
                                          unsigned ctas) {
  const auto heads = static_cast<unsigned>(scheduled_heads(tiles, params));
  const auto batch = static_cast<unsigned>(params.batch);
  const unsigned parts = ctas / direct_items(tiles, params);
  const unsigned item = cta / parts;
  const unsigned of_batch = item / heads;
  return {static_cast<int>(of_batch % batch),
          {static_cast<int>(item % heads), static_cast<int>(of_batch / batch)},
          static_cast<int>(cta % parts),
          static_cast<int>(parts)};
}
/// Parts of an item of `tiles` K and V tiles, of at least `least` of them: no more than whoever
/// combines them reads in two trips, unless the parts stay long.
SWR_HD constexpr int direct_parts(int tiles, int least) {
  constexpr int kFewParts = 16;
  constexpr int kTilesOfMore = 8;
  return max_of(1, min_of(tiles / least, max_of(kFewParts, tiles / kTilesOfMore)));
}
/// The part of an item of `tiles` K and V tiles that falls to a CTA; false when it is left without.
SWR_HD constexpr bool direct_part(ItemPart& part, const DirectPlace& place, int tiles, int least,
                                  int cta) {
  const int parts = min_of(direct_parts(tiles, least), place.parts);
  const auto tile_at = [&](int of_part) {
    return static_cast<int>(quotient(static_cast<long long>(tiles) * of_part, parts));
  };
  const int first = tile_at(place.part);
  part = {{first, tile_at(place.part + 1) - first}, place.part, parts, cta - place.part};
  return place.part < parts;
}

}  // namespace swr
