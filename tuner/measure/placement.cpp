// SPDX-License-Identifier: MIT
#include "tuner/measure/placement.h"

#include <cstddef>
#include <utility>

namespace swr {

PlacementKernels::PlacementKernels(const Generator& generator, int sm_arch)
    : shake_placement(
          generator.compile_template("reference/shake_placement.cu", "swr_shake_placement", sm_arch)
              .cubin,
          "swr_shake_placement") {}

void PlacementShaker::shake(const Stream& stream) {
  // Fewer CTAs than SMs up to two waves of them, for each state that launches may leave.
  const auto most = static_cast<unsigned>(4 * sm_count_);
  kernel_.launch({.grid_x = 1 + static_cast<unsigned>(random_()) % most, .block_x = 1024}, stream,
                 static_cast<unsigned>(random_()));
}

std::optional<RaceMemory> copy_elsewhere(Workload& original, std::mt19937_64& random) {
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
