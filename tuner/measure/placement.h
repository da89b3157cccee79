// SPDX-License-Identifier: MIT
// Leaves to chance what a kernel's time depends on beside the kernel: how its CTAs fall on the SMs
// and where its tensors lie (docs/measuring.md).
#pragma once

#include "driver/cuda_driver.h"
#include "operations/workload.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace swr {

/// The kernel that does so, for the current context.
struct PlacementKernels {
  /// Throws: Error{compile_failed}; DriverError.
  PlacementKernels(const Generator& generator, int sm_arch)
      : shake_placement(
            generator
                .compile_template("reference/shake_placement.cu", "swr_shake_placement", sm_arch)
                .cubin,
            "swr_shake_placement") {}

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
  void shake(const Stream& stream) {
    // Fewer CTAs than SMs up to two waves of them, for each state that launches may leave.
    const auto most = static_cast<unsigned>(4 * sm_count_);
    kernel_.launch({.grid_x = 1 + static_cast<unsigned>(random_()) % most, .block_x = 1024}, stream,
                   static_cast<unsigned>(random_()));
  }

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
inline std::optional<RaceMemory> copy_elsewhere(Workload& original, std::mt19937_64& random) {
  constexpr std::size_t kStepBytes = std::size_t{64} << 10U;
  constexpr std::size_t kSteps = 512;
  try {
    DeviceBuffer gap(kStepBytes * (1 + random() % kSteps));
    return RaceMemory{std::move(gap), original.copy()};
  } catch (const DriverError& error) {
    if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) {
      throw;
    }
    return std::nullopt;
  }
}

}  // namespace swr
