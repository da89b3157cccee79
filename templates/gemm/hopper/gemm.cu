// SPDX-License-Identifier: MIT
// Entry of the Hopper GEMM family. Grid: GemmSchedule::clusters() times the CTAs of a cluster;
// block: HopperGemmConfig::threads(); dynamic shared memory: HopperGemmConfig::smem_bytes();
// clusters along x. The maps have the boxes a_box(), b_box() and c_box(). A launch with copies
// makes them and nothing else, in any grid, without dynamic shared memory. By hand:
//   nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a -cubin
//        -Iinclude -Itemplates -Itemplates/default templates/gemm/hopper/gemm.cu
#include "common/ptx.cuh"
#include "gemm/hopper/kernel.cuh"
#include "gemm/row_copies.h"
#include "selected_hopper_gemm_config.h"
#include <swr/gemm_params.h>
#include <swr/tensor_map.h>

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_gemm(const __grid_constant__ swr::GemmParams params,
             const __grid_constant__ swr::TensorMap a, const __grid_constant__ swr::TensorMap b,
             const __grid_constant__ swr::TensorMap c,
             const __grid_constant__ swr::LastGemmParameter<swr::kConfig.has_odd_rows()> last) {
  extern __shared__ __align__(1024) char shared[];
  swr::hopper::run_launch<swr::kConfig>(params, last, {a, b, c}, swr::ptx::shared_address(shared));
}
