// SPDX-License-Identifier: MIT
// Dedispersion of radio signals: for each dispersion measure the sum over channels of samples that
// are shifted by the delay of the channel.
__constant__ float shifts[nr_channels];

__global__ void dedispersion_kernel(const unsigned char* input_samples, float* output) {
  constexpr float dm_first = 0.0f;
  constexpr float dm_step = 0.02f;
  // Outputs of a thread lie side by side, or a block's width apart.
  constexpr int step_x = tile_stride_x == 0 ? 1 : block_size_x;
  constexpr int step_y = tile_stride_y == 0 ? 1 : block_size_y;
  const int first_x = blockIdx.x * block_size_x * tile_size_x +
                      threadIdx.x * (tile_stride_x == 0 ? tile_size_x : 1);
  const int first_y = blockIdx.y * block_size_y * tile_size_y +
                      threadIdx.y * (tile_stride_y == 0 ? tile_size_y : 1);
  float sum[tile_size_y][tile_size_x] = {};
#pragma unroll loop_unroll_factor_channel
  for (int channel = 0; channel < nr_channels; ++channel) {
    for (int j = 0; j < tile_size_y; ++j) {
      const float dm = dm_first + (first_y + j * step_y) * dm_step;
      const int shift = static_cast<int>(dm * shifts[channel]);
      for (int i = 0; i < tile_size_x; ++i) {
        const int sample = first_x + i * step_x;
        if (sample < nr_samples && first_y + j * step_y < nr_dms) {
          sum[j][i] += input_samples[channel * nr_samples_per_channel + sample + shift];
        }
      }
    }
  }
  for (int j = 0; j < tile_size_y; ++j) {
    for (int i = 0; i < tile_size_x; ++i) {
      const int sample = first_x + i * step_x;
      const int dm = first_y + j * step_y;
      if (sample < nr_samples && dm < nr_dms) {
        output[dm * nr_samples + sample] = sum[j][i];
      }
    }
  }
}
