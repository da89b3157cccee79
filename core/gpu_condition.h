// SPDX-License-Identifier: MIT
// What a GPU's clocks and NVML's reasons for them say of times taken under them.
#pragma once

#include <swr/result.h>

#include <optional>
#include <string>

namespace swr {

/// Why times taken in this condition cannot be trusted; empty when they can: the GPU throttles, or
/// its SM clock is under half of the highest and neither the power cap nor a person's setting
/// explains it, as a faulty power delivery leaves behind (GB10: 500 to 850 MHz, all else healthy).
/// The power cap itself is no such reason: matrix kernels run into it whenever the GPU is busy.
std::string degraded_because(const GpuCondition& condition,
                             std::optional<long long> highest_sm_clock_mhz);

/// An SM clock under load further below the expected one than matrix kernels bring it: times hold
/// for the GPU in this state, and are not those of the chip.
struct SlowClock {
  std::string because;
  std::string advice;
};

/// Empty where the clock is not so low or not known. Requires: the condition was read under load.
std::optional<SlowClock> slow_clock(const GpuCondition& condition, double expected_mhz);

}  // namespace swr
