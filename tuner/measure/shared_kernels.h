// SPDX-License-Identifier: MIT
// Loaded kernels that several variants launch.
#pragma once

#include "driver/cuda_driver.h"
#include <swr/kernel.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace swr {

/// Throws: DriverError when the cubin does not fit the device or lacks the entry.
inline std::shared_ptr<const Kernel> load_kernel(const CompiledKernel& compiled) {
  return std::make_shared<const Kernel>(compiled);
}

/// Loads a kernel once for the variants that share it: to load and unload modules is most of what a
/// variant asks of the driver beside its launches, and processes wait for each other in it.
class SharedKernels {
 public:
  using Load = std::function<std::shared_ptr<const Kernel>(const CompiledKernel&)>;

  explicit SharedKernels(Load load = load_kernel) : load_(std::move(load)) {}

  /// Loaded now, unless it is in use or was the latest. Throws: as load_kernel().
  std::shared_ptr<const Kernel> get(const CompiledKernel& compiled) {
    std::erase_if(in_use_, [](const auto& kernel) { return kernel.second.expired(); });
    const std::pair key(compiled.cubin_digest, compiled.entry);
    const auto found = in_use_.find(key);
    latest_ = found != in_use_.end() ? found->second.lock() : load_(compiled);
    in_use_[key] = latest_;
    return latest_;
  }

 private:
  Load load_;
  /// By digest of the cubin, and entry.
  std::map<std::pair<std::string, std::string>, std::weak_ptr<const Kernel>> in_use_;
  /// Variants of one kernel are evaluated one after the other.
  std::shared_ptr<const Kernel> latest_;
};

}  // namespace swr
