// SPDX-License-Identifier: MIT
// Entry of the portable family for unequal sequences. Grid, block and dynamic shared memory:
// serving_launch() of operations/attention_serving/launch_plan.h. By hand:
//   nvcc -std=c++20 -arch=sm_90 --use_fast_math -cubin -Iinclude -Itemplates -Itemplates/default \
//        templates/attention_serving/portable/serving_attention.cu
#include "attention_serving/portable/kernel.cuh"
#include "selected_serving_attention_config.h"

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_serving_attention(const __grid_constant__ swr::ServingAttentionParams params) {
  extern __shared__ __align__(1024) char shared[];
  swr::serving::run<swr::kConfig>(params, swr::ptx::shared_address(shared));
}
