// SPDX-License-Identifier: MIT
#include "core/gpu_condition.h"

#include <array>
#include <cmath>
#include <string_view>

namespace swr {
namespace {

/// A bit of GpuCondition::throttle_reasons.
struct ClockReason {
  long long bit;
  std::string_view name;
  std::string_view advice;
};

constexpr long long kApplicationClocks = 0x2;
constexpr long long kPowerCap = 0x4;
constexpr long long kDisplayClocks = 0x100;

// NVML API reference guide, nvmlClocksEventReasons.
constexpr std::string_view kCool = "let it cool down, check fans and power supply";
constexpr std::array kDegrading{
    ClockReason{0x8, "hardware slowdown", kCool},
    ClockReason{0x20, "software thermal slowdown", kCool},
    ClockReason{0x40, "hardware thermal slowdown", kCool},
    ClockReason{0x80, "hardware power brake", "check the power supply"},
};
constexpr std::array kSlowing{
    ClockReason{kApplicationClocks, "clocks that a person set",
                "nvidia-smi --reset-gpu-clocks and --reset-applications-clocks take them back"},
    ClockReason{kPowerCap, "the power cap",
                "nvidia-smi -q -d POWER shows the limit, nvidia-smi -pl sets it"},
    ClockReason{0x10, "sync boost", "another GPU of its group holds it back"},
    ClockReason{kDisplayClocks, "the display's clocks", "measure on a GPU without a display"},
};
// What ended it on DGX Sparks (model-serving-minefield, trap 124).
constexpr ClockReason kUnstated{
    0, "no stated reason",
    "check the power supply; take the machine and its power brick off the mains for a minute"};

bool holds(const ClockReason& reason, long long bits) { return (bits & reason.bit) != 0; }

std::string degrading_reasons(long long bits) {
  std::string names;
  for (const ClockReason& reason : kDegrading) {
    if (holds(reason, bits)) {
      names += (names.empty() ? "" : ", ") + std::string(reason.name);
    }
  }
  return names;
}

const ClockReason& first_reason(long long bits) {
  for (const ClockReason& reason : kDegrading) {
    if (holds(reason, bits)) {
      return reason;
    }
  }
  for (const ClockReason& reason : kSlowing) {
    if (holds(reason, bits)) {
      return reason;
    }
  }
  return kUnstated;
}

}  // namespace

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
           std::to_string(*highest_sm_clock_mhz) + " MHz for no stated reason; " +
           std::string(kUnstated.advice);
  }
  return "";
}

std::optional<SlowClock> slow_clock(const GpuCondition& condition, double expected_mhz) {
  // Boards of one kind differ by a few percent. wgmma brings an H200 to 1 / 1.27 of the clock that
  // mma.sync runs at (docs/model.md), under the power cap.
  constexpr double kUsual = 0.92;
  constexpr double kUsualUnderPowerCap = 0.72;
  if (!condition.sm_clock_mhz) {
    return std::nullopt;
  }
  const ClockReason& reason = first_reason(condition.throttle_reasons.value_or(0));
  const double usual = reason.bit == kPowerCap ? kUsualUnderPowerCap : kUsual;
  if (static_cast<double>(*condition.sm_clock_mhz) >= usual * expected_mhz) {
    return std::nullopt;
  }
  return SlowClock{"the SMs run at " + std::to_string(*condition.sm_clock_mhz) +
                       " MHz under load where " + std::to_string(std::llround(expected_mhz)) +
                       " are expected (" + std::string(reason.name) + ")",
                   std::string(reason.advice)};
}

}  // namespace swr
