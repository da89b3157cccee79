// SPDX-License-Identifier: MIT
// The same without a texture: four pixels, weighted by what lies between them, a pixel a thread.
__device__ float pixel(const float* image, int x, int y, int width, int height) {
  return x < 0 || y < 0 || x >= width || y >= height ? 0.0f : image[y * width + x];
}

__global__ void rotation_naive(unsigned char* out, const float* pixels, float scale, float angle,
                               int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) {
    return;
  }
  const float dx = x - 0.5f * width;
  const float dy = y - 0.5f * height;
  // Texels have their middle at 0.5.
  const float sx = (dx * cosf(angle) + dy * sinf(angle)) / scale + 0.5f * width - 0.5f;
  const float sy = (dy * cosf(angle) - dx * sinf(angle)) / scale + 0.5f * height - 0.5f;
  const int left = static_cast<int>(floorf(sx));
  const int top = static_cast<int>(floorf(sy));
  const float right_part = sx - left;
  const float lower_part = sy - top;
  const float upper = (1.0f - right_part) * pixel(pixels, left, top, width, height) +
                      right_part * pixel(pixels, left + 1, top, width, height);
  const float lower = (1.0f - right_part) * pixel(pixels, left, top + 1, width, height) +
                      right_part * pixel(pixels, left + 1, top + 1, width, height);
  out[y * width + x] =
      static_cast<unsigned char>((1.0f - lower_part) * upper + lower_part * lower + 0.5f);
}
