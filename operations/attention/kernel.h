// SPDX-License-Identifier: MIT
// An attention kernel of a loaded cubin, ready to be launched.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/attention_launch.h"
#include <swr/generator.h>

#include <memory>

namespace swr {

class AttentionKernel {
 public:
  /// Throws: DriverError when the cubin does not fit the device or lacks the entry.
  AttentionKernel(const CompiledKernel& kernel, const AttentionLaunchPlan& plan);
  /// Of a kernel that others may launch too, in plans with as much shared memory.
  AttentionKernel(std::shared_ptr<const Kernel> kernel, const AttentionLaunchPlan& plan);

  /// Enqueues one launch, which overlaps the one before where the kernel may. Throws: DriverError.
  void launch(const AttentionParams& params, CUstream stream,
              LaunchOverlap overlap = LaunchOverlap::allowed) const;

 private:
  std::shared_ptr<const Kernel> kernel_;
  AttentionLaunchPlan plan_;
};

struct ReferenceKernels {
  /// Throws: Error{compile_failed}; DriverError.
  ReferenceKernels(const Generator& generator, int sm_arch);

  Kernel attention;
  Kernel random_fill;
  Kernel compare_output;
  Kernel compare_lse;
  Kernel count_disturbed;
};

}  // namespace swr
