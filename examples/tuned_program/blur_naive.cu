// SPDX-License-Identifier: MIT
// The kernel as it was before it was tuned: what is right.
extern "C" __global__ void blur(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i > 0 && i < n - 1) {
    out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3;
  }
}
