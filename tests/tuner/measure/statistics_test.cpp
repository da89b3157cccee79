// SPDX-License-Identifier: MIT
#include "tuner/measure/statistics.h"

#include <gtest/gtest.h>

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

TEST(Statistics, OneSampleIsItsOwnMedianAndPercentile) {
  EXPECT_EQ(median(std::vector{7.0}), 7.0);
  EXPECT_EQ(percentile(std::vector{7.0}, 95.0), 7.0);
}

}  // namespace
}  // namespace swr
