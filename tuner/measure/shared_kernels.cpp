// SPDX-License-Identifier: MIT
#include "tuner/measure/shared_kernels.h"

namespace swr {

std::shared_ptr<const Kernel> load_kernel(const CompiledKernel& compiled) {
  return std::make_shared<const Kernel>(compiled);
}

std::shared_ptr<const Kernel> SharedKernels::get(const CompiledKernel& compiled) {
  std::erase_if(in_use_, [](const auto& kernel) { return kernel.second.expired(); });
  const std::pair key(compiled.cubin_digest, compiled.entry);
  const auto found = in_use_.find(key);
  latest_ = found != in_use_.end() ? found->second.lock() : load_(compiled);
  in_use_[key] = latest_;
  return latest_;
}

}  // namespace swr
