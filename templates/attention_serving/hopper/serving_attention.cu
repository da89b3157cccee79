// SPDX-License-Identifier: MIT
// Entry of the Hopper family for unequal sequences. Grid, block and dynamic shared memory:
// serving_launch() of operations/attention_serving/launch_plan.h; maps: tensor_maps.h there. By
// hand:
//   nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a --use_fast_math -cubin \
//        -Iinclude -Itemplates -Itemplates/default
//        templates/attention_serving/hopper/serving_attention.cu
#include "attention_serving/hopper/kernel.cuh"
#include "common/ptx.cuh"
#include "selected_hopper_serving_config.h"

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_serving_attention(const __grid_constant__ swr::ServingAttentionParams params,
                          const __grid_constant__ swr::TensorMap q,
                          const __grid_constant__ swr::TensorMap k,
                          const __grid_constant__ swr::TensorMap v,
                          const __grid_constant__ swr::TensorMap o,
                          const __grid_constant__ swr::ServingMapSteps steps) {
  extern __shared__ __align__(1024) char shared[];
  swr::serving::run<swr::kConfig>(params, {q, k, v, o, steps}, swr::ptx::shared_address(shared));
}
