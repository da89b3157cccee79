// SPDX-License-Identifier: MIT
// The kernels of attention backward that backward_check runs, those of kBackwardKernels[SWR_PART].
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "experiments/gpu_checks/backward_kernels.h"

namespace swr::gpu {
namespace {

template <std::size_t I>
__global__ void __launch_bounds__(kBackwardKernels[I].key.threads(), 1)
    prepare(const __grid_constant__ AttentionBackwardParams params) {
  portable::prepare<kBackwardKernels[I].key>(params);
}
template <std::size_t I>
__global__ void __launch_bounds__(kBackwardKernels[I].key.threads(), 1)
    key_pass(const __grid_constant__ AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  portable::run_key_pass<kBackwardKernels[I].key>(params, ptx::shared_address(shared));
}
template <std::size_t I>
__global__ void __launch_bounds__(kBackwardKernels[I].key.threads(), 1)
    finish(const __grid_constant__ AttentionBackwardParams params) {
  portable::finish<kBackwardKernels[I].key>(params);
}
template <std::size_t I>
__global__ void __launch_bounds__(kBackwardKernels[I].query.threads(), 1)
    query_pass(const __grid_constant__ AttentionBackwardParams params) {
  extern __shared__ __align__(1024) char shared[];
  portable::run_query_pass<kBackwardKernels[I].query>(params, ptx::shared_address(shared));
}

const void* address(void (*kernel)(AttentionBackwardParams)) {
  return reinterpret_cast<const void*>(kernel);
}

template <std::size_t I>
BackwardEntries entries() {
  BackwardEntries all{nullptr, nullptr, address(key_pass<I>), address(finish<I>)};
  if constexpr (kBackwardKernels[I].key.sums_dq()) {
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
