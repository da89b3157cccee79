// SPDX-License-Identifier: MIT
// Eight neighbouring elements of a row, as a thread of the kernels beside attention takes them.
#pragma once

#include "common/ptx.cuh"
#include <swr/axes.h>

namespace swr::serving {

inline constexpr int kColumns = 8;  ///< That a thread takes at a time: 16 bytes of 16-bit elements.

/// Eight elements in fp32.
struct Octet {
  float values[kColumns];
};

template <DType Type>
__device__ inline Octet unpacked(const uint4& words) {
  const unsigned packed[4] = {words.x, words.y, words.z, words.w};
  Octet octet;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const unsigned bits = packed[i / 2] >> (i % 2 * 16) & 0xffffU;
    if constexpr (Type == DType::bf16) {
      octet.values[i] = __uint_as_float(bits << 16);
    } else {
      octet.values[i] = ptx::cvt_f32_f16(static_cast<unsigned short>(bits));
    }
  }
  return octet;
}
template <DType Type>
__device__ inline uint4 packed(const Octet& octet) {
  const float* const v = octet.values;
  return make_uint4(ptx::cvt_rn_x2<Type>(v[0], v[1]), ptx::cvt_rn_x2<Type>(v[2], v[3]),
                    ptx::cvt_rn_x2<Type>(v[4], v[5]), ptx::cvt_rn_x2<Type>(v[6], v[7]));
}

/// 16 bytes at a multiple of kColumns elements from `tensor`.
__device__ inline const uint4* octet_at(const void* tensor, long long elements) {
  return reinterpret_cast<const uint4*>(static_cast<const char*>(tensor) + elements * 2);
}
__device__ inline uint4* octet_at(void* tensor, long long elements) {
  return reinterpret_cast<uint4*>(static_cast<char*>(tensor) + elements * 2);
}

}  // namespace swr::serving
