// SPDX-License-Identifier: MIT
// Fills a tensor with normally distributed values that depend on the seed and the element's logical
// position alone, not on strides or launch shape.
#include <swr/annotations.h>
#include <swr/attention_params.h>
#include <swr/axes.h>

namespace swr::reference {
namespace {

/// Mixes all bits of a counter (the finaliser of SplitMix64, Steele et al. 2014).
__device__ unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Standard normal value of a counter by the Box-Muller transform.
__device__ float normal_value(unsigned long long counter) {
  const unsigned long long bits = mix(counter);
  // In (0, 1], so that the logarithm is finite.
  const float radius_uniform = (static_cast<float>(bits >> 40) + 1.0F) * 0x1p-24F;
  const float angle_uniform = static_cast<float>(bits & 0xffffffU) * 0x1p-24F;
  return sqrtf(-2.0F * logf(radius_uniform)) * cospif(2.0F * angle_uniform);
}

/// Drops the low bits of a float's pattern, rounding to nearest even.
__device__ unsigned round_off(unsigned bits, int dropped) {
  const unsigned half_minus_one = (1U << (dropped - 1)) - 1;
  return (bits + half_minus_one + ((bits >> dropped) & 1U)) >> dropped;
}

/// Requires: |value| below the largest of the type.
__device__ unsigned short encode(float value, DType dtype) {
  if (dtype == DType::bf16) {
    return static_cast<unsigned short>(round_off(__float_as_uint(value), 16));
  }
  if (is_fp8(dtype)) {
    const bool is_e4m3 = dtype == DType::e4m3;
    const float moved = fabsf(value) * (is_e4m3 ? 0x1p-120F : 0x1p-112F);
    const unsigned fp8 = round_off(__float_as_uint(moved), is_e4m3 ? 20 : 21);
    return static_cast<unsigned short>((__float_as_uint(value) >> 24 & 0x80U) | fp8);
  }
  const unsigned sign = (__float_as_uint(value) >> 16) & 0x8000U;
  const unsigned magnitude = round_off(__float_as_uint(fabsf(value) * 0x1p-112F), 13);
  return static_cast<unsigned short>(sign | magnitude);
}

}  // namespace
}  // namespace swr::reference

/// tensor: [batch, heads, seq, head_dim] with the given strides in elements.
extern "C" __global__ void swr_random_fill(void* tensor,
                                           const __grid_constant__ swr::TensorStrides strides,
                                           int batch, int heads, int seq, int head_dim, int dtype,
                                           unsigned long long seed) {
  const long long elements = static_cast<long long>(batch) * heads * seq * head_dim;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  const unsigned long long stream = swr::reference::mix(seed);
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += threads) {
    const long long column = i % head_dim;
    const long long row = i / head_dim % seq;
    const long long head = i / head_dim / seq % heads;
    const long long item = i / head_dim / seq / heads;
    const float value = swr::reference::normal_value(stream + static_cast<unsigned long long>(i));
    const long long index = item * strides.batch + head * strides.head + row * strides.seq + column;
    const unsigned short bits = swr::reference::encode(value, static_cast<swr::DType>(dtype));
    if (swr::is_fp8(static_cast<swr::DType>(dtype))) {
      static_cast<unsigned char*>(tensor)[index] = static_cast<unsigned char>(bits);
    } else {
      static_cast<unsigned short*>(tensor)[index] = bits;
    }
  }
}
