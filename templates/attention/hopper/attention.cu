// SPDX-License-Identifier: MIT
// Entry of the Hopper attention family. Grid: LaunchGeometry::grid_x CTAs; block:
// HopperAttentionConfig::threads(); dynamic shared memory: HopperAttentionConfig::smem_bytes().
// Maps of q and o have the box HopperAttentionConfig::q_box(), those of k and v kv_box(). By hand:
//   nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a --use_fast_math -cubin \
//        -Iinclude -Itemplates -Itemplates/default templates/attention/hopper/attention.cu
#include "attention/hopper/kernel.cuh"
#include "common/ptx.cuh"
#include "selected_hopper_attention_config.h"
#include <swr/attention_params.h>
#include <swr/tensor_map.h>

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_attention(const __grid_constant__ swr::AttentionParams params,
                  const __grid_constant__ swr::TensorMap q,
                  const __grid_constant__ swr::TensorMap k,
                  const __grid_constant__ swr::TensorMap v,
                  const __grid_constant__ swr::TensorMap o) {
  extern __shared__ __align__(1024) char shared[];
  swr::hopper::run<swr::kConfig>(params, {q, k, v, o}, swr::ptx::shared_address(shared));
}
