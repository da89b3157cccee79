// SPDX-License-Identifier: MIT
// From the sums of a part of k, as tensor cores leave them, to the sums of all of k. Of both
// families.
#pragma once

#include "gemm/element.cuh"
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

namespace swr {

/// Adds parts to a thread's sums, each times its scale of A and of B with Scaling::block: scales
/// are loaded, then taken for the parts that are added until the next are.
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

  /// Loads the scales of A of 128 elements of k.
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
      const int last = ((C.gated ? 2 : 1) * params_.n - 1) / kScaleBlock;
#pragma unroll
      for (int i = 0; i < kScales; ++i) {
        const int first = product_column<C, Columns>(params_, column_, i / kPerSpan * kSpan);
        const int row = min_of(first / kScaleBlock + i % kPerSpan, last);
        // A byte offset of 32 bits costs one addition.
        const unsigned offset = 4U * (row * extras_.b_scale_stride + k_block);
        b_[i] = __ldg(reinterpret_cast<const float*>(
            reinterpret_cast<const char*>(extras_.b_scales) + offset));
      }
    }
  }

  __device__ __forceinline__ void take() {
    if constexpr (C.scaling == Scaling::block) {
#pragma unroll
      for (int i = 0; i < 2 * Blocks * kScales; ++i) {
        factors_[i] = a_[i / kScales] * b_[i % kScales];
      }
    }
  }

  __device__ __forceinline__ void promote(float* sums, const float* part, int block) const {
#pragma unroll
    for (int i = 0; i < Columns / 2; ++i) {
      if constexpr (C.scaling == Scaling::block) {
        sums[i] = fmaf(part[i], factor(2 * block + i % 4 / 2, i / 4 * 8), sums[i]);
      } else {
        sums[i] += part[i];
      }
    }
  }

 private:
  /// Columns that lie together in B, which scales 128 of them alike.
  static constexpr int kSpan = C.gated ? Columns / 2 : Columns;
  /// Columns that share a scale wherever the span begins: the largest power of two in kSpan.
  static constexpr int kPower = kSpan & -kSpan;
  static constexpr int kAlike = kPower < kScaleBlock ? kPower : kScaleBlock;
  /// Scales of a span at most, and of all columns.
  static constexpr int kPerSpan = ceil_div(kScaleBlock - kAlike + kSpan, kScaleBlock);
  static constexpr int kScales = kPerSpan * (Columns / kSpan);

  /// Of scale `i`, counted from the first row.
  __device__ __forceinline__ static int row_of(int i) { return BlockRows * (i / 2) + 8 * (i % 2); }

  /// By scale `row` of A and the scale of B of column `column`. Where a span begins in its first
  /// 128 columns decides between two scales at most.
  __device__ __forceinline__ float factor(int row, int column) const {
    const float* const factors = factors_ + row * kScales + column / kSpan * kPerSpan;
    const int begin = column % kSpan / kAlike * kAlike;
    const int first = begin / kScaleBlock;
    const int second = (begin + kScaleBlock - kAlike) / kScaleBlock;
    const bool is_first = column_ % kScaleBlock + begin < second * kScaleBlock;
    return first == second || is_first ? factors[first] : factors[second];
  }

  const GemmParams& params_;
  const GemmExtras& extras_;
  int row_;
  int column_;
  float a_[2 * Blocks];
  float b_[kScales];
  float factors_[2 * Blocks * kScales];
};

}  // namespace swr
