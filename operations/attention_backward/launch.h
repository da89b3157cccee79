// SPDX-License-Identifier: MIT
// The launches of one call of attention backward, for the tuner and for programs.
#pragma once

#include "driver/kernel_launch.h"
#include "operations/attention/attention_launch.h"
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

/// Requires: they are those of kBackwardKeyPass and of kBackwardFurther.
inline BackwardFunctions backward_functions(std::span<const CUfunction> functions) {
  return {functions[0], functions[1], functions[2], functions[3]};
}

/// Maps of the tensors that the pass over K and V tiles copies, where the plan has boxes.
struct BackwardTensorMaps {
  TensorMap q;
  TensorMap k;
  TensorMap v;
  TensorMap d_o;
  TensorMap dk;
  TensorMap dv;
};

inline CUresult encode_backward_maps(const LaunchCalls& calls, const AttentionBackwardPlan& plan,
                                     const AttentionBackwardParams& p, BackwardTensorMaps& maps) {
  struct Mapped {
    const TensorBox& box;
    MappedTensor tensor;
    TensorMap& map;
  };
  const int d = plan.head_dim;
  const int dv = plan.value_dim;
  const Mapped all[] = {
      {plan.row_box, {p.q, p.q_strides, p.batch, p.heads_q, p.seq_q, d}, maps.q},
      {plan.key_box, {p.k, p.k_strides, p.batch, p.heads_kv, p.seq_kv, d}, maps.k},
      {plan.key_box, {p.v, p.v_strides, p.batch, p.heads_kv, p.seq_kv, dv}, maps.v},
      {plan.row_box, {p.d_o, p.d_o_strides, p.batch, p.heads_q, p.seq_q, dv}, maps.d_o},
      {plan.gradient_box, {p.dk, p.dk_strides, p.batch, p.heads_kv, p.seq_kv, d}, maps.dk},
      {plan.gradient_box, {p.dv, p.dv_strides, p.batch, p.heads_kv, p.seq_kv, dv}, maps.dv}};
  for (const auto& [box, tensor, map] : all) {
    const CUresult result = encode_tensor_map(calls, plan.dtype, box, tensor, map);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

/// Enqueues the kernels of a call. The first starts when all before it has ended: it may use the
/// workspace that a call before still reads. Neither allocates nor synchronises.
inline CUresult launch_attention_backward(const LaunchCalls& calls,
                                          const BackwardFunctions& functions,
                                          const AttentionBackwardPlan& plan,
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
  BackwardTensorMaps maps{};
  if (plan.takes_tensor_maps()) {
    const CUresult encoded = encode_backward_maps(calls, plan, params, maps);
    if (encoded != CUDA_SUCCESS) {
      return encoded;
    }
  }
  // Kernels without maps take the first alone.
  void* arguments[] = {&params, &maps.q, &maps.k, &maps.v, &maps.d_o, &maps.dk, &maps.dv};
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
