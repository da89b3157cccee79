// SPDX-License-Identifier: MIT
// What the closed forms of every operation (quick_choice.cpp) take of a GPU.
#pragma once

#include "core/architectures.h"
#include <swr/device.h>

#include <cmath>
#include <initializer_list>
#include <limits>

namespace swr {

inline constexpr double kElementBytes = 2.0;  ///< Of fp16 and bf16.
inline constexpr double kClocksPerUs = 1800.0;
/// What sums of splits take to memory and back.
inline constexpr double kPartialGbPerS = 4000.0;

/// How many octaves off a stored winner is as good as the closed forms' choice: they lose 3 % in
/// the mean on an H200, other shapes' winners as much from half an octave on
/// (experiments/right_answers). Of other architectures nobody has measured what they lose.
inline double trusted_octaves(const DeviceInfo& device) {
  return device.sm_arch == kHopperArch ? 0.5 : std::numeric_limits<double>::infinity();
}

/// Operations of mma.sync with fp32 sums, per SM and clock.
inline double mma_flop_per_clock(int sm_arch) {
  constexpr int kAmpere = 80;
  constexpr int kAda = 89;
  constexpr int kGeForceBlackwell = 120;
  if (sm_arch > kGeForceBlackwell) {
    return 1024.0;
  }
  if (sm_arch == kGeForceBlackwell || (sm_arch > kAmpere && sm_arch <= kAda)) {
    return 512.0;
  }
  return sm_arch <= kAmpere ? 2048.0 : 2730.0;
}

/// A little more than the longest of times that overlap: the fourth root of their fourth powers'
/// sum.
inline double smooth_max(std::initializer_list<double> times) {
  double sum = 0.0;
  for (const double time : times) {
    const double square = time * time;
    sum += square * square;
  }
  return std::sqrt(std::sqrt(sum));
}

/// Time that memory takes for so many bytes.
inline double dram_time_us(double bytes, const DeviceInfo& device) {
  constexpr double kShareReached = 0.9;
  constexpr double kUnknownGbPerS = 300.0;  // Where the driver reports no memory clock.
  const double gb_per_s = device.dram_gb_per_s > 0 ? device.dram_gb_per_s : kUnknownGbPerS;
  return bytes / (kShareReached * gb_per_s * 1e3);
}

}  // namespace swr
