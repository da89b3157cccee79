// SPDX-License-Identifier: MIT
// Entries of the kernel that merges attention over different keys, by the types of the parts and of
// the output. Block: 256 threads; grid: any, made for merge_ctas() of
// operations/attention_serving/launch_plan.h. By hand:
//   nvcc -std=c++20 -arch=sm_90 -cubin -Iinclude -Itemplates \
//        templates/attention_serving/merge/merge_states.cu
#include "attention_serving/merge/merge.cuh"

using swr::OutputType;

extern "C" __global__ void __launch_bounds__(swr::serving::kMergeThreads)
    swr_merge_states_fp16(const __grid_constant__ swr::MergeStatesParams params) {
  swr::serving::merge_states<OutputType::fp16, OutputType::fp16>(params);
}
extern "C" __global__ void __launch_bounds__(swr::serving::kMergeThreads)
    swr_merge_states_bf16(const __grid_constant__ swr::MergeStatesParams params) {
  swr::serving::merge_states<OutputType::bf16, OutputType::bf16>(params);
}
extern "C" __global__ void __launch_bounds__(swr::serving::kMergeThreads)
    swr_merge_states_fp32(const __grid_constant__ swr::MergeStatesParams params) {
  swr::serving::merge_states<OutputType::fp32, OutputType::fp32>(params);
}
extern "C" __global__ void __launch_bounds__(swr::serving::kMergeThreads)
    swr_merge_states_fp32_to_fp16(const __grid_constant__ swr::MergeStatesParams params) {
  swr::serving::merge_states<OutputType::fp32, OutputType::fp16>(params);
}
extern "C" __global__ void __launch_bounds__(swr::serving::kMergeThreads)
    swr_merge_states_fp32_to_bf16(const __grid_constant__ swr::MergeStatesParams params) {
  swr::serving::merge_states<OutputType::fp32, OutputType::bf16>(params);
}
