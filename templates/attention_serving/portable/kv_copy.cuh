// SPDX-License-Identifier: MIT
// Moves tiles of K and V to shared memory from rows that lie one after another, or in pages. Keys
// that no row of the Q tile sees are not read but become zeros: servers leave anything there, NaN
// included, which times a numerator of 0 would be NaN.
#pragma once

#include "attention/portable/tile_copy.cuh"
#include "attention_serving/config.h"
#include "attention_serving/portable/item.cuh"
#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include "common/serving_schedule.h"

namespace swr::serving {

/// One operand's rows, as the thread that copies knows them.
struct KvRows {
  const char* base;
  long long row_stride_bytes;
  unsigned places;  ///< Of pages: the shared address of the first run's byte offset.
};

/// Which rows of a tile exist, counted from a thread's first.
struct LiveRows {
  int first;
  unsigned count;

  __device__ LiveRows(KeyRange keys, int first_key)
      : first(keys.first - first_key), count(static_cast<unsigned>(keys.end - keys.first)) {}
  __device__ bool contain(int row) const { return static_cast<unsigned>(row - first) < count; }
};

/// How the threads of a CTA divide a tile of `T.tile_n` rows: a thread keeps its column and walks
/// down the rows.
template <PortableAttentionConfig T>
struct Trips {
  static constexpr int kChunks = portable::kChunksPerRow<T>;
  static constexpr int kRows = T.threads() / kChunks;  ///< That one trip copies.
  static constexpr int kCount = (T.tile_n + kRows - 1) / kRows;
  static constexpr bool kWhole = T.tile_n % kRows == 0;
};

/// All threads of the CTA, `thread` being this one, copy the tile whose first key is `first_key` to
/// `shared`. Rows lie one after another.
template <PortableAttentionConfig T>
__device__ inline void copy_rows_in(unsigned shared, const KvRows& source, int first_key,
                                    KeyRange keys, int thread) {
  using Way = Trips<T>;
  const int chunk = thread % Way::kChunks;
  const int thread_row = thread / Way::kChunks;
  if (T.threads() % Way::kChunks != 0 && thread_row >= Way::kRows) {
    return;
  }
  const char* global = source.base + first_key * source.row_stride_bytes +
                       (thread_row * source.row_stride_bytes + chunk * kChunkBytes);
  const LiveRows live(keys, first_key + thread_row);
#pragma unroll
  for (int trip = 0; trip < Way::kCount; ++trip) {
    const int passed = trip * Way::kRows;
    if (Way::kWhole || passed < T.tile_n - thread_row) {
      portable::copy_chunk_in<T>(shared + portable::tile_offset<T>(thread_row + passed, chunk),
                                 global, live.contain(passed));
    }
    global += Way::kRows * source.row_stride_bytes;
  }
}

/// The same from pages. Byte offsets are fetched for several trips at once, before the copies that
/// need them: these could not be passed by a later fetch.
template <PortableAttentionConfig T, int RunRows>
__device__ inline void copy_paged_rows_in(unsigned shared, const KvRows& source, int first_key,
                                          KeyRange keys, int thread) {
  using Way = Trips<T>;
  constexpr int kAtOnce = 4;
  constexpr bool kRunIsWholeTrips = RunRows % Way::kRows == 0;
  const int chunk = thread % Way::kChunks;
  const int thread_row = thread / Way::kChunks;
  if (T.threads() % Way::kChunks != 0 && thread_row >= Way::kRows) {
    return;
  }
  const LiveRows live(keys, first_key + thread_row);
  const char* const base = source.base + chunk * kChunkBytes;
#pragma unroll
  for (int first = 0; first < Way::kCount; first += kAtOnce) {
    long long offsets[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int passed = (first + i) * Way::kRows;
      if (first + i >= Way::kCount) {
        break;
      }
      if (kRunIsWholeTrips && i > 0 && passed % RunRows != 0) {
        offsets[i] = offsets[i - 1] + Way::kRows * source.row_stride_bytes;
        continue;
      }
      const int row = min_of(thread_row + passed, T.tile_n - 1);
      offsets[i] = ptx::ld_shared_b64(source.places + static_cast<unsigned>(row / RunRows * 16)) +
                   row % RunRows * source.row_stride_bytes;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int passed = (first + i) * Way::kRows;
      if (first + i < Way::kCount && (Way::kWhole || passed < T.tile_n - thread_row)) {
        const bool valid = live.contain(passed);
        portable::copy_chunk_in<T>(shared + portable::tile_offset<T>(thread_row + passed, chunk),
                                   valid ? base + offsets[i] : base, valid);
      }
    }
  }
}

/// All threads of the CTA have L2 fetch the rows of a tile that exist.
template <PortableAttentionConfig T, int RunRows, bool Paged>
__device__ inline void prefetch_rows(const KvRows& source, int first_key, KeyRange keys,
                                     int thread) {
  constexpr int kLineBytes = 128;
  constexpr int kLinesPerRow = ceil_div(T.head_dim * kElementBytes, kLineBytes);
#pragma unroll 1
  for (int index = thread; index < T.tile_n * kLinesPerRow; index += T.threads()) {
    const int row = index / kLinesPerRow;
    if (!keys.contains(first_key + row)) {
      continue;
    }
    const char* address = source.base + index % kLinesPerRow * kLineBytes;
    if constexpr (Paged) {
      address += ptx::ld_shared_b64(source.places + static_cast<unsigned>(row / RunRows * 16)) +
                 row % RunRows * source.row_stride_bytes;
    } else {
      address += (first_key + row) * source.row_stride_bytes;
    }
    ptx::prefetch_global_l2(address);
  }
}

/// The byte offsets of the runs of rows of paged tiles, in shared memory: thread i looks run i up,
/// whose page it has fetched a tile ahead. Address arithmetic is then done once per run, not once
/// per 16 bytes.
template <ServingAttentionConfig C>
class PagePlaces {
 public:
  __device__ PagePlaces(const ServingAttentionParams& params, unsigned smem, const Item<C>& item,
                        int thread)
      : params_(params), first_(smem + C.places_offset()), item_(item), thread_(thread) {}

