// SPDX-License-Identifier: MIT
// Variants for ranges of shapes.
#include "tuner/run/range_search.h"

#include "tests/support/fictional.h"
#include "tests/support/test.h"
#include "tuner/run/objective_choice.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {
/// Time of a variant at a length.
using TimeUs = std::function<double(const AttentionVariant&, int)>;

using test::fictional_hopper;

const std::vector<AttentionVariant> kVariants{{.tile_m = 16, .tile_n = 16, .warps = 1},
                                              {.tile_m = 64, .tile_n = 64},
                                              {.tile_m = 128, .tile_n = 64}};

/// Larger tiles begin later and are faster: the best changes at 256 and at 8,192.
double crossing_us(const AttentionVariant& variant, int length) {
  switch (variant.tile_m) {
    case 16:
      return 2.0 + length / 64.0;
    case 64:
      return 4.0 + length / 128.0;
    default:
      return 36.0 + length / 256.0;
  }
}

class RangeSearchTest : public ::testing::Test {
 protected:
  RangeSearchTest() : lengths_(lengths_between(1, 131072)) {
    for (const int length : lengths_) {
      AttentionProblem problem{.seq_q = length, .seq_kv = length};
      problems_.emplace_back(problem);
    }
  }

  RangeSearch search() const { return {problems_, lengths_, fictional_hopper()}; }

  TuneReport report(std::size_t place, const TimeUs& time_us) const {
    TuneReport report{.problem = problems_[place], .device = fictional_hopper()};
    for (const AttentionVariant& variant : kVariants) {
      VariantResult result{.variant = variant};
      const double us = time_us(variant, lengths_[place]);
      result.state = us > 0 ? ResultState::ok : ResultState::launch;
      result.outcome = Measurement{.median_us = us, .p95_us = us};
      report.results.push_back(result);
    }
    std::ranges::stable_sort(report.results, {}, [](const VariantResult& result) {
      return result.state == ResultState::ok ? result.time_us() : 1e9;
    });
    return report;
  }

  /// Goes on until nothing is left to tune; returns how many lengths it took.
  int run(RangeSearch& search, const TimeUs& time_us) const {
    int tuned = 0;
    for (auto place = search.next(); place; place = search.next()) {
      search.learn(*place, report(*place, time_us));
      ++tuned;
    }
    return tuned;
  }

  /// What the answer of the parts loses at a length.
  static double loss(const std::vector<RangePart>& parts, int length, const TimeUs& time_us) {
    const auto part = std::ranges::find_if(
        parts, [&](const RangePart& one) { return one.from <= length && length <= one.to; });
    double best_us = 1e9;
    for (const AttentionVariant& variant : kVariants) {
      best_us = std::min(best_us, time_us(variant, length));
    }
    return time_us(part->variant.as<AttentionVariant>(), length) / best_us - 1.0;
  }

  std::vector<int> lengths_;
  std::vector<Problem> problems_;
};

TEST(LengthsBetween, AreEightInAnOctaveAndBothEnds) {
  EXPECT_THAT(lengths_between(1, 5), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(lengths_between(16, 33), ElementsAre(16, 18, 20, 22, 24, 26, 28, 30, 32, 33));
  EXPECT_THAT(lengths_between(1000, 1100), ElementsAre(1000, 1024, 1100));
  EXPECT_THAT(lengths_between(7, 7), ElementsAre(7));
  EXPECT_EQ(lengths_between(1, 131072).size(), 8U + 8 * 14);
  EXPECT_EQ(lengths_between(1, 2147483647).back(), 2147483647);
}

TEST_F(RangeSearchTest, FindsWhereTheBestChangesAndLosesLittleEverywhere) {
  RangeSearch range = search();
  EXPECT_LE(run(range, crossing_us), 40);
  const auto parts = range.parts();
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts.front().from, 1);
  EXPECT_EQ(parts.back().to, 131072);
  EXPECT_NEAR(std::log2(parts[0].to), 8.0, 0.25);
  EXPECT_NEAR(std::log2(parts[1].to), 13.0, 0.25);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const int length = static_cast<int>(std::exp2(static_cast<double>(random() % 1700) / 100.0));
    EXPECT_LE(loss(parts, length, crossing_us), 0.02) << length;
  }
}

