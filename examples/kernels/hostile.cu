// SPDX-License-Identifier: MIT
// Adds two vectors, unless `fault` says otherwise: what a tuner must survive.
#if fault == 6
#error "this variant does not compile"
#endif

#if fault == 8
// More registers than a thread of 1024 has: the launch is refused.
#define bounds
#else
#define bounds __launch_bounds__(block_size_x)
#endif

#if fault == 7
// Instances within instances: no compiler ends in a time that a person waits.
template <int depth, int left>
struct Deep {
  static constexpr int value =
      Deep<depth - 1, left * 2>::value + Deep<depth - 1, left * 2 + 1>::value;
};
template <int left>
struct Deep<0, left> {
  static constexpr int value = left & 1;
};
constexpr int slow = Deep<24, 0>::value;
#endif

extern "C" __global__ void bounds hostile(float* c, const float* a, const float* b, int n) {
  const int i = blockIdx.x * block_size_x + threadIdx.x;
#if fault == 1
  if (i == 0) {
    *reinterpret_cast<volatile int*>(0x10) = 1;
  }
#elif fault == 2
  volatile const float* wait = c;
  while (*wait != 12345.0f) {
  }
#elif fault == 3
  __trap();
#elif fault == 4
  if (i == 0) {
    c[n] = 1.0f;
  }
#elif fault == 8
  float values[96];
#pragma unroll
  for (int k = 0; k < 96; ++k) {
    values[k] = a[(i + k) % n];
  }
  float sum = 0.0f;
  for (int round = 0; round < n % 7; ++round) {
#pragma unroll
    for (int k = 0; k < 96; ++k) {
      values[k] = values[k] * values[(k + 1) % 96] + sum;
      sum += values[k];
    }
  }
  if (sum == 12345.0f) {
    c[i % n] = sum;
  }
#endif
  if (i < n) {
    c[i] = a[i] + b[i] + (fault == 5 ? 1.0f : 0.0f);
  }
}
