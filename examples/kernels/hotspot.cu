// SPDX-License-Identifier: MIT
// Temperatures of a chip: explicit steps of a heat equation with sources. A CTA takes a tile with
// its halo and goes several steps before it writes (temporal tiling); what lies outside of the chip
// has the ambient temperature.
#define tile_width (block_size_x * tile_size_x + 2 * temporal_tiling_factor)
#define tile_height (block_size_y * tile_size_y + 2 * temporal_tiling_factor)

constexpr float ambient = 80.0f;
constexpr int launches = (max_tfactor + temporal_tiling_factor - 1) / temporal_tiling_factor;

#if blocks_per_sm > 0
#define bounds __launch_bounds__(block_size_x* block_size_y, blocks_per_sm)
#else
#define bounds __launch_bounds__(block_size_x* block_size_y)
#endif

// All launches together are max_tfactor steps; the last one writes `out`.
extern "C" __global__ void bounds hotspot(const float* power, const float* temp, float* spare,
                                          float* out, float rx, float ry, float rz, float step,
                                          int width, int height, int number) {
  __shared__ float cells[2][tile_height][tile_width];
#if sh_power == 1
  __shared__ float heat[tile_height][tile_width];
#endif
  const float* const from = number == 0 ? temp : (launches - number) % 2 == 0 ? out : spare;
  float* const to = (launches - number) % 2 == 0 ? spare : out;
  const int steps = min(temporal_tiling_factor, max_tfactor - number * temporal_tiling_factor);
  const int left = blockIdx.x * block_size_x * tile_size_x - temporal_tiling_factor;
  const int top = blockIdx.y * block_size_y * tile_size_y - temporal_tiling_factor;

  for (int j = threadIdx.y; j < tile_height; j += block_size_y) {
    for (int i = threadIdx.x; i < tile_width; i += block_size_x) {
      const int x = left + i;
      const int y = top + j;
      const bool is_inside = x >= 0 && x < width && y >= 0 && y < height;
      cells[0][j][i] = is_inside ? from[y * width + x] : ambient;
      cells[1][j][i] = ambient;
#if sh_power == 1
      heat[j][i] = is_inside ? power[y * width + x] : 0.0f;
#endif
    }
  }
  __syncthreads();

  int now = 0;
#pragma unroll loop_unroll_factor_t
  for (int t = 1; t <= temporal_tiling_factor; ++t) {
    if (t <= steps) {
      for (int j = threadIdx.y + t; j < tile_height - t; j += block_size_y) {
        for (int i = threadIdx.x + t; i < tile_width - t; i += block_size_x) {
          const int x = left + i;
          const int y = top + j;
          if (x >= 0 && x < width && y >= 0 && y < height) {
#if sh_power == 1
            const float source = heat[j][i];
#else
            const float source = power[y * width + x];
#endif
            const float cell = cells[now][j][i];
            cells[1 - now][j][i] =
                cell +
                step * (source + ry * (cells[now][j - 1][i] + cells[now][j + 1][i] - 2.0f * cell) +
                        rx * (cells[now][j][i - 1] + cells[now][j][i + 1] - 2.0f * cell) +
                        rz * (ambient - cell));
          }
        }
      }
      now = 1 - now;
      __syncthreads();
    }
  }

  for (int j = threadIdx.y; j < block_size_y * tile_size_y; j += block_size_y) {
    for (int i = threadIdx.x; i < block_size_x * tile_size_x; i += block_size_x) {
      const int x = left + temporal_tiling_factor + i;
      const int y = top + temporal_tiling_factor + j;
      if (x < width && y < height) {
        to[y * width + x] = cells[now][j + temporal_tiling_factor][i + temporal_tiling_factor];
      }
    }
  }
}