  /// The shared address of the offsets of K for the tile in `slot`; those of V lie 8 bytes further.
  __device__ unsigned at(int slot) const {
    return first_ + static_cast<unsigned>(slot * C.runs_per_tile() * C.kPlaceBytes);
  }

  /// Fetches the page of this thread's run of the tile whose first key is `first_key`. Pages of
  /// runs that no row sees are not looked up.
  __device__ int fetch(int first_key) const {
    const int key = first_key + thread_ * C.run_rows();
    const KeyRange keys = item_.keys();
    if (thread_ >= C.runs_per_tile() || key + C.run_rows() <= keys.first || key >= keys.end) {
      return 0;
    }
    const Pages pages = item_.pages();
    return pages.ids[pages.split.page(pages.first_kv + key)];
  }

  /// Leaves the offsets of this thread's run, which lies in page `id`.
  __device__ void put(int slot, int first_key, int id) const {
    if (thread_ >= C.runs_per_tile()) {
      return;
    }
    const Pages pages = item_.pages();
    const int position = pages.first_kv + first_key + thread_ * C.run_rows();
    const int row = position - pages.split.page(position) * pages.split.page_size;
    const unsigned place = at(slot) + static_cast<unsigned>(thread_ * C.kPlaceBytes);
    ptx::st_shared_b64(place, offset(params_.k_strides, id, row));
    ptx::st_shared_b64(place + 8, offset(params_.v_strides, id, row));
  }

 private:
  __device__ static long long offset(const TensorStrides& strides, int id, int row) {
    return (id * strides.batch + row * strides.seq) * kElementBytes;
  }

  const ServingAttentionParams& params_;
  unsigned first_;
  const Item<C>& item_;
  int thread_;
};

}  // namespace swr::serving
