// SPDX-License-Identifier: MIT
#include "report/event_log.h"

#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

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
  TuneReport report;
  report.results = {measured(2, 10.0)};
  report.finalists = {{.result = measured(2, 10.0), .tied = true},
                      {.result = measured(3, 11.0), .ratio = 1.1}};
  report.objective = "energy";
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

}  // namespace
}  // namespace swr
