// SPDX-License-Identifier: MIT
// Entry of the Hopper family for unequal sequences. Grid, block and dynamic shared memory:
// serving_launch() of operations/attention_serving/launch_plan.h; maps: tensor_maps.h there. By
// hand:
//   nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a --use_fast_math -cubin \
//        -Iinclude -Itemplates -Itemplates/default
//        templates/attention_serving/hopper/serving_attention.cu
#include "attention_serving/hopper/kernel.cuh"
#include "attention_serving/hopper/warpgroup_rows.cuh"
#include "common/ptx.cuh"
#include "selected_hopper_serving_config.h"

namespace swr::serving {

template <HopperServingConfig C>
__device__ __forceinline__ void run_either(const ServingAttentionParams& params,
                                           const HopperMaps& maps, unsigned shared) {
  run<C>(params, maps, shared);
}
/// Few rows, in parts of the keys: nothing comes by boxes.
template <ServingAttentionConfig C>
__device__ __forceinline__ void run_either(const ServingAttentionParams& params,
                                           const HopperMaps& /*maps*/, unsigned shared) {
  run<C>(params, shared);
}

}  // namespace swr::serving

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_serving_attention(const __grid_constant__ swr::ServingAttentionParams params,
                          const __grid_constant__ swr::TensorMap q,
                          const __grid_constant__ swr::TensorMap k,
                          const __grid_constant__ swr::TensorMap v,
                          const __grid_constant__ swr::TensorMap o,
                          const __grid_constant__ swr::ServingMapSteps steps) {
  extern __shared__ __align__(1024) char shared[];
  swr::serving::run_either<swr::kConfig>(params, {q, k, v, o, steps},
                                         swr::ptx::shared_address(shared));
}
