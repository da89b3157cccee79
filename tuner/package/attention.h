// SPDX-License-Identifier: MIT
// Attention with tuned kernels that are part of this library. Needs nothing but the CUDA driver.
//
//   swr_package::Attention attention;
//   attention.run({params, 128, swr_package::DType::fp16, true}, stream);
#pragma once

#include <swr/attention_params.h>
#include <swr/axes.h>

#include <memory>
#include <stdexcept>
#include <string>

// The driver's CUstream and the CUDA runtime's cudaStream_t are pointers to this.
struct CUstream_st;

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

enum class ErrorCode {
  invalid_argument,  ///< A value that no kernel can serve.
  no_driver,         ///< libcuda cannot be opened, or no context is current.
  no_kernel,         ///< No kernel of the package fits the problem and the device.
  damaged,           ///< A kernel's bytes are not those that were exported.
  driver_failed,     ///< A driver call failed.
};

/// what() says what failed, with which inputs, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// The kernel that serves a call.
struct Choice {
  std::string kernel;     ///< Its name in the manifest of the package.
  double distance = 0.0;  ///< From the shape it was tuned for, in octaves; 0 when it is that shape.
  bool on_same_device = false;  ///< It was tuned for this device.
  bool measured = false;        ///< Rather than predicted.
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
