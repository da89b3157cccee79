// SPDX-License-Identifier: MIT
#include "tuner/measure/power_meter.h"

#include "tuner/measure/kernel_timer.h"

#include <chrono>
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

}  // namespace swr
