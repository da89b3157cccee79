// SPDX-License-Identifier: MIT
// Softmax with tuned kernels that are part of this library. Needs nothing but the CUDA driver.
#pragma once

#include "export/package/common.h"
#include <swr/axes.h>

#include <memory>

namespace swr_package {

using swr::DType;

/// y[row, :] = softmax(x[row, :]) on device memory. Elements of a row are contiguous, strides are
/// in elements; y may be x.
struct SoftmaxCall {
  const void* x = nullptr;
  void* y = nullptr;
  long long x_stride = 0;
  long long y_stride = 0;
  int rows = 0;
  int columns = 0;
  DType dtype = DType::fp16;
};

/// Any number of threads may use it at once. Kernels are loaded once per context, on first use.
/// Must be destroyed before the contexts that it was used in.
class Softmax {
 public:
  /// Throws: Error{no_driver}.
  Softmax();
  ~Softmax();

  /// Enqueues one launch on `stream` of the current context. Does not synchronise, and may be
  /// captured in a graph. Throws: Error.
  void run(const SoftmaxCall& call, CUstream_st* stream);
  /// Loads the kernel of a call and says which it is. Throws: Error.
  Choice prepare(const SoftmaxCall& call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr_package
