// SPDX-License-Identifier: MIT
// Entries of the Hopper attention backward: a call launches some of them, in the order in which
// they stand here; all but the pass over K and V tiles are the portable family's. Grids, threads
// and dynamic shared memory: as operations/attention_backward/launch_plan.h says. Maps of q and
// d_o have the box HopperKeyPassConfig::row_box(), those of k and v key_box(), those of dk and dv
// gradient_box(). By hand:
//   nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a --use_fast_math -cubin -Iinclude \
//        -Itemplates -Itemplates/default templates/attention_backward/hopper/attention_backward.cu
#include "attention_backward/hopper/kernel.cuh"
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "common/ptx.cuh"
#include "selected_hopper_attention_backward_config.h"
#include <swr/attention_backward_params.h>
#include <swr/tensor_map.h>

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_attention_backward_query_pass(const __grid_constant__ swr::AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  swr::portable::query_pass_of<swr::kConfig>(params, swr::ptx::shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(swr::kConfig.key.around_threads(), 1)
    swr_attention_backward_prepare(const __grid_constant__ swr::AttentionBackwardParams params) {
  swr::portable::prepare_for<swr::kConfig>(params);
}

extern "C" __global__ void __launch_bounds__(swr::kConfig.key.threads(), 1)
    swr_attention_backward_key_pass(const __grid_constant__ swr::AttentionBackwardParams params,
                                    const __grid_constant__ swr::TensorMap q,
                                    const __grid_constant__ swr::TensorMap k,
                                    const __grid_constant__ swr::TensorMap v,
                                    const __grid_constant__ swr::TensorMap d_o,
                                    const __grid_constant__ swr::TensorMap dk,
                                    const __grid_constant__ swr::TensorMap dv) {
  extern __shared__ __align__(1024) char shared[];
  swr::hopper::run_key_pass<swr::kConfig.key>(params, {q, k, v, d_o, dk, dv},
                                              swr::ptx::shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(swr::kConfig.key.around_threads(), 1)
    swr_attention_backward_finish(const __grid_constant__ swr::AttentionBackwardParams params) {
  swr::portable::finish<swr::kConfig.key>(params);
}
