// SPDX-License-Identifier: MIT
#include "experiments/studies/study.h"

#include "experiments/studies/study_run.h"
#include "experiments/studies/tile_choices.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/attention.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

DeviceInfo gb10() { return load_profile("gb10").device; }

const Experiment& experiment_of(const Study& study, std::string_view id) {
  for (const Experiment& experiment : study.experiments) {
    if (experiment.id == id) {
      return experiment;
    }
  }
  throw std::out_of_range("no experiment");
}

VariantResult predicted(const StudyPoint& point, double time_us, long long excess) {
  VariantResult result{.variant = AttentionVariant{}};
  result.variant = point.variant;
  result.outcome = Prediction{.time_us = time_us,
                              .read_sectors = 100'000'000,
                              .compulsory_misses = compulsory_sectors(point.problem),
                              .excess_misses = excess};
  return result;
}

/// Sawtooth has a quarter of cyclic's excess misses.
std::optional<VariantResult> quarter(const StudyPoint& point) {
  const bool sawtooth = attention(point.variant).order == Order::sawtooth;
  return predicted(point, 1000.0, sawtooth ? 2'500'000 : 10'000'000);
}

TEST(Study, SawtoothHasTheExperimentsOfThePaper) {
  const Study study = make_study("sawtooth", gb10());
  std::vector<std::string> ids;
  for (const Experiment& experiment : study.experiments) {
    ids.push_back(experiment.id);
  }
  EXPECT_THAT(ids, ElementsAre("sectors", "sectors_causal", "misses_begin", "active_sms", "batches",
                               "forms", "forms_causal"));
  EXPECT_THAT(experiment_of(study, "batches").points, SizeIs(8));
  // Tables 1 and 2: 32K and 128K, both launches.
  std::set<int> lengths;
  for (const StudyPoint& point : experiment_of(study, "sectors").points) {
    lengths.insert(attention(point.problem).seq_q);
  }
  EXPECT_TRUE(lengths.contains(32768));
  EXPECT_TRUE(lengths.contains(131072));
}

TEST(Study, TiledAttentionCoversTheGridOf80) {
  const Study study = make_study("tiled-attention", gb10());
  std::set<Problem> problems;
  for (const StudyPoint& point : study.experiments[0].points) {
    problems.insert(point.problem);
  }
  EXPECT_THAT(problems, SizeIs(80));
}

TEST(Study, UnknownNamesAreAClearError) { EXPECT_THROW(make_study("spiral", gb10()), Error); }

TEST(Study, PointsOfAProblemAreTunedTogetherAndDoNotMeet) {
  const Study study = make_study("sawtooth", gb10());
  std::set<Problem> problems;
  for (const StudyGroup& group : study_groups(study)) {
    EXPECT_TRUE(problems.insert(group.points.front()->problem).second);
    EXPECT_FALSE(group.meets());
  }
}

TEST(Study, HitRateIsThatOfTheSectorsThatSmsAskedFor) {
  const StudyPoint point{AttentionProblem{.seq_q = 128, .seq_kv = 128}, AttentionVariant{}, "",
                         0.0};
  Measurement measurement;
  measurement.counters = Counters{.sectors_demanded = 1000,
                                  .l2_lookups = 500,
                                  .l2_hits = 600,
                                  .l2_misses = 100,
                                  .l2_fabric_sectors = 40,
                                  .dram_read_bytes = 60LL * kSectorBytes};
  StudyRow row{&point, {}};
  row.result.outcome = measurement;
  const auto hit_rate = std::ranges::find(study_metrics(), std::string("hit_rate"),
                                          [](const StudyMetric& m) { return std::string(m.key); });
  EXPECT_DOUBLE_EQ(hit_rate->value(row).value(), 0.94);
}

TEST(Study, TablesMarkEveryRowAndSayWhatSawtoothChanges) {
  const Study study = make_study("sawtooth", gb10());
  std::ostringstream tables;
  write_study_tables(tables, study, quarter);
  EXPECT_THAT(tables.str(), HasSubstr("| cyclic | 8 | "));
  EXPECT_THAT(tables.str(), HasSubstr("where cyclic has any to speak of: -75.0 % to -75.0 %"));
  std::istringstream lines(tables.str());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| cyclic") || line.starts_with("| persistent")) {
      EXPECT_TRUE(line.ends_with("| predicted |")) << line;
    }
  }
}

TEST(Study, CsvHasALinePerPointWithAResult) {
  const Study study = make_study("sawtooth", gb10());
  std::size_t points = 0;
  for (const Experiment& experiment : study.experiments) {
    points += experiment.points.size();
  }
  std::ostringstream all;
  write_study_csv(all, study, quarter);
  const std::string text = all.str();
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), points + 1);
  std::ostringstream none;
  write_study_csv(none, study, [](const StudyPoint&) { return std::nullopt; });
  EXPECT_THAT(none.str(), Not(HasSubstr("predicted")));
}

TEST(Study, ChoicesAreTheBestOfEachTile) {
  const Study study = make_study("tiled-attention", gb10());
  // 128x64 is best for long sequences, 64x64 for short ones; stages cost nothing.
  const ResultOf by_length = [](const StudyPoint& point) -> std::optional<VariantResult> {
    const bool is_long = attention(point.problem).seq_q > 1024;
    const AttentionVariant& variant = attention(point.variant);
    const bool wide = variant.tile_m == 128;
    if (variant.tile_n != 64) {
      return std::nullopt;
    }
    return predicted(point, wide == is_long ? 100.0 : is_long ? 125.0 : 110.0, 0);
  };
  const auto choices = tile_choices(study, by_length);
  ASSERT_THAT(choices, SizeIs(80));
  for (const TileChoice& choice : choices) {
    EXPECT_EQ(attention(choice.best.variant).tile_m,
              attention(choice.problem).seq_q > 1024 ? 128 : 64);
    ASSERT_TRUE(choice.runner_up);
    EXPECT_NE(attention(choice.runner_up->variant).tile_m, attention(choice.best.variant).tile_m);
  }
  const auto fixed = best_fixed_tile(study, by_length);
  ASSERT_TRUE(fixed);
  EXPECT_EQ(fixed->tile_m, 128);
  // 2 of 5 lengths lose 10 %.
  EXPECT_NEAR(fixed->mean_loss, 0.04, 1e-12);
  EXPECT_NEAR(fixed->worst_loss, 0.1, 1e-12);
}

}  // namespace
}  // namespace swr
