// SPDX-License-Identifier: MIT
// The sum of two vectors: element type and block are template arguments.
template <typename T, int block_size_x>
__global__ void vector_add(T* c, const T* a, const T* b, int n) {
  const int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) {
    c[i] = a[i] + b[i];
  }
}

template <typename T>
__global__ void vector_add_naive(T* c, const T* a, const T* b, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    c[i] = a[i] + b[i];
  }
}
