// SPDX-License-Identifier: MIT
#include "report/repeatability.h"

#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace swr {
namespace {

using ::testing::HasSubstr;

AttentionVariant with_tile_n(int tile_n) { return {.tile_n = tile_n}; }

VariantResult measured(const Variant& variant, double median_us) {
  VariantResult result{.variant = AttentionVariant{}};
  result.variant = variant;
  result.outcome = Measurement{.median_us = median_us};
  return result;
}

/// A run that ranked two variants so.
TuneReport run_of(const Variant& first, double first_us, const Variant& second, double second_us) {
  TuneReport report;
  report.problem = AttentionProblem{.seq_q = 4096, .seq_kv = 4096};
  report.results = {measured(first, first_us), measured(second, second_us)};
  return report;
}

std::vector<double> never_meets(std::span<const Variant> /*choices*/) { return {}; }

TEST(Repeatability, EqualChoicesAreIdenticalAndCostNothing) {
  const std::vector<TuneReport> runs{run_of(with_tile_n(16), 10.0, with_tile_n(32), 11.0),
                                     run_of(with_tile_n(16), 12.0, with_tile_n(32), 11.9)};
  const Agreement agreement = compare_runs(runs, never_meets);
  EXPECT_TRUE(agreement.is_identical());
  EXPECT_EQ(agreement.worst_regret, 0.0);
}

TEST(Repeatability, RegretIsTheChoiceOfOneRunInTheTimesOfTheOther) {
  const std::vector<TuneReport> runs{run_of(with_tile_n(16), 10.0, with_tile_n(32), 10.1),
                                     run_of(with_tile_n(32), 10.0, with_tile_n(16), 10.3)};
  const Agreement agreement = compare_runs(runs, never_meets);
  EXPECT_FALSE(agreement.is_identical());
  EXPECT_NEAR(agreement.worst_regret, 0.03, 1e-12);
}

TEST(Repeatability, SharedRoundsSayItBeforeMedians) {
  std::vector<TuneReport> runs{run_of(with_tile_n(16), 10.0, with_tile_n(32), 10.0),
                               run_of(with_tile_n(32), 10.0, with_tile_n(16), 13.0)};
  runs[1].finalists = {{.result = runs[1].results[0]},
                       {.result = runs[1].results[1], .ratio = 1.004}};
  EXPECT_NEAR(compare_runs(runs, never_meets).worst_regret, 0.004, 1e-12);
}

TEST(Repeatability, ChoicesThatDifferMeetOnceMoreAndThatCountsBeforeAll) {
  const std::vector<TuneReport> runs{run_of(with_tile_n(16), 10.0, with_tile_n(32), 10.9),
                                     run_of(with_tile_n(32), 10.0, with_tile_n(16), 10.9),
                                     run_of(with_tile_n(16), 10.0, with_tile_n(32), 10.9)};
  const Agreement agreement = compare_runs(runs, [](std::span<const Variant> choices) {
    EXPECT_EQ(choices.size(), 2U);
    return std::vector{0.0, 0.002};
  });
  EXPECT_FALSE(agreement.is_identical());
  EXPECT_TRUE(agreement.met);
  EXPECT_EQ(agreement.worst_regret, 0.002);
  EXPECT_EQ(tied_share(std::vector{agreement}, 0.005), 1.0);
  EXPECT_EQ(identical_share(std::vector{agreement}), 0.0);
}

TEST(Repeatability, AChoiceThatFailsElsewhereHasNoBound) {
  std::vector<TuneReport> runs{run_of(with_tile_n(16), 10.0, with_tile_n(32), 10.0),
                               run_of(with_tile_n(32), 10.0, with_tile_n(16), 13.0)};
  runs[1].results[1].state = ResultState::throttled;
  EXPECT_TRUE(std::isinf(compare_runs(runs, never_meets).worst_regret));
}

TEST(Repeatability, IsReportedAsShareAndWorstRegret) {
  const std::vector<Agreement> agreements{{.problem = AttentionProblem{.seq_q = 64, .seq_kv = 64},
                                           .choices = {with_tile_n(16), with_tile_n(16)}},
                                          {.problem = AttentionProblem{},
                                           .choices = {with_tile_n(16), with_tile_n(32)},
                                           .worst_regret = 0.0125}};
  EXPECT_EQ(identical_share(agreements), 0.5);
  EXPECT_EQ(worst_regret(agreements), 0.0125);
  std::ostringstream text;
  print_agreements(text, agreements, 0.005);
  EXPECT_THAT(text.str(), HasSubstr("same choice 2 times"));
  EXPECT_THAT(
      text.str(),
      HasSubstr("identical choices: 50.0 % of 2 problems (50.0 % identical or apart by less "
                "than 0.50 %); worst regret 1.25 %"));
  const Json json = agreements_record(agreements, 0.005);
  EXPECT_EQ(json["identical_share"], 0.5);
  EXPECT_EQ(json["problems"][1]["choices"][1], to_key(with_tile_n(32)));
}

}  // namespace
}  // namespace swr
