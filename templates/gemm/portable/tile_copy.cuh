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

/// Copies the chunk at `global`, of which the first `elements` (0 to all) exist; the others become
/// zeros. Completes asynchronously when the alignment allows it.
template <PortableGemmConfig C>
__device__ inline void copy_chunk(unsigned shared, const GlobalMatrix& matrix, const char* global,
                                  int elements) {
  if constexpr (C.alignment_bytes >= 4) {
#pragma unroll
    for (int byte = 0; byte < kChunkBytes; byte += C.alignment_bytes) {
      const int left = min_of(C.alignment_bytes, max_of(0, C.element_bytes() * elements - byte));
      ptx::cp_async<C.alignment_bytes>(shared + byte, global + byte, left);
    }
  } else {
    // cp.async copies no fewer than 4 bytes: elements pass through registers.
    uint4 chunk = make_uint4(0, 0, 0, 0);
    if (elements > 0) {
      chunk = load_unaligned(global, matrix.base, matrix.end(C.element_bytes()));
      chunk = first_elements(chunk, elements);
    }
    ptx::st_shared(shared, chunk);
  }
}

/// All threads of the CTA copy the tile [Rows, Columns] whose first element is (row, column); what
/// lies outside of the matrix becomes zeros. Of a gated B, whose `row` is the first of C's columns,
/// every warp's rows are those of its gate and then those of `up`.
template <PortableGemmConfig C, int Rows, int Columns, bool GatedB = false>
__device__ inline void copy_tile(unsigned shared, const GlobalMatrix& matrix, int row, int column) {
  constexpr int kChunks = Columns / kChunkElements<C>;
  constexpr int kTrips = (Rows * kChunks + C.threads() - 1) / C.threads();
#pragma unroll
  for (int trip = 0; trip < kTrips; ++trip) {
    const int index = static_cast<int>(threadIdx.x) + trip * C.threads();
    if (Rows * kChunks % C.threads() != 0 && index >= Rows * kChunks) {
      return;
    }
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
    copy_chunk<C>(shared + smem_offset(tile_row, chunk, kChunks, true), matrix,
                  matrix.base + matrix_row * matrix.row_bytes + first * 1LL * C.element_bytes(),
                  min_of(kChunkElements<C>, max_of(0, left)));
  }
}

}  // namespace swr::portable
