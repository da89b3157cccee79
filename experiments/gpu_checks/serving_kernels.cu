// SPDX-License-Identifier: MIT
// The kernels for unequal sequences that serving_check runs, part SWR_PART of them.
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

constexpr std::size_t kFirst = SWR_PART * kKernelsPerPart;
constexpr std::size_t kCount =
    kCheckedCount - kFirst < kKernelsPerPart ? kCheckedCount - kFirst : kKernelsPerPart;
static_assert(kFirst < kCheckedCount && kCheckedCount <= kParts * kKernelsPerPart);

template <std::size_t... I>
const void* entry(std::size_t index, std::index_sequence<I...> /*of part*/) {
  const void* const entries[] = {reinterpret_cast<const void*>(serving_kernel<kFirst + I>)...};
  return entries[index];
}

}  // namespace

template <>
const void* entry_in_part<SWR_PART>(std::size_t index) {
  return entry(index, std::make_index_sequence<kCount>());
}

}  // namespace swr::gpu
