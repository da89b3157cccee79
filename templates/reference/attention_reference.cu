// SPDX-License-Identifier: MIT
// Entry of the fp32 reference of attention. Grid: cta_count(); block: kThreads; dynamic shared
// memory: kSmemBytes (launch_shape.h). By hand:
//   nvcc -std=c++20 -arch=sm_80 -cubin -Iinclude -Itemplates
//        templates/reference/attention_reference.cu
#include "reference/attention_reference.cuh"

// CTAs that the shared memory of an SM has room for: 227 KiB, or 163 and less.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
#define SWR_CTAS_PER_SM 2
#else
#define SWR_CTAS_PER_SM 1
#endif

/// dtype and causal are a DType and a bool as integers.
extern "C" __global__ void __launch_bounds__(swr::reference::kThreads, SWR_CTAS_PER_SM)
    swr_attention_reference(const __grid_constant__ swr::AttentionParams params, int dtype,
                            int causal, int head_dim) {
  extern __shared__ __align__(16) float smem[];
  swr::reference::attention({params, static_cast<swr::DType>(dtype), causal != 0, head_dim}, smem);
}
