// SPDX-License-Identifier: MIT
// What serving_check compares kernels with, compiled apart from them: without --use_fast_math,
// which makes zeros of subnormal numbers. To fp32 they are the fp16 values below 6.1e-5 on their
// way to fp64, and results below 1.2e-38.
#include "experiments/gpu_checks/sections.h"
#include "experiments/gpu_checks/serving_kernels.h"
#include "templates/reference/serving_attention_reference.cu"

#include <cuda_runtime.h>

#include <string>

#ifdef __USE_FAST_MATH__
#error "the reference keeps subnormal numbers: compile it without --use_fast_math"
#endif

namespace swr::gpu {

void launch_reference(const ServingAttentionConfig& config, const ServingAttentionParams& params,
                      double scale, double cap, float* o, double* lse) {
  const dim3 grid(static_cast<unsigned>(params.batch * params.max_seq_q),
                  static_cast<unsigned>(params.heads_q));
  swr_serving_attention_reference<<<grid, 128, 0, cudaStreamPerThread>>>(
      params, static_cast<int>(config.dtype), static_cast<int>(config.mask), config.head_dim,
      config.head_dim_v, scale, config.softcap == Softcap::none ? 0.0 : cap, o, lse);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    end_section(std::string("reference: ") + cudaGetErrorString(error));
  }
}

}  // namespace swr::gpu
