// SPDX-License-Identifier: MIT
#include "tuner/run/robust_choice.h"

#include <swr/attention_variant.h>

#include <gtest/gtest.h>

#include <vector>

namespace swr {
namespace {

/// A prediction of compute and memory that overlap, and of waiting.
VariantResult predicted(double matrix_us, double dram_us, double latency_us, double time_us) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Prediction{.time_us = time_us,
                              .matrix_us = matrix_us,
                              .dram_us = dram_us,
                              .latency_us = latency_us,
                              .relative_error = 0.1};
  return result;
}

TEST(RobustChoice, OfTiesTakesTheOneThatASlowerMemoryHurtsLeast) {
  // 0.5 % apart; memory slower by a quarter makes 125 of the first and 100.5 of the second.
  const std::vector<VariantResult> results{predicted(0, 100, 0, 100),
                                           predicted(100.5, 0, 0, 100.5)};
  // Tensor cores slower by a quarter hurt the second as much, so the fastest stays.
  const auto even = choose_robust(results);
  ASSERT_TRUE(even);
  EXPECT_EQ(even->place, 0U);
  EXPECT_NEAR(even->fastest_slowdown, 125 / 100.5 - 1, 1e-9);
  // One that needs both in part loses little whichever is slow.
  std::vector<VariantResult> with_both = results;
  with_both.push_back(predicted(50, 0, 51, 101));
  const auto choice = choose_robust(with_both);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->place, 2U);
  EXPECT_EQ(choice->tied, 3U);
  EXPECT_NEAR(choice->slowdown, (50 + 1.25 * 51) / 100 - 1, 1e-9);
  EXPECT_LT(choice->slowdown, choice->fastest_slowdown);
}

TEST(RobustChoice, LeavesAloneWhatIsNotTied) {
  // 3 % slower, however robust.
  const std::vector<VariantResult> apart{predicted(0, 100, 0, 100), predicted(51.5, 0, 51.5, 103)};
  EXPECT_FALSE(choose_robust(apart));
  EXPECT_FALSE(choose_robust({}));
}

TEST(RobustChoice, AsksOnlySuccessfulPredictionsWithAKnownError) {
  std::vector<VariantResult> results{predicted(0, 100, 0, 100), predicted(50, 0, 51, 101)};
  EXPECT_TRUE(choose_robust(results));
  results[1].state = ResultState::constraint;
  EXPECT_FALSE(choose_robust(results));
  results[1].state = ResultState::ok;
  std::get<Prediction>(results[1].outcome).relative_error = 0.0;
  EXPECT_FALSE(choose_robust(results));
  results[1].outcome = Measurement{.median_us = 100.5};
  EXPECT_FALSE(choose_robust(results));
}

}  // namespace
}  // namespace swr
