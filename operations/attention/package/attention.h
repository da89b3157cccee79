// SPDX-License-Identifier: MIT
// Attention with tuned kernels that are part of this library. Needs nothing but the CUDA driver.
//
//   swr_package::Attention attention;
//   attention.run({params, 128, swr_package::DType::fp16, true}, stream);
#pragma once

#include "export/package/common.h"
#include <swr/attention_params.h>
#include <swr/axes.h>

#include <memory>

namespace swr_package {

using swr::AttentionParams;
using swr::DType;
using swr::TensorStrides;

/// One forward pass on device memory.
struct Call {
  /// Pointers, strides, sizes and scale. A scale_log2 of 0 stands for log2(e) / sqrt(head_dim).
  AttentionParams params;
  int head_dim = 64;
  DType dtype = DType::fp16;
  bool causal = false;
};

/// Any number of threads may use it at once. Kernels are loaded once per context, on first use.
/// Must be destroyed before the contexts that it was used in.
class Attention {
 public:
  /// Throws: Error{no_driver}.
  Attention();
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// Enqueues one pass on `stream` of the current context. Does not synchronise, and may be
  /// captured in a graph. Throws: Error.
  void run(const Call& call, CUstream_st* stream);

  /// Loads the kernel of a call and says which it is. Throws: Error.
  Choice prepare(const Call& call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr_package
