// SPDX-License-Identifier: MIT
#include "tuner/measure/throttling.h"

#include <array>

namespace swr {
namespace {

constexpr long long kApplicationClocks = 0x2;
constexpr long long kPowerCap = 0x4;
constexpr long long kDisplayClocks = 0x100;

// NVML API reference guide, nvmlClocksEventReasons.
constexpr std::array kReasons{
    ThrottleReason{0x1, "idle", false},
    ThrottleReason{kApplicationClocks, "application clocks", false},
    ThrottleReason{kPowerCap, "software power cap", false},
    ThrottleReason{0x8, "hardware slowdown", true},
    ThrottleReason{0x10, "sync boost", false},
    ThrottleReason{0x20, "software thermal slowdown", true},
    ThrottleReason{0x40, "hardware thermal slowdown", true},
    ThrottleReason{0x80, "hardware power brake", true},
    ThrottleReason{kDisplayClocks, "display clocks", false},
};

std::string degrading_reasons(long long bits) {
  std::string names;
  for (const ThrottleReason& reason : kReasons) {
    if (reason.degrades && (bits & reason.bit) != 0) {
      names += (names.empty() ? "" : ", ") + std::string(reason.name);
    }
  }
  return names;
}

}  // namespace

std::span<const ThrottleReason> throttle_reasons() { return kReasons; }

std::string degraded_because(const GpuCondition& condition,
                             std::optional<long long> highest_sm_clock_mhz) {
  const long long bits = condition.throttle_reasons.value_or(0);
  const std::string reasons = degrading_reasons(bits);
  if (!reasons.empty()) {
    return "the GPU throttles: " + reasons;
  }
  const bool explained = (bits & (kApplicationClocks | kPowerCap | kDisplayClocks)) != 0;
  if (!explained && condition.sm_clock_mhz && highest_sm_clock_mhz &&
      2 * *condition.sm_clock_mhz < *highest_sm_clock_mhz) {
    return "the SMs run at " + std::to_string(*condition.sm_clock_mhz) + " of " +
           std::to_string(*highest_sm_clock_mhz) +
           " MHz for no stated reason; check the power supply";
  }
  return "";
}

}  // namespace swr
