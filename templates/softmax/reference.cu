// SPDX-License-Identifier: MIT
// Softmax in fp64, which variants are compared with, element by element. It shares nothing with the
// tuned kernel but the parameter block: a warp per row, plain loops.
#include "reference/gemm_comparison.h"
#include "softmax/config.h"

namespace swr::reference {
namespace {

__device__ double decoded(unsigned bits, DType dtype) {
  if (dtype == DType::bf16) {
    return static_cast<double>(__uint_as_float(bits << 16));
  }
  const int exponent = static_cast<int>(bits >> 10 & 31U);
  const double fraction = static_cast<double>(bits & 0x3ffU);
  const double magnitude =
      exponent == 31
          ? __longlong_as_double(fraction == 0.0 ? 0x7ff0000000000000LL : 0x7ff8000000000000LL)
      : exponent == 0 ? fraction * 0x1p-24
                      : ldexp(fraction + 1024.0, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

template <typename Combine>
__device__ double over_lanes(double value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

/// How far a right result may lie from the exact one: half a unit of its last place, a little more
/// for arithmetic in fp32, and what is too small for the type.
__device__ double allowance(double exact, DType dtype) {
  return dtype == DType::bf16 ? exact * 0x1p-8 * 1.02 + 0x1p-126
                              : exact * 0x1p-11 * 1.05 + 0x1p-25 * 1.05;
}

}  // namespace
}  // namespace swr::reference

/// Compares y with softmax(x) and puts poison (0xffff) in its place, so that swr_count_disturbed
/// finds stray writes afterwards. different_elements counts those beyond the allowance.
extern "C" __global__ void swr_softmax_compare(const __grid_constant__ swr::SoftmaxParams params,
                                               int dtype, swr::reference::GemmComparison* result) {
  using namespace swr::reference;
  const auto type = static_cast<swr::DType>(dtype);
  const auto add = [](double a, double b) { return a + b; };
  const auto larger = [](double a, double b) { return a > b ? a : b; };
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(gridDim.x * blockDim.x / 32);
  GemmComparison own;
  for (int row = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32); row < params.rows;
       row += warps) {
    const unsigned short* x = static_cast<const unsigned short*>(params.x) + row * params.x_stride;
    unsigned short* y = static_cast<unsigned short*>(params.y) + row * params.y_stride;
    double max = -1e300;
    for (int column = lane; column < params.columns; column += 32) {
      max = larger(max, decoded(x[column], type));
    }
    max = over_lanes(max, larger);
    double sum = 0.0;
    for (int column = lane; column < params.columns; column += 32) {
      sum += exp(decoded(x[column], type) - max);
    }
    sum = over_lanes(sum, add);
    for (int column = lane; column < params.columns; column += 32) {
      const double exact = exp(decoded(x[column], type) - max) / sum;
      const double error = decoded(y[column], type) - exact;
      y[column] = 0xffffU;
      own.error_squared += error * error;
      own.expected_squared += exact * exact;
      own.different_elements += fabs(error) <= allowance(exact, type) ? 0.0 : 1.0;
    }
  }
  own.error_squared = over_lanes(own.error_squared, add);
  own.expected_squared = over_lanes(own.expected_squared, add);
  own.different_elements = over_lanes(own.different_elements, add);
  if (lane == 0) {
    atomicAdd(&result->error_squared, own.error_squared);
    atomicAdd(&result->expected_squared, own.expected_squared);
    atomicAdd(&result->different_elements, own.different_elements);
  }
}
