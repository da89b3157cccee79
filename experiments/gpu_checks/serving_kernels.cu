// SPDX-License-Identifier: MIT
// The kernels for unequal sequences that serving_check runs, part SWR_PART of them.
#include "attention_serving/hopper/kernel.cuh"
#include "attention_serving/portable/kernel.cuh"
#include "experiments/gpu_checks/serving_kernel_entries.h"
#include "experiments/gpu_checks/serving_kernels.h"

#include <utility>

namespace swr::gpu {
namespace {

/// By index: nvcc has no name for a configuration in a kernel's own template parameters.
template <std::size_t I>
__global__ void __launch_bounds__(kCheckedKernels[I].config.threads(), 1)
    serving_kernel(const __grid_constant__ ServingAttentionParams params) {
  extern __shared__ __align__(1024) char shared[];
  serving::run<kCheckedKernels[I].config>(params, ptx::shared_address(shared));
}

template <std::size_t I>
__global__ void __launch_bounds__(kCheckedKernels[I].threads(), 1)
    hopper_kernel(const __grid_constant__ ServingAttentionParams params,
                  const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                  const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap o,
                  const __grid_constant__ ServingMapSteps steps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char shared[];
  serving::run<kCheckedKernels[I].hopper()>(params, {q, k, v, o, steps},
                                            ptx::shared_address(shared));
#endif
}

template <std::size_t I>
const void* entry_of() {
  if constexpr (kCheckedKernels[I].is_hopper()) {
    return reinterpret_cast<const void*>(hopper_kernel<I>);
  } else {
    return reinterpret_cast<const void*>(serving_kernel<I>);
  }
}

constexpr std::size_t kFirst = SWR_PART * kKernelsPerPart;
constexpr std::size_t kCount =
    kCheckedCount - kFirst < kKernelsPerPart ? kCheckedCount - kFirst : kKernelsPerPart;
static_assert(kFirst < kCheckedCount && kCheckedCount <= kParts * kKernelsPerPart);

template <std::size_t... I>
const void* entry(std::size_t index, std::index_sequence<I...> /*of part*/) {
  const void* const entries[] = {entry_of<kFirst + I>()...};
  return entries[index];
}

}  // namespace

template <>
const void* entry_in_part<SWR_PART>(std::size_t index) {
  return entry(index, std::make_index_sequence<kCount>());
}

}  // namespace swr::gpu
