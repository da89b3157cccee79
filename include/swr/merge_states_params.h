// SPDX-License-Identifier: MIT
// The parameter block of the kernel that merges attention over different keys into attention over
// all of them. Self-contained plain data.
#pragma once

#include <swr/attention_params.h>

namespace swr {

/// Row r of head h over the keys of all parts: O = sum_i w_i O_i / sum_i w_i with w_i =
/// exp(lse_i - max lse), lse = log(sum_i exp(lse_i)) (Ye et al., "FlashInfer", section 2.2: the sum
/// of attention states). A part without keys, whose lse is -infinity, counts for nothing; with no
/// other O = 0 and lse = -infinity.
///
/// Strides in elements: `batch` is from part to part. The head dimension is contiguous.
struct MergeStatesParams {
  const void* parts = nullptr;      ///< [parts, heads, rows, head_dim]
  const float* part_lse = nullptr;  ///< [parts, heads, rows]
  void* o = nullptr;                ///< [heads, rows, head_dim]
  float* lse = nullptr;             ///< [heads, rows], or null when not wanted.
  TensorStrides part_strides;
  TensorStrides part_lse_strides;
  TensorStrides o_strides;
  TensorStrides lse_strides;
  int part_count = 0;
  int heads = 0;
  long long rows = 0;
  int head_dim = 0;  ///< A multiple of 8.
  /// What logarithms are multiplied with, in and out: ln(2) for natural ones, 1 for base 2.
  float lse_unit = 0.693147180559945F;
};

}  // namespace swr
