// SPDX-License-Identifier: MIT
#include "tuner/measure/throttling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace swr {
namespace {

using ::testing::HasSubstr;

GpuCondition with_reasons(long long bits) {
  return {.sm_clock_mhz = 1700, .throttle_reasons = bits};
}

TEST(Degradation, IsSeenInThermalPowerBrakeAndHardwareSlowdown) {
  EXPECT_THAT(degraded_because(with_reasons(0x8), 1980), HasSubstr("hardware slowdown"));
  EXPECT_THAT(degraded_because(with_reasons(0x20), 1980), HasSubstr("software thermal slowdown"));
  EXPECT_THAT(degraded_because(with_reasons(0x40), 1980), HasSubstr("hardware thermal slowdown"));
  EXPECT_THAT(degraded_because(with_reasons(0x80), 1980), HasSubstr("hardware power brake"));
}

TEST(Degradation, NamesEveryReasonAtWork) {
  EXPECT_THAT(degraded_because(with_reasons(0x8 | 0x40 | 0x4), 1980),
              HasSubstr("hardware slowdown, hardware thermal slowdown"));
}

TEST(Degradation, IsNotSeenInThePowerCapOfABusyGpuNorInChosenClocks) {
  for (const long long bits : {0x0, 0x1, 0x2, 0x4, 0x10, 0x100}) {
    EXPECT_EQ(degraded_because(with_reasons(bits), 1980), "") << bits;
  }
}

TEST(Degradation, IsSeenInAnUnexplainedClockUnderHalfTheHighest) {
  GpuCondition condition{.sm_clock_mhz = 850, .throttle_reasons = 0};
  EXPECT_THAT(degraded_because(condition, 2418), HasSubstr("850 of 2418 MHz"));
  EXPECT_EQ(degraded_because(condition, 1700), "");
  condition.throttle_reasons = 0x2;
  EXPECT_EQ(degraded_because(condition, 2418), "") << "clocks that a person set";
}

TEST(Degradation, IsNotSeenWhereNothingIsReported) {
  EXPECT_EQ(degraded_because({}, std::nullopt), "");
  EXPECT_EQ(degraded_because({.sm_clock_mhz = 300}, std::nullopt), "");
}

/// A GPU whose condition follows a script, one entry per reading.
class ScriptedWatch {
 public:
  explicit ScriptedWatch(std::vector<long long> reasons) : reasons_(std::move(reasons)) {}

  Watched<int> sample() {
    const Watch watch{.read = [this] { return with_reasons(reasons_.at(readings_++)); },
                      .highest_sm_clock_mhz = 1980,
                      .wait = [this](int attempt) { waits.push_back(attempt); }};
    return sample_watched(watch, [this] { return ++samples; });
  }

  std::vector<int> waits;
  int samples = 0;

 private:
  std::vector<long long> reasons_;
  std::size_t readings_ = 0;
};

TEST(SampleWatched, TakesHealthySamplesOnce) {
  ScriptedWatch gpu({0x1, 0x4});
  const Watched<int> watched = gpu.sample();
  EXPECT_EQ(watched.samples, 1);
  EXPECT_EQ(watched.degraded_because, "");
  EXPECT_EQ(watched.before, with_reasons(0x1));
  EXPECT_EQ(watched.after, with_reasons(0x4));
  EXPECT_TRUE(gpu.waits.empty());
}

TEST(SampleWatched, RepeatsUntilTheGpuIsHealthyBeforeAndAfter) {
  ScriptedWatch gpu({0x0, 0x40, 0x40, 0x0, 0x0, 0x0});
  const Watched<int> watched = gpu.sample();
  EXPECT_EQ(watched.samples, 3);
  EXPECT_EQ(watched.degraded_because, "");
  EXPECT_EQ(gpu.waits, (std::vector{1, 2}));
}

TEST(SampleWatched, GivesUpAfterFourAttemptsAndSaysWhy) {
  ScriptedWatch gpu(std::vector<long long>(8, 0x80));
  const Watched<int> watched = gpu.sample();
  EXPECT_EQ(gpu.samples, 4);
  EXPECT_THAT(watched.degraded_because, HasSubstr("hardware power brake"));
}

TEST(SampleWatched, LetsAClockRampUpBeforeTheFirstLaunch) {
  const Watch watch{.read =
                        [clock = 345]() mutable {
                          return GpuCondition{.sm_clock_mhz = std::exchange(clock, 1900)};
                        },
                    .highest_sm_clock_mhz = 1980,
                    .wait = [](int) { FAIL() << "nothing to wait for"; }};
  EXPECT_EQ(sample_watched(watch, [] { return 0; }).degraded_because, "");
}

}  // namespace
}  // namespace swr
