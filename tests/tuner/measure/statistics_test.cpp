// SPDX-License-Identifier: MIT
#include "tuner/measure/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace swr {
namespace {

TEST(Statistics, MedianOfOddCountIsTheMiddleValue) {
  EXPECT_EQ(median(std::vector{9.0, 1.0, 5.0}), 5.0);
}

TEST(Statistics, MedianOfEvenCountIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median(std::vector{4.0, 1.0, 9.0, 2.0}), 3.0);
}

TEST(Statistics, PercentileIsTheNearestRank) {
  std::vector<double> samples;
  for (int i = 20; i >= 1; --i) {
    samples.push_back(i);
  }
  EXPECT_EQ(percentile(samples, 95.0), 19.0);
  EXPECT_EQ(percentile(samples, 95.1), 20.0);
  EXPECT_EQ(percentile(samples, 100.0), 20.0);
  EXPECT_EQ(percentile(samples, 1.0), 1.0);
}

TEST(MedianInterval, LeavesOutWhatTheBinomialAllows) {
  // P(at most 1 of 10 below the median) = 11/1024, twice that is under 5 percent; with 2 it is not.
  const std::vector<double> ten{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(median_interval(ten, 0.95).low, 2.0);
  EXPECT_EQ(median_interval(ten, 0.95).high, 9.0);
  EXPECT_EQ(median_interval(ten, 0.5).low, 4.0);
}

TEST(MedianInterval, IsTheRangeOfTooFewSamples) {
  const Interval interval = median_interval(std::vector{4.0, 1.0, 3.0, 2.0, 5.0}, 0.95);
  EXPECT_EQ(interval.low, 1.0);
  EXPECT_EQ(interval.high, 5.0);
}

TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> skewed(1.0);
  const double true_median = std::log(2.0);
  int held = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> samples(21);
    std::generate(samples.begin(), samples.end(), [&] { return skewed(random); });
    const Interval interval = median_interval(samples, 0.95);
    held += interval.low <= true_median && true_median <= interval.high ? 1 : 0;
  }
  EXPECT_GE(held, 0.94 * 2000);
}

TEST(PairedRatio, IgnoresADriftThatHitsBothAlike) {
  std::vector<double> times;
  std::vector<double> references;
  for (int i = 0; i < 30; ++i) {
    const double drift = 1.0 + 0.01 * i;
    times.push_back(102.0 * drift);
    references.push_back(100.0 * drift);
  }
  const RatioEstimate estimate = paired_ratio(times, references, 1);
  EXPECT_NEAR(estimate.ratio, 1.02, 1e-12);
  EXPECT_NEAR(estimate.interval.high - estimate.interval.low, 0.0, 1e-12);
}

TEST(PairedRatio, IntervalHoldsTheTrueRatioAndShrinksWithTheRounds) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0.0, 0.01);
  const auto width = [&](int rounds) {
    std::vector<double> times;
    std::vector<double> references;
    for (int i = 0; i < rounds; ++i) {
      times.push_back(101.0 * (1 + noise(random)));
      references.push_back(100.0 * (1 + noise(random)));
    }
    const RatioEstimate estimate = paired_ratio(times, references, 5);
    EXPECT_LE(estimate.interval.low, 1.01);
    EXPECT_GE(estimate.interval.high, 1.01);
    return estimate.interval.high - estimate.interval.low;
  };
  EXPECT_LT(width(320), 0.5 * width(20));
}

TEST(PairedRatio, RepeatsWithTheSeed) {
  const std::vector<double> times{1.0, 1.2, 0.9, 1.1, 1.05};
  const std::vector<double> references{1.0, 1.0, 1.0, 1.0, 1.0};
  EXPECT_EQ(paired_ratio(times, references, 9).interval.high,
            paired_ratio(times, references, 9).interval.high);
}

TEST(Statistics, OneSampleIsItsOwnMedianAndPercentile) {
  EXPECT_EQ(median(std::vector{7.0}), 7.0);
  EXPECT_EQ(percentile(std::vector{7.0}, 95.0), 7.0);
}

}  // namespace
}  // namespace swr
