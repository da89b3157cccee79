// SPDX-License-Identifier: MIT
// Moves tiles of K and V to shared memory from rows that lie one after another, or in pages. Keys
// that no row of the Q tile sees are not read but become zeros: servers leave anything there, NaN
// included, which times a numerator of 0 would be NaN.
#pragma once

#include "attention/portable/tile_copy.cuh"
#include "attention_serving/config.h"
#include "attention_serving/kv_rows.cuh"
#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include "common/serving_schedule.h"

namespace swr::serving {

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

}  // namespace swr::serving
