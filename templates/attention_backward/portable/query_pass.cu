// SPDX-License-Identifier: MIT
// Entry of the pass over Q tiles of the portable attention backward. Grid, threads and dynamic
// shared memory: as core/attention_backward_plan.h says. By hand:
//   nvcc -std=c++20 -arch=sm_90 --use_fast_math -cubin -Iinclude -Itemplates -Itemplates/default \
//        templates/attention_backward/portable/query_pass.cu
#include "attention_backward/portable/query_pass.cuh"
#include "selected_query_pass_config.h"

extern "C" __global__ void __launch_bounds__(swr::kQueryPassConfig.threads(), 1)
    swr_attention_backward_query_pass(const __grid_constant__ swr::AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  swr::portable::run_query_pass<swr::kQueryPassConfig>(params, swr::ptx::shared_address(shared));
}
