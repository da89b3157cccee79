// SPDX-License-Identifier: MIT
// Leaves to chance what a kernel's time depends on beside the kernel: how its CTAs fall on the SMs
// and where its tensors lie (docs/measuring.md).
#pragma once

#include "driver/cuda_driver.h"
#include "operations/workload.h"

#include <memory>
#include <optional>
#include <random>

namespace swr {

/// The kernel that does so, for the current context.
struct PlacementKernels {
  /// Throws: Error{compile_failed}; DriverError.
  PlacementKernels(const Generator& generator, int sm_arch);

  Kernel shake_placement;
};

/// Enqueues launches that leave the GPU's distribution of CTAs in drawn states.
class PlacementShaker {
 public:
  PlacementShaker(const WorkloadTools& tools, unsigned long long seed)
      : kernel_(tools.kernels<PlacementKernels>().shake_placement),
        sm_count_(tools.sm_count),
        random_(seed) {}

  /// One launch; it touches no memory. Throws: DriverError.
  void shake(const Stream& stream);

 private:
  const Kernel& kernel_;
  int sm_count_;
  std::mt19937_64 random_;
};

/// A copy of a workload, behind a gap.
struct RaceMemory {
  DeviceBuffer gap;
  std::unique_ptr<Workload> workload;
};

/// Behind a gap of drawn size; empty where the memory does not suffice for both.
/// Throws: DriverError otherwise.
std::optional<RaceMemory> copy_elsewhere(Workload& original, std::mt19937_64& random);

}  // namespace swr
