// SPDX-License-Identifier: MIT
// Entry of the portable GEMM family. Grid: GemmSchedule::clusters(); block:
// PortableGemmConfig::threads(); dynamic shared memory: PortableGemmConfig::smem_bytes(). By hand:
//   nvcc -std=c++20 -arch=sm_80 -cubin
//        -Iinclude -Itemplates -Itemplates/default templates/gemm/portable/gemm.cu
#include "common/ptx.cuh"
#include "gemm/portable/kernel.cuh"
#include "selected_portable_gemm_config.h"
#include <swr/gemm_params.h>

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_gemm(const __grid_constant__ swr::GemmParams params,
             const __grid_constant__ swr::GemmExtras extras) {
  extern __shared__ __align__(128) char shared[];
  swr::portable::run<swr::kConfig>(params, extras, swr::ptx::shared_address(shared));
}
