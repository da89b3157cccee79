// SPDX-License-Identifier: MIT
// Entry of softmax. Grid: SoftmaxConfig::ctas(); block: SoftmaxConfig::threads(); dynamic shared
// memory: SoftmaxConfig::smem_bytes(). By hand:
//   nvcc -std=c++20 -arch=sm_80 -cubin
//        -Iinclude -Itemplates -Itemplates/default templates/softmax/softmax.cu
#include "common/ptx.cuh"
#include "selected_softmax_config.h"
#include "softmax/kernel.cuh"

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads())
    swr_softmax(const __grid_constant__ swr::SoftmaxParams params) {
  extern __shared__ __align__(16) char shared[];
  swr::softmax::run<swr::kConfig>(params, swr::ptx::shared_address(shared));
}
