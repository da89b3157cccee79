// SPDX-License-Identifier: MIT
// Loads of 16 bytes from addresses that are even.
#pragma once

#include "common/ptx.cuh"
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

/// A load of the 16 bytes at an address that is even, by two aligned ones where both lie in [begin,
/// end) and by elements of two bytes elsewhere. Started before it is finished, so that several may
/// be under way.
struct UnalignedLoad {
  const char* from;
  bool is_inside;
  uint4 low;
  uint4 high;

  /// Of what is not wanted nothing is read, and all of it is zeros.
  __device__ void start(const char* address, const char* begin, const char* end, bool wanted) {
    from = address;
    const char* const aligned = from - offset();
    is_inside = !wanted || (aligned >= begin && aligned + 32 <= end);
    low = ptx::ld_global_v4_b32_if(wanted && is_inside, aligned);
    high = ptx::ld_global_v4_b32_if(wanted && is_inside, aligned + 16);
  }

  /// Elements outside are zeros.
  __device__ uint4 finish(const char* begin, const char* end) const {
    return is_inside ? shifted_chunk(low, high, offset()) : by_elements(begin, end);
  }

 private:
  __device__ unsigned offset() const {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(from) % 16);
  }

  __device__ uint4 by_elements(const char* begin, const char* end) const {
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
};

/// Where chunk `index` of a copy is read.
__device__ inline const char* chunk_source(const RowCopy& copy, unsigned index) {
  const auto per_row = static_cast<unsigned>(copy.chunks_per_row());
  const auto rows = static_cast<unsigned>(copy.rows);
  const unsigned row = index / per_row;
  return copy.from + row / rows * copy.item_stride + row % rows * copy.row_stride +
         index % per_row * RowCopy::kChunkBytes;
}

/// Where it is written.
__device__ inline char* chunk_target(const RowCopy& copy, unsigned index) {
  const auto per_row = static_cast<unsigned>(copy.chunks_per_row());
  return copy.to + static_cast<long long>(index / per_row) * copy.pitch() +
         index % per_row * RowCopy::kChunkBytes;
}

/// Its chunks, by CTAs of so many threads. Some loads are under way at once.
template <int CtaThreads>
__device__ inline void copy_rows(const RowCopy& copy) {
  constexpr int kAtOnce = 4;
  const char* const end = copy.end();
  const unsigned all = copy.chunks();
  const unsigned threads = gridDim.x * CtaThreads;
  for (unsigned first = blockIdx.x * CtaThreads + threadIdx.x; first < all;
       first += kAtOnce * threads) {
    UnalignedLoad loads[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned index = first + i * threads;
      loads[i].start(chunk_source(copy, index), copy.from, end, index < all);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned index = first + i * threads;
      if (index < all) {
        *reinterpret_cast<uint4*>(chunk_target(copy, index)) = loads[i].finish(copy.from, end);
      }
    }
  }
}

template <int CtaThreads>
__device__ inline void copy_rows(const RowCopies& copies) {
  copy_rows<CtaThreads>(copies.a);
  copy_rows<CtaThreads>(copies.b);
}

}  // namespace swr
