// SPDX-License-Identifier: MIT
// Where a tile's 16-byte chunks lie in shared memory, for any row length that is a multiple of two
// chunks. Tested on the CPU for bank conflicts.
#pragma once

#include <swr/annotations.h>

namespace swr {

inline constexpr int kChunkBytes = 16;

/// Chunks that the XOR permutes among themselves: the largest power of two, at most 8 (one
/// 128-byte line of banks), that divides the row.
SWR_HD constexpr int swizzle_group(int chunks_per_row) {
  const int lowest_bit = chunks_per_row & -chunks_per_row;
  return lowest_bit < 8 ? lowest_bit : 8;
}

/// Byte offset of chunk `chunk` of row `row` in a dense [rows, chunks_per_row] tile.
///
/// Eight consecutive rows at the same chunk, which is what ldmatrix reads at once, start at bank
/// group (row * chunks_per_row) mod 8 and so repeat every 8 / group rows. The XOR with the row
/// number divided by that period sends the repetitions to different bank groups: no conflict, and
/// no padding, for every head_dim that is a multiple of 16.
SWR_HD constexpr int smem_offset(int row, int chunk, int chunks_per_row, bool swizzled) {
  const int group = swizzle_group(chunks_per_row);
  const int permuted = swizzled ? chunk ^ ((row / (8 / group)) & (group - 1)) : chunk;
  return (row * chunks_per_row + permuted) * kChunkBytes;
}

/// A tile in shared memory: panels of all rows of `panel_chunks` chunks each, one after another.
struct TileLayout {
  int rows;
  int panel_chunks;
  bool swizzled;

  SWR_HD constexpr int panel_bytes() const { return rows * panel_chunks * kChunkBytes; }
  /// Chunks that are permuted among themselves.
  SWR_HD constexpr int group() const { return swizzled ? swizzle_group(panel_chunks) : 1; }
  /// Byte offset of a chunk.
  SWR_HD constexpr int offset(int row, int chunk) const {
    return chunk / panel_chunks * panel_bytes() +
           smem_offset(row, chunk % panel_chunks, panel_chunks, swizzled);
  }
};

}  // namespace swr
