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
      portable::copy_chunk_in<T>(
          shared + portable::tile_offset<T, T.tile_n>(thread_row + passed, chunk), global,
          live.contain(passed));
    }
    global += Way::kRows * source.row_stride_bytes;
  }
}

/// Where the rows of a trip lie, for a thread that walks down the rows of a tile: one place for
/// every RunRows of them.
template <PortableAttentionConfig T, int RunRows>
struct RunOfTrip {
  using Way = Trips<T>;
  /// Rows of one run that follow those of the trip before.
  static constexpr bool kGoesOn = RunRows % Way::kRows == 0;

  /// Whether the trip's row lies in the run of the trip before.
  __device__ static bool goes_on(int trip) { return kGoesOn && trip * Way::kRows % RunRows != 0; }
  /// The byte offset of the place of the trip's run.
  __device__ static unsigned place(int thread_row, int trip) {
    return static_cast<unsigned>(row(thread_row, trip) / RunRows * 16);
  }
  /// The row within it.
  __device__ static int in_run(int thread_row, int trip) {
    return RunRows == 1 ? 0 : row(thread_row, trip) % RunRows;
  }

 private:
  __device__ static int row(int thread_row, int trip) {
    return min_of(thread_row + trip * Way::kRows, T.tile_n - 1);
  }
};

__device__ inline const char* address_of(unsigned low, unsigned high) {
  return reinterpret_cast<const char*>(static_cast<unsigned long long>(high) << 32 | low);
}

/// Trips whose places are fetched together, ahead of the copies that need them: these could not be
/// passed by a later fetch.
inline constexpr int kTripsAtOnce = 4;

/// The same from pages.
template <PortableAttentionConfig T, int RunRows>
__device__ inline void copy_paged_rows_in(unsigned shared, const PagedRows& source, int first_key,
                                          KeyRange keys, int thread) {
  using Way = Trips<T>;
  using Run = RunOfTrip<T, RunRows>;
  const int chunk = thread % Way::kChunks;
  const int thread_row = thread / Way::kChunks;
  if (T.threads() % Way::kChunks != 0 && thread_row >= Way::kRows) {
    return;
  }
  const LiveRows live(keys, first_key + thread_row);
#pragma unroll
  for (int first = 0; first < Way::kCount; first += kTripsAtOnce) {
    const char* rows[kTripsAtOnce];
#pragma unroll
    for (int i = 0; i < kTripsAtOnce && first + i < Way::kCount; ++i) {
      const int trip = first + i;
      if (i > 0 && Run::goes_on(trip)) {
        rows[i] = rows[i - 1] + Way::kRows * source.row_stride_bytes;
        continue;
      }
      rows[i] = reinterpret_cast<const char*>(
                    ptx::ld_shared_b64(source.places + Run::place(thread_row, trip))) +
                Run::in_run(thread_row, trip) * source.row_stride_bytes;
    }
#pragma unroll
    for (int i = 0; i < kTripsAtOnce && first + i < Way::kCount; ++i) {
      const int passed = (first + i) * Way::kRows;
      if (Way::kWhole || passed < T.tile_n - thread_row) {
        portable::copy_chunk_in<T>(
            shared + portable::tile_offset<T, T.tile_n>(thread_row + passed, chunk),
            rows[i] + chunk * kChunkBytes, live.contain(passed));
      }
    }
  }
}

/// K to `k_shared` and V, whose rows are as long, to `v_shared`: one fetch from shared memory says
/// where both lie. `k` has the places of both.
template <PortableAttentionConfig T, int RunRows>
__device__ inline void copy_paged_pairs_in(unsigned k_shared, unsigned v_shared, const PagedRows& k,
                                           long long v_row_stride_bytes, int first_key,
                                           KeyRange keys, int thread) {
  using Way = Trips<T>;
  using Run = RunOfTrip<T, RunRows>;
  const int chunk = thread % Way::kChunks;
  const int thread_row = thread / Way::kChunks;
  if (T.threads() % Way::kChunks != 0 && thread_row >= Way::kRows) {
    return;
  }
  const LiveRows live(keys, first_key + thread_row);
#pragma unroll
  for (int first = 0; first < Way::kCount; first += kTripsAtOnce) {
    KvBases rows[kTripsAtOnce];
#pragma unroll
    for (int i = 0; i < kTripsAtOnce && first + i < Way::kCount; ++i) {
      const int trip = first + i;
      if (i > 0 && Run::goes_on(trip)) {
        rows[i] = {rows[i - 1].k + Way::kRows * k.row_stride_bytes,
                   rows[i - 1].v + Way::kRows * v_row_stride_bytes};
        continue;
      }
      const uint4 words = ptx::ld_shared_v4_b32(k.places + Run::place(thread_row, trip));
      const int row = Run::in_run(thread_row, trip);
      rows[i] = {address_of(words.x, words.y) + row * k.row_stride_bytes,
                 address_of(words.z, words.w) + row * v_row_stride_bytes};
    }
#pragma unroll
    for (int i = 0; i < kTripsAtOnce && first + i < Way::kCount; ++i) {
      const int passed = (first + i) * Way::kRows;
      if (Way::kWhole || passed < T.tile_n - thread_row) {
        const unsigned place = portable::tile_offset<T, T.tile_n>(thread_row + passed, chunk);
        const bool valid = live.contain(passed);
        portable::copy_chunk_in<T>(k_shared + place, rows[i].k + chunk * kChunkBytes, valid);
        portable::copy_chunk_in<T>(v_shared + place, rows[i].v + chunk * kChunkBytes, valid);
      }
    }
  }
}

/// All threads of the CTA have L2 fetch the rows of a tile that exist; `address(row)` is one's.
template <PortableAttentionConfig T, typename Address>
__device__ inline void prefetch_rows(int first_key, KeyRange keys, int thread,
                                     const Address& address) {
  constexpr int kLineBytes = 128;
  constexpr int kLinesPerRow = ceil_div(T.head_dim * kElementBytes, kLineBytes);
#pragma unroll 1
  for (int index = thread; index < T.tile_n * kLinesPerRow; index += T.threads()) {
    const int row = index / kLinesPerRow;
    if (keys.contains(first_key + row)) {
      ptx::prefetch_global_l2(address(row) + index % kLinesPerRow * kLineBytes);
    }
  }
}

}  // namespace swr::serving
