// SPDX-License-Identifier: MIT
// What a CTA works on: a Q tile of a sequence, or a part of its keys. One thread finds it out and
// parks it in shared memory, where the others read it when they need it: the main loop then holds
// no registers for it.
#pragma once

#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

inline constexpr int kElementBytes = 2;

__device__ inline const char* element(const void* tensor, long long offset) {
  return static_cast<const char*>(tensor) + offset * kElementBytes;
}

/// Where the rows of K or of V begin: the first key of the sequence, or for pages page 0.
struct KvBases {
  const char* k;
  const char* v;
};

/// A row and the index of the batch dimension there.
struct RowPlace {
  int row;
  int batch;
};

/// How positions over a sequence's pages fall into pages and rows of them.
struct PageSplit {
  int page_size;
  int shift;  ///< Its logarithm, or negative when it is no power of two.

  __device__ int page(int position) const {
    return shift >= 0 ? position >> shift : position / page_size;
  }
};

/// The sequence's pages and how to find a key there.
struct Pages {
  const int* ids;
  int first_kv;  ///< Position of the first key.
  PageSplit split;
};

/// The rows of q or o that the Q tiles of a head divide.
template <bool Packed>
struct QueryRowsOf {
  using Type = portable::GlobalRows;
};
template <>
struct QueryRowsOf<true> {
  using Type = portable::PackedRows;
};

/// `C` is the configuration of a kernel of either family.
template <auto C>
class Item {
 public:
  using QueryRows = typename QueryRowsOf<C.pack_gqa>::Type;

  /// `words` is the shared address of C.kItemBytes bytes.
  __device__ Item(const ServingAttentionParams& params, unsigned words)
      : params_(params), words_(words) {}

  /// One thread, with the list at hand: the item that holds `unit`, and with Deal::ranges the part
  /// that falls to this CTA.
  template <typename List>
  __device__ void find(const List& list, long long unit, const Ranges& ranges) const {
    const ItemPlace place = place_of_unit(C.tiles(), params_, list, unit);
    const QTile tile =
        item_tile(place.item, place.items, params_.section_heads, params_.item_order);
    const Sequence sequence = sequence_at(params_, place.sequence);
    const KvInterval interval =
        kv_interval(tile.index, C.tile_m, C.tile_n,
                    masked_sequence(C.tiles(), params_, sequence.seq_q, sequence.seq_kv));
    ItemPart part{{0, interval.count()}, 0, 1, 0};
    bool takes_part = true;
    if constexpr (C.deal == Deal::ranges) {
      takes_part = part_of_item(part, place, params_.item_overhead, interval.count(), ranges,
                                static_cast<int>(blockIdx.x));
    }
    park(place.first_unit + place.items.units_per_item, tile, sequence, interval, part, takes_part);
  }
  /// One thread: the part of an item that falls to this CTA by its index.
  __device__ void find(const DirectPlace& place) const {
    const Sequence sequence = sequence_at(params_, place.sequence);
    const MaskedSequence masked =
        masked_sequence(C.tiles(), params_, sequence.seq_q, sequence.seq_kv);
    if (place.tile.index * C.tile_m >= masked.q_rows()) {
      park_end();
      return;
    }
    const KvInterval interval = kv_interval(place.tile.index, C.tile_m, C.tile_n, masked);
    ItemPart part;
    const bool takes_part = direct_part(part, place, interval.count(), params_.least_units,
                                        static_cast<int>(blockIdx.x));
    park(0, place.tile, sequence, interval, part, takes_part);
  }

  /// One thread: instead of an item, that there are no more.
  __device__ void park_end() const { store(kMore, 0, 0, 0, 0); }
  /// One thread: the same as `other`, for others to read at their time.
  __device__ void park_copy(const Item& other) const {
#pragma unroll
    for (unsigned words = 0; words < C.kItemBytes; words += 16) {
      ptx::st_shared(words_ + words, other.load(words));
    }
  }

  __device__ QTile tile() const {
    const uint4 words = load(kTile);
    return {static_cast<int>(words.x), static_cast<int>(words.y)};
  }
  __device__ MaskedSequence sequence() const {
    const uint4 words = load(kTile);
    return masked_sequence(C.tiles(), params_, static_cast<int>(words.z),
                           static_cast<int>(words.w));
  }
  /// Keys that some row of the Q tile sees.
  __device__ KeyRange keys() const {
    const uint4 words = load(kKeys);
    return {static_cast<int>(words.x), static_cast<int>(words.y)};
  }
  /// Of the part, in the order of keys.
  __device__ KvTiles kv_tiles() const {
    const uint4 words = load(kKeys);
    return {static_cast<int>(words.z), static_cast<int>(words.w)};
  }
  /// Of kv_tiles(), counted from the first: those that hide nothing.
  __device__ KvTiles unmasked() const {
    const uint4 words = load(kPart);
    return {static_cast<int>(words.x), static_cast<int>(words.y)};
  }
  __device__ ItemPart part() const {
    const uint4 words = load(kPart);
    return {{},
            static_cast<int>(words.z),
            static_cast<int>(words.w),
            static_cast<int>(ptx::ld_shared_b32(words_ + kRows))};
  }
  /// False when this CTA has nothing to do for the item.
  __device__ bool takes_part() const { return ptx::ld_shared_b32(words_ + kMore) != 0; }
  /// The first unit of the item after this one.
  __device__ long long next_unit() const { return ptx::ld_shared_b64(words_ + kPages + 8); }

  __device__ KvBases bases() const {
    const uint4 words = load(kBases);
    return {pointer(words.x, words.y), pointer(words.z, words.w)};
  }
  __device__ Pages pages() const {
    const auto ids = static_cast<unsigned long long>(ptx::ld_shared_b64(words_ + kPages));
    return {reinterpret_cast<const int*>(ids),
            static_cast<int>(ptx::ld_shared_b32(words_ + kRows + 12)),
            {params_.pages.page_size, static_cast<int>(ptx::ld_shared_b32(words_ + kMore + 4))}};
  }

