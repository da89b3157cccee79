// SPDX-License-Identifier: MIT
// From the sums of a part of k, as tensor cores leave them, to the sums of all of k. Of both
// families.
#pragma once

#include "gemm/element.cuh"
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

namespace swr {

/// Adds parts to a thread's sums, each times its scale of A and of B with Scaling::block.
///
/// The sums are `Blocks` blocks of rows, `BlockRows` apart, of `Columns` columns: element
/// 4 j + 2 h + i of a block is column 8 j + i of its row half h, which is eight rows below.
template <auto C, int Blocks, int BlockRows, int Columns>
class PartScales {
 public:
  /// `row` and `column` are the first of C.
  __device__ __forceinline__ PartScales(const GemmParams& params, const GemmExtras& extras, int row,
                                        int column)
      : params_(params), extras_(extras), row_(row), column_(column) {}

  /// Loads the scales of A of 128 elements of k. They are used once products have been waited for.
  __device__ __forceinline__ void load_rows(int k_block) {
    if constexpr (C.scaling == Scaling::block) {
      const float* const of_rows =
          extras_.a_scales + static_cast<long long>(k_block) * extras_.a_scale_stride;
#pragma unroll
      for (int i = 0; i < 2 * Blocks; ++i) {
        a_[i] = __ldg(of_rows + min_of(row_ + row_of(i), params_.m - 1));
      }
    }
  }
  /// The same from shared memory, where that of the first row lies at `shared`.
  __device__ __forceinline__ void load_shared_rows(unsigned shared) {
    if constexpr (C.scaling == Scaling::block) {
#pragma unroll
      for (int i = 0; i < 2 * Blocks; ++i) {
        a_[i] = __uint_as_float(ptx::ld_shared_b32(shared + 4 * row_of(i)));
      }
    }
  }

  /// Loads the scales of B of 128 elements of k.
  __device__ __forceinline__ void load_columns(int k_block) {
    if constexpr (C.scaling == Scaling::block) {
#pragma unroll
      for (int i = 0; i < kSegments; ++i) {
        const int row = product_column<C, Columns>(params_, column_, i * kScaleColumns);
        // A byte offset of 32 bits costs one addition.
        const unsigned offset = 4U * (row / kScaleBlock * extras_.b_scale_stride + k_block);
        b_[i] = __ldg(reinterpret_cast<const float*>(
            reinterpret_cast<const char*>(extras_.b_scales) + offset));
      }
    }
  }

  __device__ __forceinline__ void promote(float* sums, const float* part, int block) const {
#pragma unroll
    for (int i = 0; i < Columns / 2; ++i) {
      if constexpr (C.scaling == Scaling::block) {
        const float scale = a_[2 * block + i % 4 / 2] * b_[i / 4 * 8 / kScaleColumns];
        sums[i] = fmaf(part[i], scale, sums[i]);
      } else {
        sums[i] += part[i];
      }
    }
  }

 private:
  static constexpr int kColumnsOfC = C.gated ? Columns / 2 : Columns;
  /// Columns that share a scale of B wherever they lie: the largest power of two in kColumnsOfC.
  static constexpr int kPower = kColumnsOfC & -kColumnsOfC;
  static constexpr int kScaleColumns = kPower < kScaleBlock ? kPower : kScaleBlock;
  static constexpr int kSegments = Columns / kScaleColumns;

  /// Of scale `i`, counted from the first row.
  __device__ __forceinline__ static int row_of(int i) { return BlockRows * (i / 2) + 8 * (i % 2); }

  const GemmParams& params_;
  const GemmExtras& extras_;
  int row_;
  int column_;
  float a_[2 * Blocks];
  float b_[kSegments];
};

}  // namespace swr
