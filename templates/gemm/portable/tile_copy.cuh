// SPDX-License-Identifier: MIT
// Copies tiles of A and B from global to shared memory, whatever their sizes and alignment.
#pragma once

#include "common/ptx.cuh"
#include "common/smem_layout.h"
#include "gemm/portable/config.h"
#include "gemm/unaligned.cuh"

namespace swr::portable {

/// A row-major matrix in global memory.
struct GlobalMatrix {
  const char* base;
  long long row_bytes;
  int rows;
  int columns;

  /// Behind the last of its elements.
  __device__ const char* end(int element_bytes) const {
    return base + (rows - 1) * row_bytes + 1LL * columns * element_bytes;
  }
};

template <PortableGemmConfig C>
inline constexpr int kChunkElements = kChunkBytes / C.element_bytes();

/// A chunk of elements of two bytes, of which the first `elements` stay; the others become zeros.
__device__ inline uint4 first_elements(const uint4& chunk, int elements) {
  const auto word = [&](unsigned value, int first) {
    return elements >= first + 2 ? value : elements == first + 1 ? value & 0xffffU : 0U;
  };
  return make_uint4(word(chunk.x, 0), word(chunk.y, 2), word(chunk.z, 4), word(chunk.w, 6));
}

/// cp.async copies no fewer than 4 bytes: other rows pass through registers.
template <PortableGemmConfig C>
inline constexpr bool kLoadsToRegisters = C.alignment_bytes < 4;

/// Copies the chunk at `global`, of which the first `elements` (0 to all) exist; the others become
/// zeros.
template <PortableGemmConfig C>
__device__ inline void copy_chunk(unsigned shared, const char* global, int elements) {
#pragma unroll
  for (int byte = 0; byte < kChunkBytes; byte += C.alignment_bytes) {
    const int left = min_of(C.alignment_bytes, max_of(0, C.element_bytes() * elements - byte));
    ptx::cp_async<C.alignment_bytes>(shared + byte, global + byte, left);
  }
}

/// A chunk of a tile.
struct TileChunk {
  const char* global;
  int elements;  ///< That exist.
  unsigned shared;
};

/// The one of number `index` of the tile [Rows, Columns] at `shared` whose first element is (row,
/// column). Of a gated B, whose `row` is the first of C's columns, every warp's rows are those of
/// its gate and then those of `up`.
template <PortableGemmConfig C, int Columns, bool GatedB>
__device__ inline TileChunk tile_chunk(unsigned shared, const GlobalMatrix& matrix, int row,
                                       int column, int index) {
  constexpr int kChunks = Columns / kChunkElements<C>;
  const int tile_row = index / kChunks;
  const int chunk = index % kChunks;
  const int first = column + chunk * kChunkElements<C>;
  int matrix_row = row + tile_row;
  bool is_inside = matrix_row < matrix.rows;
  if constexpr (GatedB) {
    constexpr int kHalf = C.warp_c_columns();
    matrix_row = row + tile_row / (2 * kHalf) * kHalf + tile_row % kHalf;
    is_inside = matrix_row < matrix.rows / 2;
    matrix_row += tile_row / kHalf % 2 * (matrix.rows / 2);
  }
  const int left = is_inside ? matrix.columns - first : 0;
  return {matrix.base + matrix_row * matrix.row_bytes + first * 1LL * C.element_bytes(),
          min_of(kChunkElements<C>, max_of(0, left)),
          shared + smem_offset(tile_row, chunk, kChunks, true)};
}

/// All threads of the CTA copy the tile; what lies outside of the matrix becomes zeros. Completes
/// asynchronously where the alignment allows it, and has several loads under way where not.
template <PortableGemmConfig C, int Rows, int Columns, bool GatedB = false>
__device__ inline void copy_tile(unsigned shared, const GlobalMatrix& matrix, int row, int column) {
  constexpr int kAll = Rows * (Columns / kChunkElements<C>);
  constexpr int kAtOnce = kLoadsToRegisters<C> ? 4 : 1;
#pragma unroll
  for (int first = 0; first < kAll; first += kAtOnce * C.threads()) {
    TileChunk chunks[kAtOnce];
    UnalignedLoad loads[kAtOnce];
    const char* const end = matrix.end(C.element_bytes());
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int index = first + i * C.threads() + static_cast<int>(threadIdx.x);
      chunks[i] = tile_chunk<C, Columns, GatedB>(shared, matrix, row, column, index);
      if constexpr (kLoadsToRegisters<C>) {
        loads[i].start(chunks[i].global, matrix.base, end, index < kAll && chunks[i].elements > 0);
      } else if (index < kAll) {
        copy_chunk<C>(chunks[i].shared, chunks[i].global, chunks[i].elements);
      }
    }
    if constexpr (kLoadsToRegisters<C>) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * C.threads() + static_cast<int>(threadIdx.x) < kAll) {
          ptx::st_shared(chunks[i].shared,
                         first_elements(loads[i].finish(matrix.base, end), chunks[i].elements));
        }
      }
    }
  }
}

}  // namespace swr::portable
