// SPDX-License-Identifier: MIT
// Entries of the kernel that appends to the caches of K and V. Block: 256 threads; grid: any, made
// for append_ctas() of operations/attention_serving/launch_plan.h. By hand:
//   nvcc -std=c++20 -arch=sm_90 --use_fast_math -cubin -Iinclude -Itemplates \
//        templates/attention_serving/append/append_kv.cu
#include "attention_serving/append/append.cuh"

extern "C" __global__ void __launch_bounds__(swr::serving::kAppendThreads)
    swr_append_kv_fp16(const __grid_constant__ swr::KvAppendParams params) {
  swr::serving::append_rows<swr::DType::fp16>(params);
}
extern "C" __global__ void __launch_bounds__(swr::serving::kAppendThreads)
    swr_append_kv_bf16(const __grid_constant__ swr::KvAppendParams params) {
  swr::serving::append_rows<swr::DType::bf16>(params);
}
