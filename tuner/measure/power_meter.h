// SPDX-License-Identifier: MIT
// Mean power over a window, from a counter of energy that moves in steps (docs/energy.md).
#pragma once

#include "core/gpu_condition.h"
#include "driver/cuda_driver.h"
#include "driver/nvml.h"
#include "tuner/evaluator.h"
#include <swr/result.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace swr {

/// What measuring power needs of the world.
struct PowerSource {
  /// Millijoule that the GPU has taken since some moment; empty where that is not counted.
  std::function<std::optional<long long>()> total_mj;
  std::function<double()> now_s;
  /// Lets a moment pass that is short against a step of the counter.
  std::function<void()> wait;
};

struct PowerWindow {
  double least_s = 0.5;  ///< From step to step of the counter.
  double most_s = 3.0;   ///< In which that must come to an end.
};

/// Keeps the GPU busy until clocks and power have taken their level.
void settle(const PowerSource& source, double settle_s, const std::function<void()>& keep_busy);

/// Watt between two steps of the counter, so that when it steps does not matter. `keep_busy` is
/// called again and again, and gives the GPU work without waiting for it. Empty where the counter
/// is missing or does not move. Throws: what `keep_busy` throws.
std::optional<double> mean_power_w(const PowerSource& source, const PowerWindow& window,
                                   const std::function<void()>& keep_busy);

/// The counter of energy of a GPU and this machine's clock.
PowerSource power_source(const GpuMonitor& monitor);

/// Requires: the GPU counts energy, and has nothing to do.
PowerReading idle_power(const GpuMonitor& monitor);

/// Takes about a second. `launch` enqueues one launch on the stream, which takes `launch_us`,
/// roughly. Throws: what `launch` throws; DriverError. Requires: the GPU counts energy.
PowerReading power_of_launches(const GpuMonitor& monitor, const Stream& stream,
                               const std::function<void()>& launch, double launch_us);

// Sampling that is repeated where the condition of the GPU makes its times worthless.

/// What sampling under watch needs of the world.
struct Watch {
  std::function<GpuCondition()> read;
  std::optional<long long> highest_sm_clock_mhz;
  /// Gives the GPU time to recover; told how many attempts failed.
  std::function<void(int)> wait;
};

template <typename Samples>
struct Watched {
  Samples samples;
  GpuCondition before;
  GpuCondition after;
  /// As degraded_because(), of the last attempt.
  std::string degraded_because;
};

/// Takes samples anew while the GPU is degraded before or after them, 4 times at most.
template <typename Sample>
auto sample_watched(const Watch& watch, Sample&& sample) {
  constexpr int kAttempts = 4;
  for (int attempt = 1;; ++attempt) {
    const GpuCondition before = watch.read();
    Watched<decltype(sample())> watched{sample(), before, watch.read(), {}};
    watched.degraded_because = degraded_because(watched.after, watch.highest_sm_clock_mhz);
    if (watched.degraded_because.empty()) {
      // A clock that is still ramping up before the warm-up launches is no fault.
      watched.degraded_because = degraded_because(before, std::nullopt);
    }
    if (watched.degraded_because.empty() || attempt == kAttempts) {
      return watched;
    }
    watch.wait(attempt);
  }
}

}  // namespace swr
