// SPDX-License-Identifier: MIT
// How alike two sets of points with uncertainties are: the sum over all pairs of
// exp(-distance^2 / (scale_a + scale_b)), in double. CTAs leave sums that a second kernel adds.
#include <cub/block/block_reduce.cuh>

extern "C" __global__ void expdist(const double* a, const double* b, int m, int n,
                                   const double* scale_a, const double* scale_b, double* sums) {
  constexpr int columns = block_size_x * tile_size_x;
  constexpr int rows = block_size_y * tile_size_y;
  const int first_i = blockIdx.x * columns;
  const int first_j = blockIdx.y * rows;
  using Reduce =
      cub::BlockReduce<double, block_size_x, cub::BLOCK_REDUCE_WARP_REDUCTIONS, block_size_y>;
  __shared__ typename Reduce::TempStorage storage;
#if use_shared_mem == 1
  // Coordinates, then the scale.
  __shared__ double shared_a[3][columns];
  __shared__ double shared_b[3][rows];
  const int thread = threadIdx.y * block_size_x + threadIdx.x;
  for (int k = thread; k < columns; k += block_size_x * block_size_y) {
    const int i = min(first_i + k, m - 1);
    shared_a[0][k] = a[i];
    shared_a[1][k] = a[m + i];
    shared_a[2][k] = scale_a[i];
  }
  for (int k = thread; k < rows; k += block_size_x * block_size_y) {
    const int j = min(first_j + k, n - 1);
    shared_b[0][k] = b[j];
    shared_b[1][k] = b[n + j];
    shared_b[2][k] = scale_b[j];
  }
  __syncthreads();
#endif
  double sum = 0.0;
#pragma unroll
  for (int ti = 0; ti < tile_size_x; ++ti) {
#pragma unroll
    for (int tj = 0; tj < tile_size_y; ++tj) {
      const int column = threadIdx.x + ti * block_size_x;
      const int row = threadIdx.y + tj * block_size_y;
      const int i = first_i + column;
      const int j = first_j + row;
      if (i < m && j < n) {
#if use_shared_mem == 1
        const double x = shared_a[0][column] - shared_b[0][row];
        const double y = shared_a[1][column] - shared_b[1][row];
        const double scale = shared_a[2][column] + shared_b[2][row];
#else
        const double x = a[i] - b[j];
        const double y = a[m + i] - b[n + j];
        const double scale = scale_a[i] + scale_b[j];
#endif
        sum += exp(-(x * x + y * y) / scale);
      }
    }
  }
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    sums[blockIdx.y * gridDim.x + blockIdx.x] = sum;
  }
}

extern "C" __global__ void add_sums(double* cost, const double* sums, int count) {
  using Reduce = cub::BlockReduce<double, block_size_x>;
  __shared__ typename Reduce::TempStorage storage;
  double sum = 0.0;
  for (int i = threadIdx.x; i < count; i += block_size_x) {
    sum += sums[i];
  }
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) {
    *cost = sum;
  }
}
