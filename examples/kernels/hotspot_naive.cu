// SPDX-License-Identifier: MIT
// One step of the heat equation a launch, a thread for each cell; ten launches.
extern "C" __global__ void hotspot_step(const float* power, const float* temp, float* spare,
                                        float* out, float rx, float ry, float rz, float step,
                                        int width, int height, int number) {
  const float* const from = number == 0 ? temp : number % 2 == 0 ? out : spare;
  float* const to = number % 2 == 0 ? spare : out;
  const int x = blockIdx.x * 16 + threadIdx.x;
  const int y = blockIdx.y * 16 + threadIdx.y;
  if (x >= width || y >= height) {
    return;
  }
  const auto at = [&](int column, int row) {
    return column >= 0 && column < width && row >= 0 && row < height ? from[row * width + column]
                                                                     : 80.0f;
  };
  const float cell = at(x, y);
  to[y * width + x] =
      cell + step * (power[y * width + x] + ry * (at(x, y - 1) + at(x, y + 1) - 2.0f * cell) +
                     rx * (at(x - 1, y) + at(x + 1, y) - 2.0f * cell) + rz * (80.0f - cell));
}
