// SPDX-License-Identifier: MIT
// y1 = A x1 and y2 = A^T x2, a thread for each sum, in double.
extern "C" __global__ void bicg_naive(const float* a, const float* x1, const float* x2, float* y1,
                                      float* y2, int m, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    double sum = 0.0;
    for (int j = 0; j < m; ++j) {
      sum += 1.0 * a[1LL * i * m + j] * x1[j];
    }
    y1[i] = static_cast<float>(sum);
  }
  if (i < m) {
    double sum = 0.0;
    for (int j = 0; j < n; ++j) {
      sum += 1.0 * a[1LL * j * m + i] * x2[j];
    }
    y2[i] = static_cast<float>(sum);
  }
}