  /// Where rows of q and o begin, and rows of k and v unless they lie in pages.
  __device__ RowPlace first_query() const {
    const uint4 words = load(kRows);
    return {static_cast<int>(words.y), static_cast<int>(words.z)};
  }
  __device__ RowPlace first_key() const {
    return {static_cast<int>(ptx::ld_shared_b32(words_ + kRows + 12)),
            static_cast<int>(ptx::ld_shared_b32(words_ + kMore + 12))};
  }
  /// Of k and v.
  __device__ int kv_head() const {
    return C.pack_gqa ? tile().head : tile().head / (params_.heads_q / params_.heads_kv);
  }

  /// Those of the item's head.
  __device__ QueryRows query_rows(const void* tensor, const TensorStrides& strides) const {
    const uint4 words = load(kRows);
    const MaskedSequence masked = sequence();
    const long long first = static_cast<int>(words.z) * strides.batch +
                            static_cast<int>(words.y) * strides.seq +
                            static_cast<long long>(first_head()) * strides.head;
    char* const base = const_cast<char*>(element(tensor, first));
    if constexpr (C.pack_gqa) {
      return {base, strides.seq * kElementBytes, strides.head * kElementBytes, masked.packed_heads,
              masked.q_rows()};
    } else {
      return {base, strides.seq * kElementBytes, masked.seq_q};
    }
  }
  /// The log-sum-exp of the item's first head and first query.
  __device__ float* first_lse() const {
    const uint4 words = load(kRows);
    const TensorStrides& strides = params_.lse_strides;
    return params_.lse + static_cast<int>(words.z) * strides.batch +
           static_cast<int>(words.y) * strides.seq +
           static_cast<long long>(first_head()) * strides.head;
  }
  /// The query head of the tile's first row.
  __device__ int first_head() const { return tile().head * packed_heads(C.tiles(), params_); }

  /// For one thread to tell the others something, between barriers.
  __device__ unsigned message() const { return words_ + kMore + 8; }

 private:
  // Byte offsets of groups of four words.
  static constexpr unsigned kTile = 0;    ///< Head, index, seq_q, seq_kv.
  static constexpr unsigned kKeys = 16;   ///< Keys: first, end; K and V tiles: first, count.
  static constexpr unsigned kPart = 32;   ///< Unmasked: first, count; part, parts.
  static constexpr unsigned kRows = 48;   ///< First worker, first row, batch index, first key.
  static constexpr unsigned kBases = 64;  ///< Of K and of V.
  static constexpr unsigned kPages = 80;  ///< Ids; next unit.
  static constexpr unsigned kMore = 96;   ///< Takes part, page shift, message, batch index of K.

  __device__ uint4 load(unsigned words) const { return ptx::ld_shared_v4_b32(words_ + words); }
  __device__ void store(unsigned words, int a, int b, int c, int d) const {
    ptx::st_shared(words_ + words, make_uint4(static_cast<unsigned>(a), static_cast<unsigned>(b),
                                              static_cast<unsigned>(c), static_cast<unsigned>(d)));
  }
  __device__ static const char* pointer(unsigned low, unsigned high) {
    return reinterpret_cast<const char*>(static_cast<unsigned long long>(high) << 32 | low);
  }
  __device__ void store_pointer(unsigned place, const void* pointer) const {
    ptx::st_shared_b64(words_ + place,
                       static_cast<long long>(reinterpret_cast<unsigned long long>(pointer)));
  }

  __device__ void park(long long next_unit, QTile tile, const Sequence& sequence,
                       const KvInterval& interval, const ItemPart& part, bool takes_part) const {
    const int first = interval.first + part.tiles.first;
    const int count = part.tiles.count;
    const int unmasked = clamp_to(interval.unmasked_first - first, 0, count);
    const int unmasked_end = clamp_to(interval.unmasked_end - first, unmasked, count);
    store(kTile, tile.head, tile.index, sequence.seq_q, sequence.seq_kv);
    store(kKeys, interval.keys.first, interval.keys.end, first, count);
    store(kPart, unmasked, unmasked_end - unmasked, part.part, part.parts);
    store(kRows, part.first_worker, sequence.first_q, sequence.q_batch, sequence.first_kv);
    park_places(sequence, tile);
    ptx::st_shared_b64(words_ + kPages + 8, next_unit);
    store(kMore, takes_part ? 1 : 0, page_shift(), 0, sequence.kv_batch);
  }
  __device__ void park_places(const Sequence& sequence, QTile tile) const {
    const int head = C.pack_gqa ? tile.head : tile.head / (params_.heads_q / params_.heads_kv);
    store_pointer(kBases, first_row(params_.k, params_.k_strides, sequence, head));
    store_pointer(kBases + 8, first_row(params_.v, params_.v_strides, sequence, head));
    if constexpr (C.has_pages()) {
      store_pointer(kPages, sequence.pages);
    }
  }
  __device__ static const char* first_row(const void* tensor, const TensorStrides& strides,
                                          const Sequence& sequence, int head) {
    long long offset = head * strides.head;
    if constexpr (!C.has_pages()) {
      offset += sequence.kv_batch * strides.batch + sequence.first_kv * strides.seq;
    }
    return element(tensor, offset);
  }
  __device__ int page_shift() const {
    const auto size = static_cast<unsigned>(params_.pages.page_size);
    return (size & (size - 1)) == 0 ? 31 - ptx::clz(size) : -1;
  }

  const ServingAttentionParams& params_;
  unsigned words_;
};

}  // namespace swr::serving
