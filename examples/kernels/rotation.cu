// SPDX-License-Identifier: MIT
// An image rotated and scaled about its middle, read through a texture that interpolates and is
// black outside.
__global__ void rotation(unsigned char* out, cudaTextureObject_t image, float scale, float angle,
                         int width, int height) {
  const int x = (blockIdx.x * block_size_x + threadIdx.x) * tile_size_x;
  const int y = (blockIdx.y * block_size_y + threadIdx.y) * tile_size_y;
  const float cosine = cosf(angle) / scale;
  const float sine = sinf(angle) / scale;
#pragma unroll
  for (int row = 0; row < tile_size_y; ++row) {
    if (y + row >= height) {
      return;
    }
    const float dy = y + row - 0.5f * height;
#pragma unroll
    for (int column = 0; column < tile_size_x; column += vector) {
      unsigned char pixels[vector];
#pragma unroll
      for (int i = 0; i < vector; ++i) {
        const float dx = x + column + i - 0.5f * width;
        pixels[i] =
            static_cast<unsigned char>(tex2D<float>(image, dx * cosine + dy * sine + 0.5f * width,
                                                    dy * cosine - dx * sine + 0.5f * height) +
                                       0.5f);
      }
      unsigned char* const to = out + (y + row) * width + x + column;
      if (vector == 4 && x + column + 3 < width) {
        *reinterpret_cast<uchar4*>(to) =
            make_uchar4(pixels[0], pixels[1 % vector], pixels[2 % vector], pixels[3 % vector]);
      } else {
        for (int i = 0; i < vector && x + column + i < width; ++i) {
          to[i] = pixels[i];
        }
      }
    }
  }
}
