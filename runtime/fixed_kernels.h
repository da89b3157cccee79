// SPDX-License-Identifier: MIT
// The kernels of one context that are neither looked up nor tuned.
#pragma once

#include "driver/ready_launch.h"
#include "runtime/kernel_source.h"
#include <swr/kernel.h>

#include <map>
#include <mutex>
#include <string>

namespace swr {

class LoadedFixedKernels final : public FixedKernels {
 public:
  /// The source must outlive it, and the context must be current in every call.
  LoadedFixedKernels(KernelSource& source, int sm_arch) : source_(source), sm_arch_(sm_arch) {}

  /// Safe while a stream is being captured.
  CUfunction function(const char* file, const char* entry) override;

 private:
  KernelSource& source_;
  int sm_arch_;
  std::mutex mutex_;
  std::map<std::string, Kernel> kernels_;  ///< By entry.
};

}  // namespace swr
