// SPDX-License-Identifier: MIT
// Whole runs for objectives beside time: what wins, what is stored, what later runs and questions
// find. Only the GPU is faked.
#include "tests/support/attention.h"
#include "tests/support/energy_evaluator.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/temp_directory.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>
#include <swr/lookup.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swr {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

int stages(const Variant& variant) { return attention(variant).stages; }

/// Stages 1 to 3: the more the slower, and the more frugal.
class TuneFor : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.space.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}};
    options_.space.restrictions = {{"stages", {1LL, 2LL, 3LL}},
                                   {"order", {std::string("cyclic")}},
                                   {"persistence", {std::string("persistent")}}};
    options_.compile_threads = 2;
  }

  TuneReport tune_for(const std::string& objective, bool measures_energy = false) {
    Store store(path_, Store::Mode::read_write);
    const Generator generator({.cache_dir = directory_ / "cache"});
    options_.objective = {.objective = Objective(objective), .measures_energy = measures_energy};
    options_.run_id = store.begin_run({.command = "test",
                                       .swr_version = "0",
                                       .templates_digest = "digest",
                                       .nvrtc_version = "0.0",
                                       .driver_version = "0.0",
                                       .l2_state = "warm",
                                       .objective = objective,
                                       .conditions = "fake"});
    QuietProgress progress;
    gpu_.measured.clear();
    return tune(problem_, gpu_, generator, store, options_, progress);
  }

  Answer ask(const std::string& objective) const {
    LookupOptions options;
    options.objective = objective;
    return Lookup(path_, options).best(problem_, gpu_.device());
  }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
  AttentionProblem problem_{.seq_q = 512, .seq_kv = 512, .head_dim = 16};
  test::EnergyEvaluator gpu_{
      test::fictional_device(), [](const Variant& variant) { return 10.0 + 0.1 * stages(variant); },
      [](const Variant& variant) { return 900.0 / (stages(variant) * stages(variant)); }};
  TuneOptions options_;
};

TEST_F(TuneFor, EnergyTakesTheFrugalAndTimeStaysAsItIs) {
  const TuneReport report = tune_for("energy");
  EXPECT_EQ(stages(report.best()->variant), 3);
  EXPECT_EQ(report.choice.idle_power_w, 75.0);
  EXPECT_THAT(report.choice.ranked, SizeIs(3));
  EXPECT_EQ(stages(report.finalists.front().result.variant), 1);
  EXPECT_EQ(stages(ask("time").variant), 1);
  EXPECT_EQ(stages(ask("energy").variant), 3);
  EXPECT_EQ(ask("energy").level, MatchLevel::exact);
  EXPECT_NEAR(ask("energy").time_us.value(), 10.3, 1e-9);
}

TEST_F(TuneFor, QuestionsKnowOnlyTheVeryObjective) {
  tune_for("energy");
  const Answer other = ask("edp");
  EXPECT_EQ(other.result_id, 0);
  EXPECT_NE(other.level, MatchLevel::exact);
}

TEST_F(TuneFor, AnotherObjectiveMeasuresNothingAnew) {
  tune_for("time");
  EXPECT_THAT(gpu_.measured, IsEmpty());
  EXPECT_EQ(tune_for("energy").known, 3U);
  EXPECT_THAT(gpu_.measured, SizeIs(9));
  const TuneReport third = tune_for("time_us + energy_mj / 1000000");
  EXPECT_EQ(third.known, 3U);
  EXPECT_THAT(gpu_.measured, IsEmpty());
  EXPECT_EQ(stages(third.best()->variant), 1);
  EXPECT_EQ(stages(tune_for("time").best()->variant), 1);
  EXPECT_EQ(stages(tune_for("energy").best()->variant), 3);
  EXPECT_EQ(stages(ask("energy").variant), 3);
  EXPECT_EQ(stages(ask("time_us + energy_mj / 1000000").variant), 1);
}

TEST_F(TuneFor, EnergyIsOneErrorWhereItIsNotCountedAndNothingIsMeasured) {
  gpu_.missing_because = "no counter of energy";
  try {
    tune_for("edp");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_counters);
    EXPECT_THAT(error.what(), HasSubstr("objective 'edp'"));
    EXPECT_THAT(error.what(), HasSubstr("no counter of energy"));
  }
  EXPECT_THAT(Store(path_, Store::Mode::read_only).results(problem_, gpu_.device()), IsEmpty());
}

TEST_F(TuneFor, TimeLeavesAnEmptyCellWhereEnergyIsNotCounted) {
  gpu_.missing_because = "no counter of energy";
  const TuneReport report = tune_for("time", true);
  EXPECT_EQ(stages(report.best()->variant), 1);
  EXPECT_EQ(report.choice.missing_because, "no counter of energy");
  EXPECT_FALSE(report.best()->measurement()->energy.has_value());
}

TEST_F(TuneFor, TimeWithEnergyBesideKeepsTheFastest) {
  const TuneReport report = tune_for("time", true);
  EXPECT_EQ(stages(report.best()->variant), 1);
  EXPECT_THAT(report.choice.ranked, IsEmpty());
  EXPECT_NEAR(report.best()->measurement()->energy->mean_mj(), 900.0 * 10.1 / 1e3, 1e-9);
  const Store store(path_, Store::Mode::read_only);
  const Measurement stored = *store.result(ask("time").result_id).result.measurement();
  EXPECT_EQ(stored.energy, report.best()->measurement()->energy);
}

TEST_F(TuneFor, AnExpressionWithoutEnergyRanksEveryVariantAndMeasuresNone) {
  const TuneReport report = tune_for("1 / time_us");
  EXPECT_EQ(stages(report.best()->variant), 3);
  EXPECT_THAT(gpu_.measured, IsEmpty());
  EXPECT_EQ(stages(ask("1 / time_us").variant), 3);
}

TEST_F(TuneFor, AnObjectiveThatNoVariantHasIsOneError) {
  EXPECT_THAT([&] { tune_for("1 / (time_us - time_us)"); },
              ::testing::ThrowsMessage<Error>(Not(IsEmpty())));
}

}  // namespace
}  // namespace swr
