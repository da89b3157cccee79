// SPDX-License-Identifier: MIT
#include "tuner/measure/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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
  const RatioEstimate estimate = paired_ratio(times, references);
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
    const RatioEstimate estimate = paired_ratio(times, references);
    EXPECT_LE(estimate.interval.low, 1.01);
    EXPECT_GE(estimate.interval.high, 1.01);
    return estimate.interval.high - estimate.interval.low;
  };
  EXPECT_LT(width(320), 0.5 * width(20));
}

/// What resampling converges to, by resampling.
Interval resampled_interval(const std::vector<double>& values) {
  constexpr std::size_t kResamples = 20'000;
  std::mt19937_64 random(9);
  std::vector<double> medians(kResamples);
  for (double& one : medians) {
    std::vector<double> drawn(values.size());
    std::ranges::generate(drawn, [&] { return values[random() % values.size()]; });
    one = median(drawn);
  }
  return {percentile(medians, 2.5), percentile(medians, 97.5)};
}

TEST(PairedRatio, IntervalIsThatOfTheBootstrap) {
  std::mt19937_64 random(4);
  std::lognormal_distribution<double> noise(0.0, 0.01);
  for (const int rounds : {1, 5, 11, 41, 201}) {
    std::vector<double> times(static_cast<std::size_t>(rounds));
    std::ranges::generate(times, [&] { return noise(random); });
    const std::vector<double> ones(times.size(), 1.0);
    const Interval expected = resampled_interval(times);
    const Interval interval = paired_ratio(times, ones).interval;
    EXPECT_DOUBLE_EQ(interval.low, expected.low) << rounds;
    EXPECT_DOUBLE_EQ(interval.high, expected.high) << rounds;
  }
}

TEST(PairedRatio, IntervalOfAnEvenNumberHoldsThatOfTheBootstrap) {
  const std::vector<double> times{1.00, 1.02, 0.99, 1.01, 1.05, 1.03, 0.97, 1.04, 1.06, 0.98};
  const std::vector<double> ones(times.size(), 1.0);
  const Interval expected = resampled_interval(times);
  const Interval interval = paired_ratio(times, ones).interval;
  EXPECT_LE(interval.low, expected.low);
  EXPECT_GE(interval.high, expected.high);
  EXPECT_NEAR(interval.low, expected.low, 0.011);
  EXPECT_NEAR(interval.high, expected.high, 0.011);
}

TEST(MedianInterval, OfThousandsOfSamplesIsThatOfTheNormalApproximation) {
  std::vector<double> samples(10'000);
  std::iota(samples.begin(), samples.end(), 1.0);
  const Interval interval = median_interval(samples, 0.95);
  // 1.96 standard deviations, half the square root of the count, around the middle.
  EXPECT_NEAR(interval.low, 5000.5 - 98.0, 2.0);
  EXPECT_NEAR(interval.high, 5000.5 + 98.0, 2.0);
}

TEST(Statistics, OneSampleIsItsOwnMedianAndPercentile) {
  EXPECT_EQ(median(std::vector{7.0}), 7.0);
  EXPECT_EQ(percentile(std::vector{7.0}, 95.0), 7.0);
}

}  // namespace
}  // namespace swr