TEST_F(RangeSearchTest, TheLongestLengthComesWhenLessIsInDoubtElsewhere) {
  RangeSearch range = search();
  std::vector<int> order;
  for (auto place = range.next(); place; place = range.next()) {
    order.push_back(lengths_[*place]);
    range.learn(*place, report(*place, crossing_us));
  }
  ASSERT_GE(order.size(), 8U);
  EXPECT_EQ(order[0], 1);
  EXPECT_EQ(order[1], 16384);
  EXPECT_GT(std::ranges::find(order, 131072) - order.begin(), 4);
  EXPECT_EQ(std::ranges::count(order, 131072), 1);
}

TEST_F(RangeSearchTest, PartsFollowEachOtherAndSayWhatTheyMayLose) {
  RangeSearch range = search();
  run(range, crossing_us);
  const auto parts = range.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(i == 0 || parts[i].from == parts[i - 1].to + 1);
    // Between candidates that lie an eighth of an octave apart.
    EXPECT_LE(parts[i].edge_loss.value(), 0.06);
    ASSERT_TRUE(parts[i].held_out.has_value());
    EXPECT_GE(*parts[i].held_out, parts[i].from);
    EXPECT_LE(*parts[i].held_out, parts[i].to);
    EXPECT_GE(parts[i].held_out_loss.value(), 0.0);
  }
}

TEST_F(RangeSearchTest, OfOneBestVariantTakesALengthAnOctave) {
  RangeSearch range = search();
  const TimeUs alone = [](const AttentionVariant& variant, int length) {
    return length + 1000.0 / variant.tile_m;
  };
  EXPECT_LE(run(range, alone), 34);
  EXPECT_EQ(range.parts().size(), 1U);
  EXPECT_EQ(range.parts().front().held_out_loss, 0.0);
}

TEST_F(RangeSearchTest, ABestThatChangesFromLengthToLengthEndsAtTheGrid) {
  RangeSearch range = search();
  const TimeUs wild = [](const AttentionVariant& variant, int length) {
    return 10.0 + (length * 7 + variant.tile_m) % 13;
  };
  EXPECT_LE(run(range, wild), static_cast<int>(lengths_.size()));
}

TEST_F(RangeSearchTest, LengthsWhereNothingWorksArePassedOver) {
  RangeSearch range = search();
  const TimeUs fails_in_the_middle = [](const AttentionVariant& variant, int length) {
    return length > 1000 && length < 4000 ? 0.0 : crossing_us(variant, length);
  };
  run(range, fails_in_the_middle);
  EXPECT_EQ(range.parts().front().from, 1);
  EXPECT_EQ(range.parts().back().to, 131072);
}

TEST_F(RangeSearchTest, ALengthHasTheBestOfItsNeighboursTriedWhereTheyAreLegal) {
  RangeSearch range = search();
  EXPECT_TRUE(range.rivals(5).empty());
  range.learn(0, report(0, crossing_us));
  range.learn(lengths_.size() - 1, report(lengths_.size() - 1, crossing_us));
  EXPECT_THAT(range.rivals(40),
              ::testing::UnorderedElementsAre(Variant(kVariants[0]), Variant(kVariants[2])));
}

/// A prediction of compute and memory that overlap, and of waiting.
VariantResult predicted(double matrix_us, double dram_us, double latency_us, double time_us) {
  return VariantResult{.variant = AttentionVariant{},
                       .outcome = Prediction{.time_us = time_us,
                                             .matrix_us = matrix_us,
                                             .dram_us = dram_us,
                                             .latency_us = latency_us,
                                             .relative_error = 0.1}};
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
