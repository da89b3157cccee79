// SPDX-License-Identifier: MIT
// The one place where an attention kernel is launched: the tuner's measurements, the runtime and
// exported packages, which carry this very file, call these functions. What a kernel family needs
// beside AttentionParams (further parameters, clusters) is added here and to LaunchPlan.
#pragma once

#include "core/launch_plan.h"
#include <swr/attention_params.h>

#include <cuda.h>

namespace swr {

/// The driver's functions that a launch uses.
struct LaunchCalls {
  decltype(cuFuncSetAttribute)* function_set_attribute = nullptr;
  decltype(cuLaunchKernel)* launch_kernel = nullptr;
};

/// `find(name)` gives the address of a function of the driver.
template <typename Find>
LaunchCalls find_launch_calls(Find&& find) {
  LaunchCalls calls;
  calls.function_set_attribute =
      reinterpret_cast<decltype(cuFuncSetAttribute)*>(find("cuFuncSetAttribute"));
  calls.launch_kernel = reinterpret_cast<decltype(cuLaunchKernel)*>(find("cuLaunchKernel"));
  return calls;
}

/// Once for a loaded function, before its first launch.
inline CUresult prepare_attention(const LaunchCalls& calls, CUfunction function,
                                  const LaunchPlan& plan) {
  return calls.function_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      plan.dynamic_smem_bytes);
}

/// Enqueues one launch; section_heads of `params` is filled in here. Neither allocates nor
/// synchronises, so it may be captured in a graph.
/// Requires: the function's context is current and the function was prepared.
inline CUresult launch_attention(const LaunchCalls& calls, CUfunction function,
                                 const LaunchPlan& plan, AttentionParams params, CUstream stream) {
  const LaunchGeometry geometry =
      launch_geometry(plan, params.batch * params.heads_q, params.seq_q);
  params.section_heads = geometry.section_heads;
  void* arguments[] = {&params};
  return calls.launch_kernel(function, static_cast<unsigned>(geometry.grid_x), 1, 1,
                             static_cast<unsigned>(geometry.block_x), 1, 1,
                             static_cast<unsigned>(geometry.dynamic_smem_bytes), stream, arguments,
                             nullptr);
}

}  // namespace swr
