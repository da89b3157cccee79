// SPDX-License-Identifier: MIT
// Zeros for the results of calls that have nothing to compute from.
#pragma once

#include <swr/attention_params.h>

#include <cuda.h>

namespace swr {

/// A tensor [batch, heads, seq, columns] of 2-byte elements; any extent may be 0.
struct StridedTensor {
  void* address = nullptr;
  TensorStrides strides;
  int batch = 0;
  int heads = 0;
  int seq = 0;
  int columns = 0;
};

/// Enqueues zeros for every element, by as few calls of the driver as the strides allow; what lies
/// between elements is left as it is. Requires: the stream's context is current, and no two
/// elements share memory. Throws: Error{invalid_argument} for null; DriverError.
void zero(const StridedTensor& tensor, CUstream stream);

}  // namespace swr
