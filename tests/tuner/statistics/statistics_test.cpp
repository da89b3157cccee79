// SPDX-License-Identifier: MIT
#include "core/statistics/statistics.h"

#include "tests/support/test.h"

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

TEST(PairedRatio, IntervalShrinksWithTheRounds) {
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
    EXPECT_NEAR(estimate.ratio, 1.01, 0.01);
    return estimate.interval.high - estimate.interval.low;
  };
  EXPECT_LT(width(320), 0.5 * width(20));
}

/// Pairs whose ratios scatter by 1 percent around 1.02, after a drift that both share.
std::pair<std::vector<double>, std::vector<double>> pairs(int count, std::mt19937_64& random) {
  std::normal_distribution<double> noise(0.0, 0.01);
  std::pair<std::vector<double>, std::vector<double>> drawn;
  for (int i = 0; i < count; ++i) {
    const double drift = 100.0 + i;
    drawn.first.push_back(1.02 * drift * (1 + noise(random)));
    drawn.second.push_back(drift);
  }
  return drawn;
}

TEST(PairedRatio, IntervalOfManyPairsIsThatOfTheNormalApproximation) {
  std::mt19937_64 random(4);
  const auto [times, references] = pairs(400, random);
  const RatioEstimate estimate = paired_ratio(times, references);
  // Weights grow with the drift from 1 to 5: (mean square) / (square of the mean) is 1.148.
  const double half_width = 1.96 * 1.02 * 0.01 * std::sqrt(1.148 / 400);
  EXPECT_NEAR(estimate.interval.high - estimate.interval.low, 2 * half_width, 0.3 * half_width);
  EXPECT_NEAR(estimate.ratio, 1.02, 3 * half_width);
}

TEST(RatioInterval, HoldsTheTrueRatioAsOftenAsItSays) {
  std::mt19937_64 random(8);
  for (const int count : {8, 16, 64}) {
    int held = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto [times, references] = pairs(count, random);
      const Interval interval = ratio_interval(times, references, 0.99);
      held += interval.low <= 1.02 && 1.02 <= interval.high ? 1 : 0;
    }
    EXPECT_GE(held, 0.982 * 2000) << count;
    EXPECT_LE(held, 0.997 * 2000) << count;
  }
}

TEST(RatioInterval, OfFewPairsIsThatOfStudentsTable) {
  // Residuals of 1: the standard error is 1, and t is 63.657 with 1 degree of freedom, 9.925
  // with 2.
  EXPECT_NEAR(ratio_interval(std::vector{1.0, 3.0}, std::vector{1.0, 1.0}, 0.99).high, 65.657,
              1e-3);
  const double error = std::sqrt(3.0 * 2.0 / 2.0) / 3.0;
  EXPECT_NEAR(ratio_interval(std::vector{1.0, 2.0, 3.0}, std::vector{1.0, 1.0, 1.0}, 0.99).high,
              2.0 + 9.925 * error, 1e-3);
}

TEST(ModeratedRatioInterval, HoldsTheTrueRatioAsOftenAsItSaysOfTwoPairsAlready) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(1.0, 0.003);
  int held = 0;
  double wide = 0.0;
  double own = 0.0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector times{100.0 * noise(random), 100.0 * noise(random)};
    const std::vector references{100.0 * noise(random), 100.0 * noise(random)};
    const Interval ratio =
        moderated_ratio_interval(times, references, {2 * 0.003 * 0.003 * 100, 100}, 0.99);
    held += ratio.low <= 1.0 && 1.0 <= ratio.high ? 1 : 0;
    wide += ratio.high - ratio.low;
    own +=
        ratio_interval(times, references, 0.99).high - ratio_interval(times, references, 0.99).low;
  }
  EXPECT_GE(held, 0.985 * kTrials);
  EXPECT_LT(wide, 0.25 * own);
}

TEST(RatioInterval, OfASinglePairHasNoEnd) {
  const Interval interval = ratio_interval(std::vector{2.0}, std::vector{1.0}, 0.99);
  EXPECT_LE(interval.low, 0.0);
  EXPECT_TRUE(std::isinf(interval.high));
}

TEST(CappedMean, CountsEveryLevelButNoHiccup) {
  EXPECT_DOUBLE_EQ(capped_mean(std::vector{100.0, 110.0}), 105.0);
  EXPECT_DOUBLE_EQ(capped_mean(std::vector{100.0, 100.0, 100.0, 900.0}), 112.5);
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

TEST(StoppingRule, TakesFiveOfWhatIsAllTooSlow) {
  EXPECT_EQ(samples_taken({.slow_us = 80.0}, two_valued), 5);
  EXPECT_EQ(samples_taken({.slow_us = 100.0}, two_valued), 50);
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
