// SPDX-License-Identifier: MIT
// Entries of the portable attention backward: a call launches some of them, in the order in which
// they stand here. Grids, threads and dynamic shared memory: as
// operations/attention_backward/launch_plan.h says. What a variant does not launch is left empty.
// By hand:
//   nvcc -std=c++20 -arch=sm_90 --use_fast_math -cubin -Iinclude -Itemplates -Itemplates/default \
//        templates/attention_backward/portable/attention_backward.cu
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "selected_attention_backward_config.h"

extern "C" __global__ void __launch_bounds__(swr::kConfig.query.threads(), 1)
    swr_attention_backward_query_pass(const __grid_constant__ swr::AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  swr::portable::query_pass_of<swr::kConfig>(params, swr::ptx::shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(swr::kConfig.key.threads(), 1)
    swr_attention_backward_prepare(const __grid_constant__ swr::AttentionBackwardParams params) {
  swr::portable::prepare_for<swr::kConfig>(params);
}

extern "C" __global__ void __launch_bounds__(swr::kConfig.key.threads(), 1)
    swr_attention_backward_key_pass(const __grid_constant__ swr::AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  swr::portable::run_key_pass<swr::kConfig.key>(params, swr::ptx::shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(swr::kConfig.key.threads(), 1)
    swr_attention_backward_finish(const __grid_constant__ swr::AttentionBackwardParams params) {
  swr::portable::finish<swr::kConfig.key>(params);
}
