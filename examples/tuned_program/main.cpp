// SPDX-License-Identifier: MIT
// Blurs a million numbers with the kernel that is built into this program.
#include <cuda_runtime.h>

#include <blur_kernels/blur.h>
#include <cstdio>
#include <exception>
#include <vector>

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("the kernel is built in; there is no GPU to run it on");
    return 0;
  }
  const int n = 1000000;
  const std::vector<float> numbers(n, 1.5F);
  std::vector<float> blurred(n);
  float* in = nullptr;
  float* out = nullptr;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpy(in, numbers.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  try {
    blur_kernels::Blur blur;
    blur.run({.n = n}, out, in, n, nullptr);
    const blur_kernels::Choice choice = blur.prepare({.n = n});
    cudaMemcpy(blurred.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("%s (%s): %g\n", choice.kernel.c_str(), choice.measured ? "tuned" : "default",
                blurred[n / 2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return blurred[n / 2] == 1.5F ? 0 : 1;
}
