// SPDX-License-Identifier: MIT
// C = A B of square matrices, an element of C a thread.
__global__ void matmul_naive(float* c, const float* a, const float* b, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < n && y < n) {
    double sum = 0.0;
    for (int k = 0; k < n; ++k) {
      sum += static_cast<double>(a[y * n + k]) * b[k * n + x];
    }
    c[y * n + x] = static_cast<float>(sum);
  }
}
