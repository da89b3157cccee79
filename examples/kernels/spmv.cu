// SPDX-License-Identifier: MIT
// y = A x with A in compressed rows: a warp a row.
#if read_only == 1
#define read_input(place) __ldg(place)
#else
#define read_input(place) (*(place))
#endif

__global__ void spmv_kernel(float* y, const int* rows, const int* columns, const float* values,
                            const float* x, int row_count) {
  const int row = (blockIdx.x * block_size_x + threadIdx.x) / 32;
  if (row >= row_count) {
    return;
  }
  const int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int i = rows[row] + lane; i < rows[row + 1]; i += 32) {
    sum += values[i] * read_input(&x[columns[i]]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(0xffffffff, sum, offset);
  }
  if (lane == 0) {
    y[row] = sum;
  }
}

/// A thread a row.
__global__ void spmv_by_threads(float* y, const int* rows, const int* columns, const float* values,
                                const float* x, int row_count) {
  const int row = blockIdx.x * block_size_x + threadIdx.x;
  if (row < row_count) {
    float sum = 0.0f;
    for (int i = rows[row]; i < rows[row + 1]; ++i) {
      sum += values[i] * read_input(&x[columns[i]]);
    }
    y[row] = sum;
  }
}
