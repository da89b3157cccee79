// SPDX-License-Identifier: MIT
// The sum of a vector: partial sums of blocks, then the sum of these by one block.

/// Of a block of a power of two of threads; right in its first thread.
template <int threads>
__device__ float sum_of_block(float sum) {
  __shared__ float shared[threads];
  shared[threadIdx.x] = sum;
  __syncthreads();
  constexpr int last = use_shuffle == 1 && threads >= 32 ? 32 : 1;
  for (int s = threads / 2; s >= last; s /= 2) {
    if (threadIdx.x < s) {
      shared[threadIdx.x] += shared[threadIdx.x + s];
    }
    __syncthreads();
  }
  sum = shared[threadIdx.x];
  if (last == 32) {
    for (int s = 16; s > 0; s /= 2) {
      sum += __shfl_down_sync(0xffffffff, sum, s);
    }
  }
  return sum;
}

__global__ void sum_floats(float* sums, const float* array, int n) {
  const int first = (blockIdx.x * block_size_x + threadIdx.x) * vector;
  const int step = num_blocks * block_size_x * vector;
  float sum = 0.0f;
  for (int i = first; i < n; i += step) {
    if constexpr (vector == 4) {
      const float4 four = *reinterpret_cast<const float4*>(array + i);
      sum += (four.x + four.y) + (four.z + four.w);
    } else if constexpr (vector == 2) {
      const float2 two = *reinterpret_cast<const float2*>(array + i);
      sum += two.x + two.y;
    } else {
      sum += array[i];
    }
  }
  sum = sum_of_block<block_size_x>(sum);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
  }
}

/// Of one block.
__global__ void sum_sums(float* result, const float* sums) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < num_blocks; i += second_block) {
    sum += sums[i];
  }
  sum = sum_of_block<second_block>(sum);
  if (threadIdx.x == 0) {
    *result = sum;
  }
}
