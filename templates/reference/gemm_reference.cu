// SPDX-License-Identifier: MIT
// The reference that GEMM variants are checked against, the 0/1 inputs on which results are exact,
// and the comparison. It shares nothing with the tuned kernels but the parameter blocks: one thread
// per element of C, plain loops over k, no tensor cores. Sums of 16 products are added in fp64.
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

/// e5m2 is the upper half of an fp16; e4m3, moved to fp16's places, is too small by 2^8 and has one
/// pattern of NaN instead of infinities.
__device__ float decode_fp8(unsigned bits, DType dtype) {
  if (dtype == DType::e5m2) {
    return decode_fp16(bits << 8);
  }
  const float magnitude = (bits & 0x7fU) == 0x7fU ? __int_as_float(0x7fffffff)
                                                  : 256.0F * decode_fp16((bits & 0x7fU) << 7);
  return (bits & 0x80U) != 0 ? -magnitude : magnitude;
}

__device__ float input_element(const void* matrix, long long index, DType dtype) {
  return is_fp8(dtype)
             ? decode_fp8(static_cast<const unsigned char*>(matrix)[index], dtype)
             : decode(static_cast<const unsigned short*>(matrix)[index], dtype == DType::bf16);
}

__device__ float output_element(const void* matrix, long long index, OutputType type) {
  switch (type) {
    case OutputType::fp32:
      return static_cast<const float*>(matrix)[index];
    case OutputType::fp8:
      return decode_fp8(static_cast<const unsigned char*>(matrix)[index], DType::e4m3);
    default:
      return decode(static_cast<const unsigned short*>(matrix)[index], type == OutputType::bf16);
  }
}

/// The nearest value of C's type, ties to even; not of fp8.
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
  } else if (type == OutputType::fp8) {
    static_cast<unsigned char*>(matrix)[index] = 0xffU;
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

/// The scales of 128 elements of k with Scaling::block; 1 otherwise.
__device__ double block_scale(const GemmExtras& extras, const GemmReference& of, int row,
                              int column, int k) {
  if (of.scaling != Scaling::block) {
    return 1.0;
  }
  const long long block = k / kScaleBlock;
  return static_cast<double>(extras.a_scales[block * extras.a_scale_stride + row]) *
         extras.b_scales[column / kScaleBlock * extras.b_scale_stride + block];
}

/// Element (row, column) of alpha * scales * A * B + bias; every thread of the CTA calls it.
__device__ double product(const GemmParams& params, const GemmExtras& extras,
                          const GemmReference& of, long long item, int row, int column,
                          int columns) {
  __shared__ float a_tile[kTile][kTile + 1];
  __shared__ float b_tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const bool is_inside = row < params.m && column < columns;
  double sum = 0.0;
  for (int k = 0; k < params.k; k += kTile) {
    a_tile[y][x] = 0.0F;
    b_tile[y][x] = 0.0F;
    if (row < params.m && k + x < params.k) {
      const long long index = of.layout == GemmLayout::tn ? (k + x) * params.a_strides.row + row
                                                          : row * params.a_strides.row + k + x;
      a_tile[y][x] = input_element(params.a, item * params.a_strides.batch + index, of.dtype);
    }
    if (k + y < params.k && column < columns) {
      const long long index = of.layout == GemmLayout::nt ? column * params.b_strides.row + k + y
                                                          : (k + y) * params.b_strides.row + column;
      b_tile[y][x] = input_element(params.b, item * params.b_strides.batch + index, of.dtype);
    }
    __syncthreads();
    float part = 0.0F;
    for (int i = 0; i < kTile; ++i) {
      part = fmaf(a_tile[y][i], b_tile[i][x], part);
    }
    sum += is_inside ? part * block_scale(extras, of, row, column, k) : 0.0;
    __syncthreads();
  }
  if (!is_inside) {
    return 0.0;
  }
  sum *= params.alpha;
  if (of.scaling == Scaling::tensor || of.scaling == Scaling::row) {
    const bool is_row = of.scaling == Scaling::row;
    sum *= static_cast<double>(extras.a_scales[is_row ? row : 0]) *
           extras.b_scales[is_row ? column : 0];
  }
  const OutputType type = of.output == OutputType::fp8 ? OutputType::bf16 : of.output;
  return of.has_bias ? sum + output_element(extras.bias, column, type) : sum;
}

__device__ double activated(double x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1.0 + exp(-x));
    default:
      return x;
  }
}

}  // namespace
}  // namespace swr::reference

