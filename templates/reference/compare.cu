// SPDX-License-Identifier: MIT
// Compares a variant's output with the reference and finds stray writes.
//
// Output buffers are filled with 0xff bytes (NaN in every type) before the variant runs.
// swr_compare_output puts that poison back after reading an element, so that afterwards any word
// that is not poison, in the guards or in the gaps between strided rows, is a stray write.
#include "reference/comparison.h"
#include <swr/annotations.h>
#include <swr/attention_params.h>
#include <swr/axes.h>

namespace swr::reference {
namespace {

constexpr unsigned short kPoison = 0xffffU;

__device__ double decode_fp16(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31U);
  const double fraction = static_cast<double>(bits & 0x3ffU);
  double magnitude = exponent == 0 ? fraction * 0x1p-24 : ldexp(fraction + 1024.0, exponent - 25);
  if (exponent == 31) {
    magnitude = fraction == 0.0 ? __longlong_as_double(0x7ff0000000000000LL)
                                : __longlong_as_double(0x7ff8000000000000LL);
  }
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

__device__ double decode(unsigned bits, DType dtype) {
  return dtype == DType::bf16 ? static_cast<double>(__uint_as_float(bits << 16))
                              : decode_fp16(bits);
}

__device__ double sum_over_lanes(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}

/// Non-negative doubles and NaN order like their bit patterns, NaN last.
__device__ void atomic_max(double* target, double value) {
  atomicMax(reinterpret_cast<unsigned long long*>(target),
            static_cast<unsigned long long>(__double_as_longlong(fabs(value))));
}

__device__ double relative(double error_squared, double reference_squared) {
  return error_squared == 0.0 ? 0.0 : sqrt(error_squared / reference_squared);
}

}  // namespace
}  // namespace swr::reference

/// One warp per row of O. reference: fp32 [batch, heads_q, seq_q, head_dim] contiguous.
extern "C" __global__ void swr_compare_output(const __grid_constant__ swr::AttentionParams params,
                                              const float* reference, int dtype, int head_dim,
                                              swr::reference::Comparison* result) {
  using namespace swr::reference;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long warps = static_cast<long long>(gridDim.x) * blockDim.x / 32;
  const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const long long rows = static_cast<long long>(params.batch) * params.heads_q * params.seq_q;
  double total_error = 0.0;
  double total_reference = 0.0;
  for (long long index = first; index < rows; index += warps) {
    const long long row = index % params.seq_q;
    const long long head = index / params.seq_q % params.heads_q;
    const long long item = index / params.seq_q / params.heads_q;
    unsigned short* output = static_cast<unsigned short*>(params.o) +
                             item * params.o_strides.batch + head * params.o_strides.head +
                             row * params.o_strides.seq;
    double row_error = 0.0;
    double row_reference = 0.0;
    for (int column = lane; column < head_dim; column += 32) {
      const double expected = static_cast<double>(reference[index * head_dim + column]);
      const double difference = decode(output[column], static_cast<swr::DType>(dtype)) - expected;
      output[column] = kPoison;
      row_error += difference * difference;
      row_reference += expected * expected;
    }
    row_error = sum_over_lanes(row_error);
    row_reference = sum_over_lanes(row_reference);
    total_error += row_error;
    total_reference += row_reference;
    if (lane == 0) {
      atomic_max(&result->worst_row_error, relative(row_error, row_reference));
    }
  }
  if (lane == 0) {
    atomicAdd(&result->error_squared, total_error);
    atomicAdd(&result->reference_squared, total_reference);
  }
}

/// lse and reference: fp32 [rows]. Restores the poison like swr_compare_output.
extern "C" __global__ void swr_compare_lse(float* lse, const float* reference, long long rows,
                                           swr::reference::Comparison* result) {
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows;
       i += threads) {
    const double expected = static_cast<double>(reference[i]);
    const double found = static_cast<double>(lse[i]);
    lse[i] = __uint_as_float(0xffffffffU);
    // Equal infinities would give NaN.
    if (found != expected) {
      const double scale = fmax(1.0, isinf(expected) ? 1.0 : fabs(expected));
      swr::reference::atomic_max(&result->worst_lse_error, fabs(found - expected) / scale);
    }
  }
}

/// Counts 16-bit words that are not poison.
extern "C" __global__ void swr_count_disturbed(const unsigned short* words, long long count,
                                               swr::reference::Comparison* result) {
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long disturbed = 0;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    disturbed += words[i] != swr::reference::kPoison ? 1 : 0;
  }
  if (disturbed != 0) {
    atomicAdd(&result->disturbed_words, disturbed);
  }
}
