// SPDX-License-Identifier: MIT
#include "tuner/measure/power_meter.h"

#include "tuner/measure/kernel_timer.h"

#include <array>
#include <chrono>
#include <optional>
#include <thread>

namespace swr {
namespace {

/// The counter right after a step.
struct Step {
  double at_s = 0.0;
  long long total_mj = 0;
};

}  // namespace

void settle(const PowerSource& source, double settle_s, const std::function<void()>& keep_busy) {
  for (const double begin_s = source.now_s(); source.now_s() - begin_s < settle_s;) {
    keep_busy();
    source.wait();
  }
}

std::optional<double> mean_power_w(const PowerSource& source, const PowerWindow& window,
                                   const std::function<void()>& keep_busy) {
  constexpr double kMillijoulesPerJoule = 1e3;
  const double begin_s = source.now_s();
  std::optional<Step> first;
  std::optional<long long> last_mj;
  while (source.now_s() - begin_s < window.most_s) {
    keep_busy();
    source.wait();
    const auto total_mj = source.total_mj();
    if (!total_mj) {
      return std::nullopt;
    }
    const Step now{source.now_s(), *total_mj};
    const bool stepped = last_mj && *last_mj != now.total_mj;
    last_mj = now.total_mj;
    if (!stepped) {
      continue;
    }
    if (!first) {
      first = now;
    } else if (now.at_s - first->at_s >= window.least_s) {
      return static_cast<double>(now.total_mj - first->total_mj) / kMillijoulesPerJoule /
             (now.at_s - first->at_s);
    }
  }
  return std::nullopt;
}

namespace {

PowerReading as_reading(std::optional<double> power_w, double launch_us) {
  return {power_w, launch_us,
          power_w ? "" : "the counter of energy did not move while it was watched"};
}

}  // namespace

PowerSource power_source(const GpuMonitor& monitor) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kMoment(300);  // Steps are 20 to 100 ms apart.
  return {.total_mj = [&monitor] { return monitor.total_energy_mj(); },
          .now_s =
              [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); },
          .wait = [kMoment] { std::this_thread::sleep_for(kMoment); }};
}

PowerReading idle_power(const GpuMonitor& monitor) {
  return as_reading(mean_power_w(power_source(monitor), {}, [] {}), 0.0);
}

PowerReading power_of_launches(const GpuMonitor& monitor, const Stream& stream,
                               const std::function<void()>& launch, double launch_us) {
  constexpr double kSettleS = 0.15;
  const PowerSource source = power_source(monitor);
  SustainedLaunches launches(stream, launch, launch_us);
  const auto keep_busy = [&launches] { launches.keep_busy(); };
  settle(source, kSettleS, keep_busy);
  launches.begin_timing();
  const auto power_w = mean_power_w(source, {}, keep_busy);
  return as_reading(power_w, launches.finish_us());
}

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
