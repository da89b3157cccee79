// SPDX-License-Identifier: MIT
// The sum over all pairs, a thread for each point of the first set, then one for all.
extern "C" __global__ void expdist_rows(const double* a, const double* b, int m, int n,
                                        const double* scale_a, const double* scale_b,
                                        double* sums) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= m) {
    return;
  }
  double sum = 0.0;
  for (int j = 0; j < n; ++j) {
    const double x = a[i] - b[j];
    const double y = a[m + i] - b[n + j];
    sum += exp(-(x * x + y * y) / (scale_a[i] + scale_b[j]));
  }
  sums[i] = sum;
}

extern "C" __global__ void expdist_total(double* cost, const double* sums, int m) {
  double sum = 0.0;
  for (int i = 0; i < m; ++i) {
    sum += sums[i];
  }
  *cost = sum;
}
