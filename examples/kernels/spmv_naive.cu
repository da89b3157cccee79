// SPDX-License-Identifier: MIT
// y = A x with A in compressed rows, in double.
__global__ void spmv_naive(float* y, const int* rows, const int* columns, const float* values,
                           const float* x, int row_count) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < row_count) {
    double sum = 0.0;
    for (int i = rows[row]; i < rows[row + 1]; ++i) {
      sum += static_cast<double>(values[i]) * x[columns[i]];
    }
    y[row] = static_cast<float>(sum);
  }
}
