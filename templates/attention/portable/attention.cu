// SPDX-License-Identifier: MIT
// Entry of the portable attention family. Grid: LaunchGeometry::grid_x CTAs; block: 32 * warps
// threads; dynamic shared memory: PortableAttentionConfig::smem_bytes(). With KvCopy::tma the
// argument is a MappedAttentionParams, else AttentionParams. By hand:
//   nvcc -std=c++20 -arch=sm_90 --use_fast_math -cubin -Iinclude -Itemplates -Itemplates/default \
//        templates/attention/portable/attention.cu
#include "attention/portable/kernel.cuh"
#include "selected_portable_attention_config.h"

extern "C" __global__ void __launch_bounds__(swr::kConfig.threads(), 1)
    swr_attention(const __grid_constant__ swr::portable::Arguments<swr::kConfig> arguments) {
  extern __shared__ __align__(1024) char shared[];
  swr::portable::run<swr::kConfig>(arguments, swr::ptx::shared_address(shared));
}
