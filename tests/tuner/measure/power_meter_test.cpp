// SPDX-License-Identifier: MIT
#include "tuner/measure/power_meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace swr {
namespace {

/// A GPU whose counter steps now and then, and a clock that moves only while it is waited for.
struct SimulatedGpu {
  double idle_w = 80.0;
  double busy_w = 500.0;
  double step_s = 0.1;
  double now_s = 17.03;
  double energy_j = 4000.0;
  long long shown_mj = 4'000'000;
  double next_step_s = 17.1;
  bool is_busy = false;
  bool counts = true;

  void pass(double seconds) {
    now_s += seconds;
    energy_j += seconds * (is_busy ? busy_w : idle_w);
    is_busy = false;  // Whoever wants it busy says so again and again.
    if (now_s >= next_step_s) {
      shown_mj = std::llround(energy_j * 1e3);
      next_step_s += step_s;
    }
  }

  PowerSource source() {
    return {.total_mj = [this] { return counts ? std::optional(shown_mj) : std::nullopt; },
            .now_s = [this] { return now_s; },
            .wait = [this] { pass(0.0003); }};
  }
};

TEST(PowerMeter, FindsThePowerWhateverTheStepsOfTheCounter) {
  for (const double step_s : {0.02, 0.1, 0.13}) {
    SimulatedGpu gpu{.step_s = step_s};
    const auto power_w = mean_power_w(gpu.source(), {}, [&] { gpu.is_busy = true; });
    ASSERT_TRUE(power_w.has_value());
    EXPECT_NEAR(*power_w, 500.0, 500.0 * 0.005) << step_s;
  }
}

TEST(PowerMeter, WatchesAnIdleGpu) {
  SimulatedGpu gpu;
  const auto power_w = mean_power_w(gpu.source(), {}, [] {});
  ASSERT_TRUE(power_w.has_value());
  EXPECT_NEAR(*power_w, 80.0, 80.0 * 0.005);
}

TEST(PowerMeter, LeavesOutWhatTheGpuTookBeforeItHadSettled) {
  SimulatedGpu gpu;
  const auto keep_busy = [&] {
    gpu.is_busy = true;
    gpu.busy_w = gpu.now_s < 17.2 ? 100.0 : 600.0;  // Clocks take a while.
  };
  settle(gpu.source(), 0.3, keep_busy);
  const auto power_w = mean_power_w(gpu.source(), {}, keep_busy);
  ASSERT_TRUE(power_w.has_value());
  EXPECT_NEAR(*power_w, 600.0, 600.0 * 0.005);
}

TEST(PowerMeter, KnowsNothingWithoutACounter) {
  SimulatedGpu gpu{.counts = false};
  EXPECT_EQ(mean_power_w(gpu.source(), {}, [] {}), std::nullopt);
}

TEST(PowerMeter, GivesUpOnACounterThatDoesNotMove) {
  SimulatedGpu gpu{.next_step_s = 1e9};
  EXPECT_EQ(mean_power_w(gpu.source(), {.least_s = 0.5, .most_s = 2.0}, [] {}), std::nullopt);
  EXPECT_NEAR(gpu.now_s, 19.03, 0.01);
}

}  // namespace
}  // namespace swr
