// SPDX-License-Identifier: MIT
#include "tuner/measure/kernel_timer.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(LaunchesPerSample, RepeatShortKernelsUntilASampleSpans200Microseconds) {
  EXPECT_EQ(launches_per_sample(7.0), 29);
}

TEST(LaunchesPerSample, IsOneForLongKernels) {
  EXPECT_EQ(launches_per_sample(200.0), 1);
  EXPECT_EQ(launches_per_sample(5000.0), 1);
}

TEST(LaunchesPerSample, IsBoundedForAnUnmeasurablyShortKernel) {
  EXPECT_EQ(launches_per_sample(0.0), 1000);
}

}  // namespace
}  // namespace swr
