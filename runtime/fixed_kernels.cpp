// SPDX-License-Identifier: MIT
#include "runtime/fixed_kernels.h"

#include "driver/cuda_driver.h"

#include <utility>

namespace swr {

CUfunction LoadedFixedKernels::function(const char* file, const char* entry) {
  const std::lock_guard lock(mutex_);
  auto known = kernels_.find(entry);
  if (known == kernels_.end()) {
    const CompiledKernel compiled = source_.compile_fixed(file, entry, sm_arch_);
    const RelaxedCapture relaxed(cuda_driver().launch_calls);
    known = kernels_.emplace(entry, Kernel(compiled.cubin, entry)).first;
  }
  return known->second.handle();
}

}  // namespace swr
