// SPDX-License-Identifier: MIT
// Two products with one matrix, as the BiCG method needs them: y1 = A x1 and y2 = A^T x2. A CTA
// reads a strip of TILE columns and ROWS_PROCESSED rows of A once for both. Sums meet by atomics,
// or are left side by side for the kernels that add them.
#define threads_y (TILE / BICG_BATCH)
#define lanes (TILE < 32 ? TILE : 32)
#define warp_mask (TILE * threads_y < 32 ? (1u << (TILE * threads_y % 32)) - 1 : 0xffffffffu)
// Sums of a row that a CTA leaves, and of a column.
#define row_sums (USE_SHARED_REDUCTION_1 == 1 ? 1 : TILE / lanes)
#define column_sums (USE_SHARED_REDUCTION_2 == 1 ? 1 : threads_y)

__device__ inline void leave(float* sums, int place, float value) {
#if ATOMICS == 1
  atomicAdd(&sums[place], value);
#else
  sums[place] = value;
#endif
}

extern "C" __global__ void bicg_clear(float* y1, float* y2, int m, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    y1[i] = 0.0f;
  }
  if (i < m) {
    y2[i] = 0.0f;
  }
}

// parts1 has n sums for each part of a row, parts2 m for each part of a column.
extern "C" __global__ void __launch_bounds__(TILE* threads_y)
    bicg_fused(const float* a, const float* x1, const float* x2, float* y1, float* y2,
               float* parts1, float* parts2, int m, int n) {
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int column = blockIdx.x * TILE + tx;
  const int first_row = blockIdx.y * ROWS_PROCESSED;
#if USE_SHARED_MATRIX == 1
  __shared__ float matrix[TILE][TILE + 1];
#endif
#if USE_SHARED_VECTOR_2 == 1
  __shared__ float shared_x2[TILE];
#endif
#if USE_SHARED_REDUCTION_1 == 1
  __shared__ float products[TILE][TILE + 1];
#endif
#if USE_SHARED_VECTOR_1 == 1
  __shared__ float shared_x1[TILE];
  if (ty == 0) {
    shared_x1[tx] = x1[column];
  }
  __syncthreads();
  const float mine = shared_x1[tx];
#else
  const float mine = x1[column];
#endif

  float sum2 = 0.0f;
  for (int row = first_row; row < first_row + ROWS_PROCESSED; row += TILE) {
    __syncthreads();
#if USE_SHARED_VECTOR_2 == 1
    if (ty == 0) {
      shared_x2[tx] = x2[row + tx];
    }
#endif
#if USE_SHARED_MATRIX == 1
    for (int j = ty; j < TILE; j += threads_y) {
      matrix[j][tx] = a[1LL * (row + j) * m + column];
    }
#endif
#if USE_SHARED_MATRIX == 1 || USE_SHARED_VECTOR_2 == 1
    __syncthreads();
#endif
#if UNROLL_BICG_STEP == 1
#pragma unroll
#else
#pragma unroll 1
#endif
    for (int batch = 0; batch < BICG_BATCH; ++batch) {
      const int j = ty + batch * threads_y;
#if USE_SHARED_MATRIX == 1
      const float element = matrix[j][tx];
#else
      const float element = a[1LL * (row + j) * m + column];
#endif
#if USE_SHARED_VECTOR_2 == 1
      sum2 += element * shared_x2[j];
#else
      sum2 += element * x2[row + j];
#endif
#if USE_SHARED_REDUCTION_1 == 1
      products[j][tx] = element * mine;
#else
      float sum1 = element * mine;
      for (int other = lanes / 2; other > 0; other /= 2) {
        sum1 += __shfl_xor_sync(warp_mask, sum1, other, lanes);
      }
      if (tx % lanes == 0) {
#if ATOMICS == 1
        leave(y1, row + j, sum1);
#else
        leave(parts1, (blockIdx.x * row_sums + tx / lanes) * n + row + j, sum1);
#endif
      }
#endif
    }
#if USE_SHARED_REDUCTION_1 == 1
    __syncthreads();
    if (ty == 0) {
      float sum1 = 0.0f;
      for (int i = 0; i < TILE; ++i) {
        sum1 += products[tx][i];
      }
#if ATOMICS == 1
      leave(y1, row + tx, sum1);
#else
      leave(parts1, blockIdx.x * n + row + tx, sum1);
#endif
    }
#endif
  }

#if USE_SHARED_REDUCTION_2 == 1
  __shared__ float sums[threads_y][TILE];
  sums[ty][tx] = sum2;
  __syncthreads();
  if (ty == 0) {
    for (int j = 1; j < threads_y; ++j) {
      sum2 += sums[j][tx];
    }
  }
  if (ty > 0) {
    return;
  }
#endif
#if ATOMICS == 1
  leave(y2, column, sum2);
#else
  leave(parts2, (blockIdx.y * column_sums + (USE_SHARED_REDUCTION_2 == 1 ? 0 : ty)) * m + column,
        sum2);
#endif
}

__device__ inline void add_parts(const float* parts, float* sums, int count, int length) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < length) {
    float sum = 0.0f;
    for (int part = 0; part < count; ++part) {
      sum += parts[part * length + i];
    }
    sums[i] = sum;
  }
}
extern "C" __global__ void bicg_rows(const float* parts1, float* y1, int m, int n) {
  add_parts(parts1, y1, m / TILE * row_sums, n);
}
extern "C" __global__ void bicg_columns(const float* parts2, float* y2, int m, int n) {
  add_parts(parts2, y2, n / ROWS_PROCESSED * column_sums, m);
}
