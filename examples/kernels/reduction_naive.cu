// SPDX-License-Identifier: MIT
// The sum of a vector by one block, in double.
__global__ void sum_naive(float* result, const float* array, int n) {
  __shared__ double shared[1024];
  double sum = 0.0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += array[i];
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 512; s > 0; s /= 2) {
    if (threadIdx.x < s) {
      shared[threadIdx.x] += shared[threadIdx.x + s];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *result = static_cast<float>(shared[0]);
  }
}
