// SPDX-License-Identifier: MIT
// C = A^T B, an element a thread, in double.
__global__ void gemm_naive(int m, int n, int k, const float* a, const float* b, float* c) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int column = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < m && column < n) {
    double sum = 0.0;
    for (int kk = 0; kk < k; ++kk) {
      sum += static_cast<double>(a[kk * m + row]) * b[kk * n + column];
    }
    c[column * m + row] = static_cast<float>(sum);
  }
}
