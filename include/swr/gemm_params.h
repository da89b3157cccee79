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

  /// For kernels built with GemmGroups other than none, 32-bit numbers on the device that
  /// swr/gemm_axes.h describes: `batch` of them, or m with contiguous. m counts the rows of A and
  /// C, with masked those of one item. Kernels read them when launches before have ended.
  const int* groups = nullptr;
};

/// What a caller says of GemmParams::groups; only `form` decides what is computed, the rest which
/// kernel does.
struct GemmGrouping {
  GemmGroups form = GemmGroups::none;
  int expected_rows = 0;  ///< Of an item, on average; 0 stands for what m and batch allow.
  bool skewed = false;    ///< One item has about half of the rows, and many have none.
};

/// What a product takes beside A, B and C: a kernel reads the members that it was built for.
///
///   P = alpha * scales * A * B + bias
///   D = activation(P), or where the product is gated activation(P[:, :n]) * P[:, n:]
///   C = D + beta * addend, then scaled and rounded to its type
///
/// Pointers are multiples of 8 bytes; what is said of C's alignment holds for the addend, too.
struct GemmExtras {
  /// Of Scaling::tensor one value each; of row, m of A and one of each column of the product; of
  /// block, [k / 128][m] of A and [n / 128][k / 128] of B, sizes rounded up. Items of a grouped
  /// product follow one another, of A where each has a matrix of its own.
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  /// Of block: elements from one row of scales to the next; of A a multiple of 4, and its first
  /// scale lies at a multiple of 16 bytes.
  int a_scale_stride = 0;
  int b_scale_stride = 0;
  /// One value of each column of the product, of C's type, or bf16 where that is e4m3.
  const void* bias = nullptr;
  /// Read instead of C where beta is not 0, with C's strides; bf16 where C is e4m3.
  const void* addend = nullptr;
  /// Of a C of e4m3: by what it is multiplied (tensor), or where the scales go that a reader
  /// multiplies it by (block), [n / 128][m].
  float* c_scales = nullptr;
  int c_scale_stride = 0;
};

}  // namespace swr
