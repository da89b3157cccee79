// SPDX-License-Identifier: MIT
// How the tensors of a measured problem lie in memory.
#pragma once

#include <swr/attention_params.h>

namespace swr {

/// Order of the dimensions in memory, outermost first.
enum class MemoryOrder {
  bhsd,  ///< [batch, head, sequence, head_dim]
  bshd,  ///< [batch, sequence, head, head_dim], as projections produce it
};

struct TensorShape {
  int batch = 1;
  int heads = 1;
  int seq = 1;
  int head_dim = 16;
};

struct TensorLayout {
  TensorStrides strides;
  /// Elements from the first to the last, gaps included.
  long long span_elements = 0;
};

/// Dense when alignment_bytes is 16. Otherwise rows lie alignment_bytes further apart than they
/// are long, so that no larger power of two divides the strides.
TensorLayout make_layout(const TensorShape& shape, int alignment_bytes, MemoryOrder order);

}  // namespace swr
