// SPDX-License-Identifier: MIT
// The fp32 reference that GEMM variants are checked against, the 0/1 inputs on which results are
// exact, and the comparison. It shares nothing with the tuned kernels but the parameter block: one
// thread per element of C, plain loops over k, no tensor cores.
#include "reference/gemm_comparison.h"
#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

namespace swr::reference {
namespace {

constexpr int kTile = 16;  ///< Elements of C along each side of a CTA, and of k staged at a time.

/// fp16 to fp32. With exponent and fraction moved to fp32's places the value is too small by 2^112,
/// subnormal numbers included.
__device__ float decode_fp16(unsigned bits) {
  const unsigned magnitude = bits & 0x7fffU;
  const unsigned sign = (bits & 0x8000U) << 16;
  if (magnitude >= 0x7c00U) {
    return __uint_as_float(sign | 0x7f800000U | (magnitude << 13));
  }
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112F));
}

__device__ float decode(unsigned bits, bool is_bf16) {
  return is_bf16 ? __uint_as_float(bits << 16) : decode_fp16(bits);
}

__device__ float input_element(const void* matrix, long long index, DType dtype) {
  return decode(static_cast<const unsigned short*>(matrix)[index], dtype == DType::bf16);
}

__device__ float output_element(const void* matrix, long long index, OutputType type) {
  return type == OutputType::fp32
             ? static_cast<const float*>(matrix)[index]
             : decode(static_cast<const unsigned short*>(matrix)[index], type == OutputType::bf16);
}

/// The nearest value of C's type, ties to even.
__device__ float rounded(float value, OutputType type) {
  if (type == OutputType::fp32 || value == 0.0F || !isfinite(value)) {
    return value;
  }
  const bool is_bf16 = type == OutputType::bf16;
  const int fraction_bits = is_bf16 ? 7 : 10;
  const int exponent_of_smallest = is_bf16 ? -133 : -24;
  const int unit_exponent = max(ilogbf(value) - fraction_bits, exponent_of_smallest);
  const float nearest = ldexpf(rintf(ldexpf(value, -unit_exponent)), unit_exponent);
  constexpr float kLargestFp16 = 65504.0F;
  return !is_bf16 && fabsf(nearest) > kLargestFp16 ? copysignf(__int_as_float(0x7f800000), nearest)
                                                   : nearest;
}

/// Overwrites an element of C with the pattern that marks what nobody wrote.
__device__ void poison(void* matrix, long long index, OutputType type) {
  if (type == OutputType::fp32) {
    static_cast<unsigned*>(matrix)[index] = 0xffffffffU;
  } else {
    static_cast<unsigned short*>(matrix)[index] = 0xffffU;
  }
}

/// Mixes all bits of a counter (the finaliser of SplitMix64, Steele et al. 2014).
__device__ unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__device__ double sum_over_lanes(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}

}  // namespace
}  // namespace swr::reference

/// expected = alpha * A * B + beta * C in fp32, [batch, m, n] contiguous. Grid: n / 16 times m /
/// 16, both rounded up, times batch, all along x, where no limit is met; block: 16 x 16.
extern "C" __global__ void swr_gemm_reference(const __grid_constant__ swr::GemmParams params,
                                              int dtype, int output, int layout, float* expected) {
  using namespace swr::reference;
  __shared__ float a_tile[kTile][kTile + 1];
  __shared__ float b_tile[kTile][kTile + 1];
  const auto type = static_cast<swr::DType>(dtype);
  const bool a_transposed = static_cast<swr::GemmLayout>(layout) == swr::GemmLayout::tn;
  const bool b_transposed = static_cast<swr::GemmLayout>(layout) == swr::GemmLayout::nt;
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int columns = (params.n + kTile - 1) / kTile;
  const int rows = (params.m + kTile - 1) / kTile;
  const int line = static_cast<int>(blockIdx.x) / columns;
  const int row = line % rows * kTile + y;
  const int column = static_cast<int>(blockIdx.x) % columns * kTile + x;
  const long long item = line / rows;
  float sum = 0.0F;
  for (int k = 0; k < params.k; k += kTile) {
    a_tile[y][x] = 0.0F;
    b_tile[y][x] = 0.0F;
    if (row < params.m && k + x < params.k) {
      const long long index =
          a_transposed ? (k + x) * params.a_strides.row + row : row * params.a_strides.row + k + x;
      a_tile[y][x] = input_element(params.a, item * params.a_strides.batch + index, type);
    }
    if (k + y < params.k && column < params.n) {
      const long long index = b_transposed ? column * params.b_strides.row + k + y
                                           : (k + y) * params.b_strides.row + column;
      b_tile[y][x] = input_element(params.b, item * params.b_strides.batch + index, type);
    }
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      sum = fmaf(a_tile[y][i], b_tile[i][x], sum);
    }
    __syncthreads();
  }
  if (row < params.m && column < params.n) {
    float result = params.alpha * sum;
    if (params.beta != 0.0F) {
      const long long index = item * params.c_strides.batch + row * params.c_strides.row + column;
      result += params.beta * output_element(params.c, index, static_cast<swr::OutputType>(output));
    }
    expected[(item * params.m + row) * params.n + column] = result;
  }
}

/// matrix: [batch, rows, columns] of 16-bit elements: 1 with a probability of one quarter, else 0.
extern "C" __global__ void swr_binary_fill(unsigned short* matrix,
                                           const __grid_constant__ swr::MatrixStrides strides,
                                           int batch, int rows, int columns, int dtype,
                                           unsigned long long seed) {
  const long long elements = static_cast<long long>(batch) * rows * columns;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  const unsigned short one = static_cast<swr::DType>(dtype) == swr::DType::bf16 ? 0x3f80U : 0x3c00U;
  const unsigned long long stream = swr::reference::mix(seed);
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += threads) {
    const long long column = i % columns;
    const long long row = i / columns % rows;
    const long long item = i / columns / rows;
    const unsigned long long bits =
        swr::reference::mix(stream + static_cast<unsigned long long>(i));
    matrix[item * strides.batch + row * strides.row + column] = (bits & 3U) == 0 ? one : 0;
  }
}

/// Compares C with `expected` and puts the poison back, so that swr_count_disturbed finds stray
/// writes afterwards.
extern "C" __global__ void swr_gemm_compare(const __grid_constant__ swr::GemmParams params,
                                            const float* expected, int output,
                                            swr::reference::GemmComparison* result) {
  using namespace swr::reference;
  const auto type = static_cast<swr::OutputType>(output);
  const long long elements = static_cast<long long>(params.batch) * params.m * params.n;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  double error_squared = 0.0;
  double expected_squared = 0.0;
  double different = 0.0;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += threads) {
    const long long column = i % params.n;
    const long long row = i / params.n % params.m;
    const long long item = i / params.n / params.m;
    const long long index = item * params.c_strides.batch + row * params.c_strides.row + column;
    const double found = static_cast<double>(output_element(params.c, index, type));
    const double wanted = static_cast<double>(expected[i]);
    poison(params.c, index, type);
    error_squared += (found - wanted) * (found - wanted);
    expected_squared += wanted * wanted;
    different += found == static_cast<double>(rounded(expected[i], type)) ? 0.0 : 1.0;
  }
  error_squared = sum_over_lanes(error_squared);
  expected_squared = sum_over_lanes(expected_squared);
  different = sum_over_lanes(different);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&result->error_squared, error_squared);
    atomicAdd(&result->expected_squared, expected_squared);
    atomicAdd(&result->different_elements, different);
  }
}
