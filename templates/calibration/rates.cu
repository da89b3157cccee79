// SPDX-License-Identifier: MIT
// Instruction rates of an SM: loops over registers that touch no memory until their end. Every
// kernel writes the clocks of its first CTA's loop.
#include "common/ptx.cuh"

namespace swr::calibration {

/// Independent chains per thread: enough to hide an instruction's own latency together with the
/// other warps of the SM.
constexpr int kChains = 8;

/// Keeps the compiler from dropping the loop: no sum has this pattern.
__device__ void keep(const float (&values)[kChains], float* sink) {
  float sum = 0.0F;
  for (const float value : values) {
    sum += value;
  }
  if (__float_as_uint(sum) == 0x7fedcba9U) {
    *sink = sum;
  }
}

__device__ void start(float (&values)[kChains]) {
  for (int i = 0; i < kChains; ++i) {
    values[i] = 0.001F * static_cast<float>(threadIdx.x * kChains + i);
  }
}

__device__ void report(long long started, long long* clocks) {
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *clocks = clock64() - started;
  }
}

}  // namespace swr::calibration

/// kChains FMA per thread and iteration.
extern "C" __global__ void swr_fma_rate(int iterations, float factor, long long* clocks,
                                        float* sink) {
  using namespace swr::calibration;
  float values[kChains];
  start(values);
  const long long started = clock64();
#pragma unroll 8
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (float& value : values) {
      value = fmaf(value, factor, 1.0F);
    }
  }
  report(started, clocks);
  keep(values, sink);
}

/// kChains ex2 per thread and iteration.
extern "C" __global__ void swr_exp2_rate(int iterations, long long* clocks, float* sink) {
  using namespace swr::calibration;
  float values[kChains];
  start(values);
  const long long started = clock64();
#pragma unroll 8
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (float& value : values) {
      value = swr::ptx::ex2_approx(-value);  // Stays within (0, 1].
    }
  }
  report(started, clocks);
  keep(values, sink);
}

/// kChains mma.sync m16n8k16 per warp and iteration. Operands differ from lane to lane, because the
/// power that zeros save raises the clock.
extern "C" __global__ void swr_mma_rate(int iterations, long long* clocks, float* sink) {
  using namespace swr::calibration;
  constexpr unsigned kOnes = 0x3c003c00U;  // Two fp16 of 1.0; low bits vary the mantissa.
  const unsigned lane_bits = threadIdx.x * 0x00350017U & 0x03ff03ffU;
  const unsigned a[4] = {kOnes ^ lane_bits, kOnes ^ lane_bits ^ 0x8000U,
                         kOnes ^ lane_bits ^ 0x80000000U, kOnes ^ lane_bits ^ 0x80008000U};
  const unsigned b = kOnes ^ (lane_bits >> 1 & 0x03ff03ffU);
  float sums[kChains][4] = {};
  const long long started = clock64();
#pragma unroll 8
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (auto& sum : sums) {
      swr::ptx::mma_m16n8k16<swr::DType::fp16>(sum, a, b, b ^ 0x80008000U);
    }
  }
  report(started, clocks);
  float values[kChains];
  for (int i = 0; i < kChains; ++i) {
    values[i] = sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  }
  keep(values, sink);
}
