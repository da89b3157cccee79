// SPDX-License-Identifier: MIT
#include "core/gpu_condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

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

TEST(SlowClock, OfEveryReasonSaysWhatToDo) {
  constexpr double kExpectedMhz = 2418.0;
  struct Case {
    long long bits;
    const char* because;
    const char* advice;
  };
  for (const auto& [bits, because, advice] :
       {Case{0x0, "513 MHz under load where 2418 are expected (no stated reason)", "mains"},
        Case{0x1, "no stated reason", "power brick"},
        Case{0x2, "a person set", "--reset-gpu-clocks"},
        Case{0x4, "the power cap", "nvidia-smi -pl"}, Case{0x4 | 0x40, "thermal slowdown", "fans"},
        Case{0x10, "sync boost", "another GPU"}, Case{0x80, "power brake", "power supply"}}) {
    const auto slow = slow_clock({.sm_clock_mhz = 513, .throttle_reasons = bits}, kExpectedMhz);
    ASSERT_TRUE(slow) << bits;
    EXPECT_THAT(slow->because, HasSubstr(because));
    EXPECT_THAT(slow->advice, HasSubstr(advice));
  }
}

TEST(SlowClock, IsNotWhatBoardsDifferByNorTheClockOfWgmmaUnderThePowerCap) {
  const GpuCondition capped{.sm_clock_mhz = 1414, .throttle_reasons = 0x4};
  EXPECT_FALSE(slow_clock(capped, 1795.8));
  EXPECT_TRUE(slow_clock({.sm_clock_mhz = 1414, .throttle_reasons = 0x0}, 1795.8));
  EXPECT_FALSE(slow_clock({.sm_clock_mhz = 2330}, 2418.0));
  EXPECT_TRUE(slow_clock({.sm_clock_mhz = 2000}, 2418.0));
  EXPECT_FALSE(slow_clock({}, 2418.0));
}

}  // namespace
}  // namespace swr
