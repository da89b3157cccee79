// SPDX-License-Identifier: MIT
// Moves tiles of [rows, head_dim] 16-bit elements between global and shared memory.
#pragma once

#include "attention/config.h"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include "common/smem_layout.h"

namespace swr::portable {

/// A matrix [rows, head_dim] of one head in global memory; head_dim is contiguous.
struct GlobalRows {
  char* base;
  long long row_stride_bytes;
  int rows;

  __device__ char* address(int row) const { return base + row * row_stride_bytes; }
};

/// The rows of the query heads that share one K and V head: row r is query position r / heads of
/// head r % heads.
struct PackedRows {
  char* base;  ///< Of the first head.
  long long position_stride_bytes;
  long long head_stride_bytes;
  int heads;
  int rows;

  __device__ char* address(int row) const {
    return base + row / heads * position_stride_bytes + row % heads * head_stride_bytes;
  }
};

template <PortableAttentionConfig C>
inline constexpr int kChunksPerRow = C.head_dim * 2 / kChunkBytes;

/// Shared-memory offset of a 16-byte chunk of a [Rows, head_dim] tile that threads copy.
template <PortableAttentionConfig C, int Rows>
__device__ inline unsigned tile_offset(int row, int chunk) {
  if constexpr (C.wgmma) {
    constexpr TileLayout kPanels{Rows, C.copied_panel_columns() * 2 / kChunkBytes, C.smem_swizzle};
    return static_cast<unsigned>(kPanels.offset(row, chunk));
  }
  return static_cast<unsigned>(smem_offset(row, chunk, kChunksPerRow<C>, C.smem_swizzle));
}

/// The place of a lane in a tile, along its row and down its column, at the cost of one XOR per
/// group of swizzled chunks: rows that are a multiple of 8 apart are permuted alike, so all else is
/// known when the kernel is compiled.
template <TileLayout L>
class LaneOffset {
 public:
  /// The lane's place in the first block; its chunk is 0 or 1.
  __device__ LaneOffset(int row, int chunk)
      : offset_(static_cast<unsigned>(smem_offset(row, chunk, L.panel_chunks, L.swizzled))) {}

  /// The address in the tile at `tile`, `rows` (a multiple of 8) further down and `chunks` (even)
  /// further along.
  __device__ unsigned at(unsigned tile, int rows, int chunks) const {
    constexpr TileLayout kPlain{L.rows, L.panel_chunks, false};
    const int permuted = chunks & (L.group() - 1);
    return ((tile + offset_) ^ static_cast<unsigned>(permuted * kChunkBytes)) +
           static_cast<unsigned>(kPlain.offset(rows, chunks - permuted));
  }

 private:
  unsigned offset_;
};

/// Copies one chunk whose source is aligned to C.alignment_bytes; zeros when not `valid`.
template <PortableAttentionConfig C>
__device__ inline void copy_chunk_in(unsigned shared, const char* global, bool valid) {
  if constexpr (C.alignment_bytes >= 4) {
#pragma unroll
    for (int byte = 0; byte < kChunkBytes; byte += C.alignment_bytes) {
      ptx::cp_async_zfill<C.alignment_bytes>(shared + byte, global + byte, valid);
    }
  } else {
    // cp.async copies no fewer than 4 bytes: elements pass through registers.
    unsigned words[4] = {0, 0, 0, 0};
    const auto* elements = reinterpret_cast<const unsigned short*>(global);
    if (valid) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        words[i / 2] |= static_cast<unsigned>(elements[i]) << (i % 2 * 16);
      }
    }
    ptx::st_shared(shared, make_uint4(words[0], words[1], words[2], words[3]));
  }
}

