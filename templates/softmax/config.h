// SPDX-License-Identifier: MIT
// Everything of a softmax kernel that is fixed when it is compiled, and the parameters of a launch.
// Host code (constraints, launch) and the kernel derive every size from here.
#pragma once

#include <swr/annotations.h>
#include <swr/axes.h>

namespace swr {

/// y[row, :] = softmax(x[row, :]). 16-bit elements, those of a row contiguous; strides in elements.
/// y may be x. Rows without a finite largest element become NaN.
struct SoftmaxParams {
  const void* x = nullptr;
  void* y = nullptr;
  long long x_stride = 0;
  long long y_stride = 0;
  int rows = 0;
  int columns = 0;
};

/// threads_per_row threads compute a row. They keep `held` vectors of it each in registers; with
/// none they read the row twice: for its maximum and sum (Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018), and to write it.
struct SoftmaxConfig {
  DType dtype;
  int tile_rows;        ///< Rows of a CTA at a time.
  int threads_per_row;  ///< A multiple of 32.
  int vector;           ///< Elements of an access: 1, 2, 4 or 8; it divides addresses and strides.
  int held;
  int stages;   ///< Vectors of a thread in flight by cp.async, with vector 8; 1: loads.
  Order order;  ///< sawtooth: the second reading starts where the first one ended.
  Persistence persistence;

  SWR_HD constexpr int threads() const { return tile_rows * threads_per_row; }
  SWR_HD constexpr int warps_per_row() const { return threads_per_row / 32; }
  SWR_HD constexpr int ring_bytes() const { return stages > 1 ? stages * threads() * 16 : 0; }
  /// The ring, then maximum and sum of each warp.
  SWR_HD constexpr int smem_bytes() const {
    return ring_bytes() + (warps_per_row() > 1 ? threads() / 32 * 8 : 0);
  }

  /// Vectors of a row that a thread reads.
  SWR_HD constexpr int steps(int columns) const {
    return (columns + threads_per_row * vector - 1) / (threads_per_row * vector);
  }
  SWR_HD constexpr bool holds(int columns) const { return held == 0 || steps(columns) <= held; }
  SWR_HD constexpr int tiles(int rows) const { return (rows - 1) / tile_rows + 1; }
  /// Of a launch for what has rows, where so many CTAs are resident.
  template <typename Sized>
  SWR_HD constexpr int ctas(const Sized& sized, int places) const {
    const int all = tiles(sized.rows);
    return persistence == Persistence::persistent && places < all ? places : all;
  }
};

}  // namespace swr
