// SPDX-License-Identifier: MIT
// Leaves to chance what a kernel's time depends on beside the kernel: how its CTAs fall on the SMs
// and where its tensors lie (docs/measuring.md).
#pragma once

#include "tuner/driver/cuda_driver.h"
#include "tuner/measure/problem_buffers.h"
#include "tuner/measure/reference_kernels.h"

#include <memory>
#include <random>

namespace swr {

/// Enqueues launches that leave the GPU's distribution of CTAs in drawn states.
class PlacementShaker {
 public:
  PlacementShaker(const Kernel& kernel, int sm_count, unsigned long long seed)
      : kernel_(kernel), sm_count_(sm_count), random_(seed) {}

  /// One launch; it touches no memory. Throws: DriverError.
  void shake(const Stream& stream);

 private:
  const Kernel& kernel_;
  int sm_count_;
  std::mt19937_64 random_;
};

/// Tensors of a race, behind a gap.
struct RaceMemory {
  DeviceBuffer gap;
  ProblemBuffers buffers;
};

/// The same tensors as `original`, from the same seed, behind a gap of drawn size; nullptr where
/// the memory does not suffice for both. Throws: DriverError otherwise.
std::unique_ptr<RaceMemory> copy_elsewhere(const ProblemBuffers& original,
                                           const ReferenceKernels& kernels, const Stream& stream,
                                           unsigned long long seed, std::mt19937_64& random);

}  // namespace swr
