// SPDX-License-Identifier: MIT
#include "operations/attention/tensor_layout.h"

namespace swr {

TensorLayout make_layout(const TensorShape& shape, int alignment_bytes, MemoryOrder order) {
  constexpr int kHalfBytes = 2;
  const int gap = alignment_bytes == 16 ? 0 : alignment_bytes / kHalfBytes;
  const long long row = shape.head_dim + gap;
  TensorLayout layout;
  TensorStrides& strides = layout.strides;
  if (order == MemoryOrder::bhsd) {
    strides = {.batch = row * shape.seq * shape.heads, .head = row * shape.seq, .seq = row};
  } else {
    strides = {.batch = row * shape.heads * shape.seq, .head = row, .seq = row * shape.heads};
  }
  layout.span_elements = (shape.batch - 1) * strides.batch + (shape.heads - 1) * strides.head +
                         (shape.seq - 1) * strides.seq + shape.head_dim;
  return layout;
}

}  // namespace swr
