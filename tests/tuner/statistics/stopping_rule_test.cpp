// SPDX-License-Identifier: MIT
#include "tuner/statistics/stopping_rule.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

int samples_taken(const StoppingOptions& options, double (*sample_us)(int), double cost_us = 1.0) {
  StoppingRule rule(options);
  int taken = 0;
  while (!rule.is_finished()) {
    rule.add(sample_us(taken++), cost_us);
  }
  return taken;
}

double steady(int /*i*/) { return 100.0; }
/// 90 and 110 in turn: the interval of the median spans both.
double two_valued(int i) { return i % 2 == 0 ? 90.0 : 110.0; }
/// Nearly every sample agrees; now and then one is far out.
double with_outliers(int i) { return i % 5 == 4 ? 300.0 : 100.0; }

TEST(StoppingRule, EndsAtTheFewestSamplesWhenAllAgree) {
  EXPECT_EQ(samples_taken({.fewest = 10, .most = 50}, steady), 10);
}

TEST(StoppingRule, EndsAtTheMostWhenSamplesNeverAgree) {
  EXPECT_EQ(samples_taken({.fewest = 10, .most = 50}, two_valued), 50);
}

TEST(StoppingRule, IsNotMisledByOutliersThatTheMedianIgnores) {
  // 10 samples: 2 outliers, one of them inside the interval [x2, x9] of the median. 12 samples
  // leave out the 2 outliers at the top: [x3, x10].
  EXPECT_EQ(samples_taken({.fewest = 10, .most = 50}, with_outliers), 12);
}

TEST(StoppingRule, TakesTheWidthRelativeToTheMedian) {
  const StoppingOptions options{.fewest = 10, .most = 50, .relative_width = 0.21};
  EXPECT_EQ(samples_taken(options, two_valued), 10);
}

TEST(StoppingRule, KeepsToTheBudgetButNeverTakesFewerThanFive) {
  EXPECT_EQ(samples_taken({.budget_us = 1000.0}, two_valued, 100.0), 10);
  EXPECT_EQ(samples_taken({.budget_us = 1000.0}, two_valued, 1e6), 5);
}

TEST(StoppingRule, TakesASingleSampleWhenAskedTo) {
  EXPECT_EQ(samples_taken({.fewest = 10, .most = 1}, steady), 1);
}

TEST(StoppingRule, KeepsTheSamplesInTheirOrder) {
  StoppingRule rule({});
  rule.add(3.0, 1.0);
  rule.add(1.0, 1.0);
  EXPECT_EQ(rule.samples_us(), (std::vector{3.0, 1.0}));
}

}  // namespace
}  // namespace swr
