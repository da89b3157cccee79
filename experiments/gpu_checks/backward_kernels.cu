// SPDX-License-Identifier: MIT
// The kernels of attention backward that backward_check runs, those of number SWR_PART.
#include "attention_backward/hopper/kernel.cuh"
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "experiments/gpu_checks/backward_kernels.h"

namespace swr::gpu {
namespace {

template <std::size_t I>
inline constexpr auto kKernels = backward_kernels_of<I>();

template <std::size_t I>
__global__ void __launch_bounds__(kKernels<I>.key.around_threads(), 1)
    prepare(const __grid_constant__ AttentionBackwardParams params) {
  portable::prepare<kKernels<I>.key>(params);
}
template <std::size_t I>
__global__ void __launch_bounds__(kKernels<I>.key.threads(), 1)
    key_pass(const __grid_constant__ AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  portable::run_key_pass<kKernels<I>.key>(params, ptx::shared_address(shared));
}
template <std::size_t I>
__global__ void __launch_bounds__(kKernels<I>.key.threads(), 1)
    hopper_key_pass(const __grid_constant__ AttentionBackwardParams params,
                    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                    const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap d_o,
                    const __grid_constant__ TensorMap dk, const __grid_constant__ TensorMap dv) {
  extern __shared__ __align__(1024) char shared[];
  hopper::run_key_pass<kKernels<I>.key>(params, {q, k, v, d_o, dk, dv},
                                        ptx::shared_address(shared));
}
template <std::size_t I>
__global__ void __launch_bounds__(kKernels<I>.key.around_threads(), 1)
    finish(const __grid_constant__ AttentionBackwardParams params) {
  portable::finish<kKernels<I>.key>(params);
}
template <std::size_t I>
__global__ void __launch_bounds__(kKernels<I>.query.threads(), 1)
    query_pass(const __grid_constant__ AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  portable::run_query_pass<kKernels<I>.query>(params, ptx::shared_address(shared));
}

template <typename... Arguments>
const void* address(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

template <std::size_t I>
BackwardEntries entries() {
  BackwardEntries all{nullptr, nullptr, nullptr, address(finish<I>)};
  if constexpr (I < kPortableCount) {
    all.key_pass = address(key_pass<I>);
  } else {
    all.key_pass = address(hopper_key_pass<I>);
  }
  if constexpr (kKernels<I>.key.sums_dq()) {
    all.prepare = address(prepare<I>);
  } else {
    all.query_pass = address(query_pass<I>);
  }
  return all;
}

}  // namespace

template <>
BackwardEntries backward_entries<SWR_PART>() {
  return entries<SWR_PART>();
}

}  // namespace swr::gpu
