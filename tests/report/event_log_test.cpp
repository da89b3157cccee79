// SPDX-License-Identifier: MIT
// The log of a run, and how far its times repeat.
#include "report/event_log.h"

#include "tests/support/attention.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {
VariantResult measured(int stages, double median_us) {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).stages = stages;
  result.outcome = Measurement{.samples_us = {median_us}, .median_us = median_us};
  return result;
}

std::vector<Json> lines_of(const std::ostringstream& out) {
  std::vector<Json> lines;
  std::istringstream text(out.str());
  for (std::string line; std::getline(text, line);) {
    lines.push_back(Json::parse(line));
  }
  return lines;
}

std::vector<std::string> kinds(const std::vector<Json>& lines) {
  std::vector<std::string> all;
  for (const Json& line : lines) {
    all.push_back(line.at("event"));
  }
  return all;
}

TEST(EventLog, TellsTheStoryOfARunLineByLine) {
  std::ostringstream out;
  JsonLines file(out);
  EventLog log(file);
  log.announce(AttentionProblem{.seq_q = 512, .seq_kv = 512}, {.name = "Fictional One"},
               Provenance::measured);
  log.begin("a title for people", 4);
  log.known(measured(1, 12.0));
  log.advance(measured(2, 10.0));
  log.advance(measured(3, 11.0));
  VariantResult failed = measured(4, 0.0);
  failed.state = ResultState::timeout;
  failed.detail = "no outcome";
  log.advance(failed);
  log.end();
  TuneReport report{.results = {measured(2, 10.0)},
                    .finalists = {{.result = measured(2, 10.0), .tied = true},
                                  {.result = measured(3, 11.0), .ratio = 1.1}},
                    .objective = "energy"};
  report.choice.ranked = {{.variant = measured(3, 11.0).variant, .value = 4.5, .tied = true}};
  log.finish(report);
  const auto lines = lines_of(out);
  EXPECT_THAT(kinds(lines),
              ::testing::ElementsAre("start", "variant", "best", "variant", "best", "variant",
                                     "variant", "finals", "choice", "end"));
  EXPECT_EQ(lines[8].at("objective"), "energy");
  EXPECT_EQ(lines[8].at("ranked").at(0).at("value"), 4.5);
  EXPECT_EQ(lines[0].at("variants"), 4);
  EXPECT_EQ(lines[0].at("problem").at("seq_q"), 512);
  EXPECT_EQ(lines[1].at("known"), true);
  EXPECT_EQ(lines[3].at("done"), 2);
  EXPECT_EQ(lines[4].at("time_us"), 10.0);
  EXPECT_EQ(lines[6].at("state"), "timeout");
  EXPECT_TRUE(lines[6].at("time_us").is_null());
  EXPECT_EQ(lines[7].at("finalists").at(1).at("ratio"), 1.1);
  EXPECT_EQ(lines[9].at("best"), to_key(report.results[0].variant));
}

TEST(EventLog, StartsAnewWithEveryRun) {
  std::ostringstream out;
  JsonLines file(out);
  EventLog log(file);
  for (int run = 0; run < 2; ++run) {
    log.begin("", 1);
    log.advance(measured(1, 10.0));
    log.finish({});
  }
  EXPECT_THAT(kinds(lines_of(out)), ::testing::ElementsAre("start", "variant", "best", "end",
                                                           "start", "variant", "best", "end"));
}

AttentionVariant with_tile_n(int tile_n) { return {.tile_n = tile_n}; }

VariantResult measured(const Variant& variant, double median_us) {
  return VariantResult{.variant = variant, .outcome = Measurement{.median_us = median_us}};
}

/// A run that ranked two variants so.
TuneReport run_of(const Variant& first, double first_us, const Variant& second, double second_us) {
  return TuneReport{.problem = AttentionProblem{.seq_q = 4096, .seq_kv = 4096},
                    .results = {measured(first, first_us), measured(second, second_us)}};
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