/// expected = C as GemmExtras says, before it is rounded, [batch, m, n] contiguous; with output
/// scales of blocks it is not scaled. Grid: n / 16 times m / 16, both
/// rounded up, times batch, all along x, where no limit is met; block: 16 x 16.
extern "C" __global__ void swr_gemm_reference(
    const __grid_constant__ swr::GemmParams params, const __grid_constant__ swr::GemmExtras extras,
    const __grid_constant__ swr::reference::GemmReference of, float* expected) {
  using namespace swr::reference;
  const int tile_columns = (params.n + kTile - 1) / kTile;
  const int tile_rows = (params.m + kTile - 1) / kTile;
  const int line = static_cast<int>(blockIdx.x) / tile_columns;
  const int row = line % tile_rows * kTile + static_cast<int>(threadIdx.y);
  const int column =
      static_cast<int>(blockIdx.x) % tile_columns * kTile + static_cast<int>(threadIdx.x);
  const long long item = line / tile_rows;
  const int columns = of.gated ? 2 * params.n : params.n;
  double value = activated(product(params, extras, of, item, row, column, columns), of.activation);
  if (of.gated) {
    value *= product(params, extras, of, item, row, params.n + column, columns);
  }
  if (row < params.m && column < params.n) {
    if (params.beta != 0.0F) {
      const long long index = item * params.c_strides.batch + row * params.c_strides.row + column;
      value += params.beta * output_element(params.c, index, of.output);
    }
    if (of.output_scaling == swr::Scaling::tensor) {
      value *= *extras.c_scales;
      constexpr double kLargest = 448.0;  // Of e4m3, which nothing exceeds; NaN stays.
      value = value > kLargest ? kLargest : value < -kLargest ? -kLargest : value;
    }
    expected[(item * params.m + row) * params.n + column] = static_cast<float>(value);
  }
}

/// matrix: [batch, rows, columns]: 1 with a probability of one quarter, else 0.
extern "C" __global__ void swr_binary_fill(void* matrix,
                                           const __grid_constant__ swr::MatrixStrides strides,
                                           int batch, int rows, int columns, int dtype,
                                           unsigned long long seed) {
  const long long elements = static_cast<long long>(batch) * rows * columns;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  constexpr unsigned short kOnes[] = {0x3c00U, 0x3f80U, 0x38U, 0x3cU};  // By DType.
  const unsigned short one = kOnes[dtype];
  const unsigned long long stream = swr::reference::mix(seed);
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += threads) {
    const long long column = i % columns;
    const long long row = i / columns % rows;
    const long long item = i / columns / rows;
    const unsigned long long bits =
        swr::reference::mix(stream + static_cast<unsigned long long>(i));
    const long long index = item * strides.batch + row * strides.row + column;
    const unsigned short value = (bits & 3U) == 0 ? one : 0;
    if (swr::is_fp8(static_cast<swr::DType>(dtype))) {
      static_cast<unsigned char*>(matrix)[index] = static_cast<unsigned char>(value);
    } else {
      static_cast<unsigned short*>(matrix)[index] = value;
    }
  }
}

/// Compares C with `expected` and puts the poison back, so that swr_count_disturbed finds stray
/// writes afterwards.
extern "C" __global__ void swr_gemm_compare(
    const __grid_constant__ swr::GemmParams params, const __grid_constant__ swr::GemmExtras extras,
    const __grid_constant__ swr::reference::GemmReference of, const float* expected,
    swr::reference::GemmComparison* result) {
  using namespace swr::reference;
  const swr::OutputType type = of.output;
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
    const double scale =
        of.output_scaling == swr::Scaling::block
            ? extras.c_scales[column / swr::kScaleBlock * extras.c_scale_stride + row]
            : 1.0;
    const double found = scale * static_cast<double>(output_element(params.c, index, type));
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
