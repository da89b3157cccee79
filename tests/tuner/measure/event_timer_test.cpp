// SPDX-License-Identifier: MIT
#include "tuner/measure/event_timer.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(SamplingPlan, RepeatsShortKernelsUntilASampleSpans200Microseconds) {
  const SamplingPlan plan = plan_samples(7.0, 20);
  EXPECT_EQ(plan.launches_per_sample, 29);
  EXPECT_EQ(plan.samples, 20);
}

TEST(SamplingPlan, TimesLongKernelsOneByOne) {
  EXPECT_EQ(plan_samples(200.0, 20).launches_per_sample, 1);
  EXPECT_EQ(plan_samples(5000.0, 20).launches_per_sample, 1);
}

TEST(SamplingPlan, TakesFewerSamplesOfVerySlowKernels) {
  EXPECT_EQ(plan_samples(1e6, 20).samples, 10);
  EXPECT_EQ(plan_samples(9e6, 20).samples, 5);
  EXPECT_EQ(plan_samples(9e6, 3).samples, 3);
}

TEST(SamplingPlan, BoundsTheLaunchesOfAnUnmeasurablyShortKernel) {
  EXPECT_EQ(plan_samples(0.0, 20).launches_per_sample, 1000);
}

}  // namespace
}  // namespace swr
