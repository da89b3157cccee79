// SPDX-License-Identifier: MIT
// Single elements of C in memory.
#pragma once

#include "common/ptx.cuh"
#include <swr/axes.h>
#include <swr/gemm_axes.h>

namespace swr {

template <OutputType Type>
__device__ __forceinline__ float load_output(const void* c, long long index) {
  if constexpr (Type == OutputType::fp32) {
    return static_cast<const float*>(c)[index];
  } else if constexpr (Type == OutputType::bf16) {
    return __uint_as_float(static_cast<unsigned>(static_cast<const unsigned short*>(c)[index])
                           << 16);
  } else {
    return ptx::cvt_f32_f16(static_cast<const unsigned short*>(c)[index]);
  }
}

/// Two floats as neighbours of a 16-bit type, the first in the lower half.
template <OutputType Type>
__device__ __forceinline__ unsigned pack_output(float low, float high) {
  return ptx::cvt_rn_x2 < Type == OutputType::fp16 ? DType::fp16 : DType::bf16 > (low, high);
}

}  // namespace swr
