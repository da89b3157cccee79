// SPDX-License-Identifier: MIT
// Two-dimensional convolution: tiles of several outputs a thread, the filter in constant memory,
// the input through shared memory (padded or not) or straight from global memory.
__constant__ float d_filter[filter_height * filter_width];

#if read_only == 1
#define read_input(place) __ldg(place)
#else
#define read_input(place) (*(place))
#endif

__global__ void convolution_kernel(float* output, const float* input) {
  constexpr int columns = block_size_x * tile_size_x;
  constexpr int rows = block_size_y * tile_size_y;
  const int x = blockIdx.x * columns;
  const int y = blockIdx.y * rows;
  const int input_width = image_width + filter_width - 1;
  const int input_height = image_height + filter_height - 1;

#if use_shmem == 1
  constexpr int shared_columns = columns + filter_width - 1 + use_padding;
  constexpr int shared_rows = rows + filter_height - 1;
  __shared__ float shared[shared_rows][shared_columns];
  for (int j = threadIdx.y; j < shared_rows; j += block_size_y) {
    for (int i = threadIdx.x; i < columns + filter_width - 1; i += block_size_x) {
      const bool is_inside = x + i < input_width && y + j < input_height;
      shared[j][i] = is_inside ? read_input(&input[(y + j) * input_width + x + i]) : 0.0f;
    }
  }
  __syncthreads();
#endif

  float sum[tile_size_y][tile_size_x] = {};
  for (int j = 0; j < filter_height; ++j) {
    for (int i = 0; i < filter_width; ++i) {
      const float weight = d_filter[j * filter_width + i];
#pragma unroll
      for (int ty = 0; ty < tile_size_y; ++ty) {
#pragma unroll
        for (int tx = 0; tx < tile_size_x; ++tx) {
          const int column = threadIdx.x + tx * block_size_x;
          const int row = threadIdx.y + ty * block_size_y;
#if use_shmem == 1
          sum[ty][tx] += weight * shared[row + j][column + i];
#else
          if (x + column < image_width && y + row < image_height) {
            sum[ty][tx] +=
                weight * read_input(&input[(y + row + j) * input_width + x + column + i]);
          }
#endif
        }
      }
    }
  }
  for (int ty = 0; ty < tile_size_y; ++ty) {
    for (int tx = 0; tx < tile_size_x; ++tx) {
      const int column = x + threadIdx.x + tx * block_size_x;
      const int row = y + threadIdx.y + ty * block_size_y;
      if (column < image_width && row < image_height) {
        output[row * image_width + column] = sum[ty][tx];
      }
    }
  }
}