/// All threads of the CTA, `thread` being this one, copy rows [first_row, first_row + Rows) into
/// the tile at `shared`; rows past the end become zeros. The copies complete asynchronously.
///
/// A thread keeps its column and walks down the rows, so that one pointer serves all its copies.
/// What depends on the thread and what on the tile stay apart: the one is the same for every tile,
/// the other for every thread.
template <PortableAttentionConfig C, int Rows>
__device__ inline void copy_tile_in(unsigned shared, const GlobalRows& source, int first_row,
                                    int thread) {
  constexpr int kRowsPerTrip = C.threads() / kChunksPerRow<C>;
  constexpr int kTrips = (Rows + kRowsPerTrip - 1) / kRowsPerTrip;
  const int chunk = thread % kChunksPerRow<C>;
  const int thread_row = thread / kChunksPerRow<C>;
  if (C.threads() % kChunksPerRow<C> != 0 && thread_row >= kRowsPerTrip) {
    return;
  }
  const char* global = source.base + first_row * source.row_stride_bytes +
                       (thread_row * source.row_stride_bytes + chunk * kChunkBytes);
  const int rows_left = source.rows - first_row - thread_row;
  const int tile_rows_left = Rows - thread_row;
#pragma unroll
  for (int trip = 0; trip < kTrips; ++trip) {
    constexpr bool kWholeTrips = Rows % kRowsPerTrip == 0;
    const int passed = trip * kRowsPerTrip;
    if (kWholeTrips || passed < tile_rows_left) {
      copy_chunk_in<C>(shared + tile_offset<C, Rows>(thread_row + passed, chunk), global,
                       passed < rows_left);
    }
    global += kRowsPerTrip * source.row_stride_bytes;
  }
}

/// The same for packed rows, which have no common stride. Rows of warps without any are left out:
/// every row costs a division, and decoding has few.
template <PortableAttentionConfig C, int Rows>
__device__ inline void copy_tile_in(unsigned shared, const PackedRows& source, int first_row,
                                    int thread) {
  constexpr int kWarpRows = 16 * C.m_blocks();
  const int warps = ceil_div(source.rows - first_row, kWarpRows);
  const int rows = min_of(Rows, warps * kWarpRows);
#pragma unroll 1
  for (int index = thread; index < rows * kChunksPerRow<C>; index += C.threads()) {
    const int row = index / kChunksPerRow<C>;
    const int chunk = index % kChunksPerRow<C>;
    const bool valid = first_row + row < source.rows;
    const char* const global = source.address(valid ? first_row + row : 0) + chunk * kChunkBytes;
    copy_chunk_in<C>(shared + tile_offset<C, Rows>(row, chunk), global, valid);
  }
}

/// All threads of the CTA, `thread` being this one, have L2 fetch the rows of [first_row, first_row
/// + Rows) that exist.
template <PortableAttentionConfig C, int Rows>
__device__ inline void prefetch_tile(const GlobalRows& source, int first_row, int thread) {
  constexpr int kLineBytes = 128;
  constexpr int kLinesPerRow = ceil_div(C.head_dim * 2, kLineBytes);
#pragma unroll
  for (int index = thread; index < Rows * kLinesPerRow; index += C.threads()) {
    const int row = first_row + index / kLinesPerRow;
    if (row < source.rows) {
      ptx::prefetch_global_l2(source.address(row) + index % kLinesPerRow * kLineBytes);
    }
  }
}

/// Writes 8 or 16 bytes of a row, element by element where rows may lie at any multiple of one.
template <PortableAttentionConfig C, typename Words>
__device__ inline void copy_out(char* global, const Words& words) {
  if constexpr (C.alignment_bytes == 16) {
    *reinterpret_cast<Words*>(global) = words;
  } else {
    auto* const elements = reinterpret_cast<unsigned short*>(global);
    const auto* const halves = reinterpret_cast<const unsigned*>(&words);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Words) / sizeof(unsigned short)); ++i) {
      elements[i] = static_cast<unsigned short>(halves[i / 2] >> (i % 2 * 16));
    }
  }
}

/// One warp copies its rows [tile_row, tile_row + Rows) of the Q tile at `shared` to the rows of
/// `target` that start at first_row + tile_row, leaving out those past the end.
template <PortableAttentionConfig C, int Rows, typename TargetRows>
__device__ inline void copy_rows_out(unsigned shared, const TargetRows& target, int first_row,
                                     int tile_row, int lane) {
  constexpr int kChunks = Rows * kChunksPerRow<C>;
  for (int index = lane; index < kChunks; index += 32) {
    const int row = tile_row + index / kChunksPerRow<C>;
    const int chunk = index % kChunksPerRow<C>;
    if (first_row + row < target.rows) {
      char* global = target.address(first_row + row) + chunk * kChunkBytes;
      copy_out<C>(global, ptx::ld_shared_v4_b32(shared + tile_offset<C, C.tile_m>(row, chunk)));
    }
  }
}

}  // namespace swr::portable
