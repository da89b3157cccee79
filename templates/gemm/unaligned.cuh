// SPDX-License-Identifier: MIT
// Loads of 16 bytes from addresses that are even.
#pragma once

#include "gemm/row_copies.h"

namespace swr {

/// The 16 bytes at `bytes` bytes (0 to 14, even) into two aligned neighbours.
__device__ inline uint4 shifted_chunk(const uint4& low, const uint4& high, unsigned bytes) {
  unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    words[i] = (bytes & 8U) != 0 ? words[i + 2] : words[i];
  }
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    words[i] = (bytes & 4U) != 0 ? words[i + 1] : words[i];
  }
  const auto word = [&](int i) {
    const unsigned long long pair = static_cast<unsigned long long>(words[i + 1]) << 32U | words[i];
    return static_cast<unsigned>(pair >> (bytes % 4 * 8));
  };
  return make_uint4(word(0), word(1), word(2), word(3));
}

/// The 16 bytes at `from`, by two aligned loads where both lie in [begin, end), by elements of two
/// bytes elsewhere; those outside are zeros then.
__device__ inline uint4 load_unaligned(const char* from, const char* begin, const char* end) {
  const auto bytes = static_cast<unsigned>(reinterpret_cast<unsigned long long>(from) % 16);
  const char* const low = from - bytes;
  if (low >= begin && low + 32 <= end) {
    const auto* const chunks = reinterpret_cast<const uint4*>(low);
    return shifted_chunk(chunks[0], chunks[1], bytes);
  }
  unsigned words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const char* const element = from + 2 * i;
    if (element >= begin && element < end) {
      words[i / 2] |= static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(element))
                      << (i % 2 * 16);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/// Chunk `index` of a copy's.
__device__ inline uint4 load_chunk(const RowCopy& copy, unsigned index) {
  const auto per_row = static_cast<unsigned>(copy.chunks_per_row());
  const unsigned row = index / per_row;
  const auto rows = static_cast<unsigned>(copy.rows);
  const char* const from = copy.from + row / rows * copy.item_stride +
                           row % rows * copy.row_stride + index % per_row * RowCopy::kChunkBytes;
  return load_unaligned(from, copy.from, copy.end());
}

__device__ inline void store_chunk(const RowCopy& copy, unsigned index, const uint4& chunk) {
  const auto per_row = static_cast<unsigned>(copy.chunks_per_row());
  char* const to = copy.to + static_cast<long long>(index / per_row) * copy.pitch() +
                   index % per_row * RowCopy::kChunkBytes;
  *reinterpret_cast<uint4*>(to) = chunk;
}

/// All of them, by CTAs of so many threads. Some loads are under way at once.
template <int CtaThreads>
__device__ inline void copy_rows(const RowCopies& copies) {
  constexpr int kAtOnce = 4;
  const unsigned of_a = copies.a.chunks();
  const unsigned all = copies.chunks();
  const unsigned threads = gridDim.x * CtaThreads;
  for (unsigned first = blockIdx.x * CtaThreads + threadIdx.x; first < all;
       first += kAtOnce * threads) {
    uint4 chunks[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned index = first + i * threads;
      if (index < all) {
        chunks[i] = index < of_a ? load_chunk(copies.a, index) : load_chunk(copies.b, index - of_a);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned index = first + i * threads;
      if (index < of_a) {
        store_chunk(copies.a, index, chunks[i]);
      } else if (index < all) {
        store_chunk(copies.b, index - of_a, chunks[i]);
      }
    }
  }
}

}  // namespace swr
