// SPDX-License-Identifier: MIT
#include "tuner/measure/placement.h"

#include <cstddef>

namespace swr {

void PlacementShaker::shake(const Stream& stream) {
  // Fewer CTAs than SMs up to two waves of them, for each state that launches may leave.
  const auto most = static_cast<unsigned>(4 * sm_count_);
  kernel_.launch({.grid_x = 1 + static_cast<unsigned>(random_()) % most, .block_x = 1024}, stream,
                 static_cast<unsigned>(random_()));
}

std::unique_ptr<RaceMemory> copy_elsewhere(const ProblemBuffers& original,
                                           const ReferenceKernels& kernels, const Stream& stream,
                                           unsigned long long seed, std::mt19937_64& random) {
  constexpr std::size_t kStepBytes = std::size_t{64} << 10U;
  constexpr std::size_t kSteps = 512;
  try {
    return std::make_unique<RaceMemory>(
        RaceMemory{DeviceBuffer(kStepBytes * (1 + random() % kSteps)),
                   ProblemBuffers(original.problem(), kernels, stream, seed)});
  } catch (const DriverError& error) {
    if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) {
      throw;
    }
    return nullptr;
  }
}

}  // namespace swr
