// SPDX-License-Identifier: MIT
// GEMM with tuned kernels that are part of this library. Needs nothing but the CUDA driver.
//
//   swr_package::Gemm gemm;
//   gemm.run({params, swr_package::DType::bf16, swr_package::OutputType::bf16,
//             swr_package::GemmLayout::nt}, stream);
#pragma once

#include "export/package/common.h"
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

#include <cstddef>
#include <memory>

namespace swr_package {

using swr::Accuracy;
using swr::Activation;
using swr::DType;
using swr::GemmExtras;
using swr::GemmGrouping;
using swr::GemmGroups;
using swr::GemmLayout;
using swr::GemmParams;
using swr::MatrixStrides;
using swr::OutputType;
using swr::Scaling;

/// C = alpha A B + beta C for each item of a batch, on device memory.
struct GemmCall {
  /// Pointers, strides, sizes, alpha and beta; what is chosen at launch is ignored, the kernel
  /// decides it. C is read when beta is not 0.
  GemmParams params;
  DType dtype = DType::bf16;  ///< Of A and B.
  OutputType output = OutputType::bf16;
  GemmLayout layout = GemmLayout::nt;
  Scaling scaling = Scaling::none;
  Accuracy accuracy = Accuracy::fast;
  Activation activation = Activation::none;
  bool gated = false;
  Scaling output_scaling = Scaling::none;
  GemmExtras extras;  ///< A bias that is not null is added.
  GemmGrouping grouping;
};

/// Device memory of the caller for a kernel that splits k or copies rows. Its contents do not
/// matter, before and after; launches that may overlap need their own.
struct Workspace {
  void* memory = nullptr;  ///< At a multiple of 16 bytes.
  std::size_t bytes = 0;
};

/// Any number of threads may use it at once. Kernels are loaded once per context, on first use.
/// Must be destroyed before the contexts that it was used in.
class Gemm {
 public:
  /// Throws: Error{no_driver}, also for one before CUDA 11.8, which cannot launch clusters.
  Gemm();
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Enqueues one product on `stream` of the current context. Does not synchronise, and may be
  /// captured in a graph. A kernel that splits k or copies rows takes memory of this object: a
  /// stream's first such launch allocates it, one that needs more than those before allocates
  /// again, and every captured launch gets its own. Throws: Error.
  void run(const GemmCall& call, CUstream_st* stream);

  /// The same in the caller's memory, without any allocation once the kernel is loaded; a few words
  /// of it are cleared on the stream before each launch.
  /// Throws: Error{invalid_argument} for less than workspace_bytes(call).
  void run(const GemmCall& call, const Workspace& workspace, CUstream_st* stream);

  /// Bytes of a workspace for this call; 0 when its kernel neither splits k nor copies rows. Loads
  /// the kernel. Throws: Error.
  std::size_t workspace_bytes(const GemmCall& call);

  /// Loads the kernel of a call and says which it is. Throws: Error.
  Choice prepare(const GemmCall& call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr_package
