// SPDX-License-Identifier: MIT
// The launches of one call of attention backward, for the tuner and for programs.
#pragma once

#include "driver/kernel_launch.h"
#include "operations/attention_backward/launch_plan.h"

#include <cuda.h>

#include <array>
#include <span>
#include <string_view>

namespace swr {

/// Entries of a compiled variant as CompiledKernel has them: the first, and those further.
inline constexpr std::string_view kBackwardKeyPass = "swr_attention_backward_key_pass";
inline constexpr std::array<std::string_view, 3> kBackwardFurther{
    "swr_attention_backward_query_pass", "swr_attention_backward_prepare",
    "swr_attention_backward_finish"};

/// The same, loaded.
struct BackwardFunctions {
  CUfunction key_pass = nullptr;
  CUfunction query_pass = nullptr;
  CUfunction prepare = nullptr;
  CUfunction finish = nullptr;
};

/// Requires: `further` are kBackwardFurther.
inline BackwardFunctions backward_functions(CUfunction entry, std::span<const CUfunction> further) {
  return {entry, further[0], further[1], further[2]};
}

/// Enqueues the kernels of a call. The first starts when all before it has ended: it may use the
/// workspace that a call before still reads. Neither allocates nor synchronises.
inline CUresult launch_attention_backward(const LaunchCalls& calls,
                                          const BackwardFunctions& functions,
                                          const AttentionBackwardGeometry& geometry,
                                          AttentionBackwardParams params, LaunchOverlap overlap,
                                          CUstream stream) {
  struct Step {
    CUfunction function;
    const KernelLaunch& launch;
    LaunchOverlap overlap;
  };
  const Step steps[] = {{functions.query_pass, geometry.query_pass, LaunchOverlap::none},
                        {functions.prepare, geometry.prepare, LaunchOverlap::none},
                        {functions.key_pass, geometry.key_pass, overlap},
                        {functions.finish, geometry.finish, overlap}};
  void* arguments[] = {&params};
  for (const Step& step : steps) {
    if (step.launch.grid_x == 0) {
      continue;
    }
    const CtaGrid grid{.ctas = step.launch.grid_x,
                       .threads = step.launch.block_x,
                       .dynamic_smem_bytes = step.launch.dynamic_smem_bytes};
    const CUresult result =
        launch_grid(calls, step.function, grid, step.overlap, stream, arguments);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace swr
