// SPDX-License-Identifier: MIT
// Rows of A and B that the copy engine cannot take, and where a launch copies them before it
// multiplies. Self-contained: host code plans copies, kernels make them.
#pragma once

#include <swr/annotations.h>
#include <swr/gemm_params.h>

namespace swr {

/// Rows of the strided batch of a matrix, to rows of whole lines one after another. The last chunk
/// of a row may bring bytes from behind it, which nobody reads.
struct RowCopy {
  static constexpr int kLineBytes = 128;
  static constexpr int kChunkBytes = 16;

  const char* from = nullptr;
  char* to = nullptr;
  long long item_stride = 0;  ///< Of `from`, in bytes.
  long long row_stride = 0;
  int items = 0;  ///< 0 where nothing is copied.
  int rows = 0;   ///< Of an item.
  int row_bytes = 0;

  SWR_HD constexpr long long all_rows() const { return static_cast<long long>(items) * rows; }
  /// Of `to`.
  SWR_HD constexpr int pitch() const {
    return (row_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  SWR_HD constexpr int chunks_per_row() const {
    return (row_bytes + kChunkBytes - 1) / kChunkBytes;
  }
  SWR_HD constexpr unsigned chunks() const {
    return static_cast<unsigned>(all_rows()) * static_cast<unsigned>(chunks_per_row());
  }
  SWR_HD constexpr long long bytes() const { return all_rows() * pitch(); }
  /// Behind the last byte that is copied.
  SWR_HD constexpr const char* end() const {
    return from + (items - 1) * item_stride + (rows - 1) * row_stride + row_bytes;
  }
};

/// Of one launch.
struct RowCopies {
  RowCopy a;
  RowCopy b;

  SWR_HD constexpr unsigned chunks() const { return a.chunks() + b.chunks(); }
  SWR_HD constexpr long long bytes() const { return a.bytes() + b.bytes(); }
};

/// The last parameter of a Hopper kernel. That of kernels for odd rows begins with the others'.
template <bool HasOddRows>
struct LastGemmParameter {
  GemmExtras extras;
};
template <>
struct LastGemmParameter<true> {
  GemmExtras extras;
  RowCopies copies;
};

}  // namespace swr
