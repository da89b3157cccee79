// SPDX-License-Identifier: MIT
// The names of the counters against CUPTI's own lists, chip by chip: CUPTI's host interface knows
// them without a GPU. Skipped where CUPTI is not installed.
#include "driver/range_profiler.h"

#include "tests/support/test.h"

namespace swr {
namespace {

TEST(AccessMetrics, EachFillsAFieldOfItsOwn) {
  AccessCounters accesses;
  for (const AccessMetric& metric : access_metrics()) {
    EXPECT_FALSE(accesses.*(metric.counter)) << metric.metric;
    accesses.*(metric.counter) = 1;
  }
  EXPECT_EQ(accesses, (AccessCounters{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

class AccessMetricsOfChip : public ::testing::TestWithParam<const char*> {};

/// A100, A10, L40, H100 and H200, B200, two of the RTX 50 series, GB10.
INSTANTIATE_TEST_SUITE_P(Chips, AccessMetricsOfChip,
                         ::testing::Values("GA100", "GA102", "AD102", "GH100", "GB100", "GB202",
                                           "GB203", "GB20B"),
                         [](const auto& chip) { return std::string(chip.param); });

TEST_P(AccessMetricsOfChip, AreAllThereAndTakeFewPasses) {
  ChipMetrics chip;
  try {
    chip = accesses_of_chip(GetParam());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(chip.missing, "");
  EXPECT_GE(chip.passes, 1U);
  EXPECT_LE(chip.passes, 7U);
}

/// Sectors of any outcome and those that missed are never counted at a time.
TEST(CounterMetrics, TakeTwoPasses) {
  for (const char* const name : {"GA100", "GH100", "GB100"}) {
    ChipMetrics chip;
    try {
      chip = counters_of_chip(name);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    EXPECT_EQ(chip.missing, "") << name;
    EXPECT_EQ(chip.passes, 2U) << name;
  }
}

}  // namespace
}  // namespace swr
