// SPDX-License-Identifier: MIT
// C = A B of square matrices: tiles of A and B in shared memory, several elements of C a thread.
__global__ void matmul(float* c, const float* a, const float* b, int n) {
  constexpr int rows = block_size_y * tile_size_y;
  constexpr int columns = block_size_x * tile_size_x;
  __shared__ float a_tile[rows][block_size_x];
  __shared__ float b_tile[block_size_x][columns];
  const int x = blockIdx.x * columns + threadIdx.x;
  const int y = blockIdx.y * rows + threadIdx.y;
  float sum[tile_size_y][tile_size_x] = {};
  for (int k = 0; k < n; k += block_size_x) {
    __syncthreads();
    for (int i = 0; i < tile_size_y; ++i) {
      a_tile[threadIdx.y + i * block_size_y][threadIdx.x] =
          a[(y + i * block_size_y) * n + k + threadIdx.x];
    }
    for (int row = threadIdx.y; row < block_size_x; row += block_size_y) {
      for (int j = 0; j < tile_size_x; ++j) {
        b_tile[row][threadIdx.x + j * block_size_x] = b[(k + row) * n + x + j * block_size_x];
      }
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < block_size_x; ++kk) {
      for (int i = 0; i < tile_size_y; ++i) {
        const float left = a_tile[threadIdx.y + i * block_size_y][kk];
        for (int j = 0; j < tile_size_x; ++j) {
          sum[i][j] += left * b_tile[kk][threadIdx.x + j * block_size_x];
        }
      }
    }
  }
  for (int i = 0; i < tile_size_y; ++i) {
    for (int j = 0; j < tile_size_x; ++j) {
      c[(y + i * block_size_y) * n + x + j * block_size_x] = sum[i][j];
    }
  }
}
