// SPDX-License-Identifier: MIT
// The one parameter block every GEMM kernel takes, by value. Self-contained plain data: the kernels
// and the programs that launch them share this definition.
#pragma once

#include <swr/gemm_axes.h>

namespace swr {

/// Strides in elements; a row's elements are contiguous.
struct MatrixStrides {
  long long batch = 0;
  long long row = 0;
};

/// Arguments of C = alpha * A * B + beta * C for each item of the batch.
///
/// All matrices are row-major. C is [m, n]; A is [m, k], or [k, m] with GemmLayout::tn; B is [k,
/// n], or [n, k] with GemmLayout::nt. m, n, k and batch are at least 1. C is read only by kernels
/// built with reads_c; others require beta = 0. With alpha = 0 neither A nor B is read.
struct GemmParams {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  MatrixStrides a_strides;
  MatrixStrides b_strides;
  MatrixStrides c_strides;
  int m = 0;
  int n = 0;
  int k = 0;
  int batch = 1;
  float alpha = 1.0F;
  float beta = 0.0F;

  // The choices made at launch; common/gemm_schedule.h says what they mean.
  Raster raster = Raster::along_n;
  int raster_group = 1;    ///< At least 1.
  int swizzle_stride = 0;  ///< Elements of n; 0 is off.
  int splits = 1;          ///< Of k; more than 1 only for kernels built with split_k.

  /// For split_k: the partial sums, as many bytes as the configuration asks for, and one word per
  /// part of C that is summed on its own; the words are 0 when the kernel starts and it leaves them
  /// at 0. Launches that may overlap need their own.
  float* partials = nullptr;
  unsigned* arrivals = nullptr;
};

}  // namespace swr
