// SPDX-License-Identifier: MIT
// Entries of the portable attention backward that know the pass over K and V tiles: what comes
// before it, the pass, and what comes after. Grids, threads and dynamic shared memory: as
// core/attention_backward_plan.h says. By hand:
//   nvcc -std=c++20 -arch=sm_90 --use_fast_math -cubin -Iinclude -Itemplates -Itemplates/default \
//        templates/attention_backward/portable/key_pass.cu
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "selected_key_pass_config.h"

extern "C" __global__ void __launch_bounds__(swr::kKeyPassConfig.threads(), 1)
    swr_attention_backward_prepare(const __grid_constant__ swr::AttentionBackwardParams params) {
  swr::portable::prepare<swr::kKeyPassConfig>(params);
}

extern "C" __global__ void __launch_bounds__(swr::kKeyPassConfig.threads(), 1)
    swr_attention_backward_key_pass(const __grid_constant__ swr::AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  swr::portable::run_key_pass<swr::kKeyPassConfig>(params, swr::ptx::shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(swr::kKeyPassConfig.threads(), 1)
    swr_attention_backward_finish(const __grid_constant__ swr::AttentionBackwardParams params) {
  swr::portable::finish<swr::kKeyPassConfig>(params);
}
