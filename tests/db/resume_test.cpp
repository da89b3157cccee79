// SPDX-License-Identifier: MIT
// Which results a run takes over from earlier ones.
#include "tests/db/fixtures.h"

#include <functional>

namespace swr {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class Resume : public ::testing::Test {
 protected:
  static RunInfo resumable_run() {
    RunInfo run = some_run();
    run.conditions = "samples=20";
    return run;
  }
  static RunInfo forced_run() {
    RunInfo run = resumable_run();
    run.starts_over = true;
    return run;
  }
  void record(long long run_id, const Variant& variant, double median_us) {
    store_.record(run_id, problem_of(4096), fictional_gpu(), measured(variant, median_us));
  }
  std::vector<StoredResult> known(long long run_id) const {
    return store_.known_results(run_id, problem_of(4096), fictional_gpu());
  }
  std::vector<StoredResult> known_to(const RunInfo& run) { return known(store_.begin_run(run)); }

  TempDirectory directory_;
  Store store_{directory_ / "tuned.db", Store::Mode::read_write};
};

TEST_F(Resume, TakesOverWhatARunOfTheSameKindMeasured) {
  record(store_.begin_run(resumable_run()), tile(64, 64), 10.0);
  const auto results = known_to(resumable_run());
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].result.variant, tile(64, 64));
  EXPECT_EQ(results[0].result.measurement()->samples_us, std::vector<double>{10.0});
}

TEST_F(Resume, TakesNothingFromOtherVersionsConditionsOrProblems) {
  record(store_.begin_run(resumable_run()), tile(64, 64), 10.0);
  const std::vector<std::function<void(RunInfo&)>> changes{
      [](RunInfo& run) { run.templates_digest = "other"; },
      [](RunInfo& run) { run.nvrtc_version = "12.9"; },
      [](RunInfo& run) { run.driver_version = "12.9"; },
      [](RunInfo& run) { run.l2_state = "cold"; },
      [](RunInfo& run) { run.conditions = "samples=5"; },
      [](RunInfo& run) { run.conditions = ""; },
      [](RunInfo& run) { run.starts_over = true; }};
  for (const auto& change : changes) {
    RunInfo run = resumable_run();
    change(run);
    EXPECT_THAT(known_to(run), IsEmpty());
  }
  const long long again = store_.begin_run(resumable_run());
  EXPECT_THAT(store_.known_results(again, problem_of(8192), fictional_gpu()), IsEmpty());
}

TEST_F(Resume, StrategyAndBudgetDoNotMatter) {
  record(store_.begin_run(resumable_run()), tile(64, 64), 10.0);
  RunInfo run = resumable_run();
  run.strategy = "model";
  run.max_variants = 8;
  run.max_s = 2.5;
  EXPECT_THAT(known_to(run), SizeIs(1));
}

TEST_F(Resume, RunsWithoutConditionsContinueNothing) {
  record(store_.begin_run(some_run()), tile(64, 64), 10.0);
  EXPECT_THAT(known_to(some_run()), IsEmpty());
}

TEST_F(Resume, TakesPredictionsAndThrottledResultsAnew) {
  const long long run = store_.begin_run(resumable_run());
  store_.record(run, problem_of(4096), fictional_gpu(), predicted(tile(64, 64), 10.0));
  VariantResult throttled = measured(tile(128, 64), 10.0);
  throttled.state = ResultState::throttled;
  store_.record(run, problem_of(4096), fictional_gpu(), throttled);
  EXPECT_THAT(known_to(resumable_run()), IsEmpty());
}

TEST_F(Resume, AnInterruptedForcedRunIsContinuedWithoutWhatLiesBeforeIt) {
  const long long old = store_.begin_run(resumable_run());
  record(old, tile(64, 64), 10.0);
  record(old, tile(128, 64), 20.0);
  record(store_.begin_run(forced_run()), tile(64, 64), 11.0);
  const auto results = known_to(resumable_run());
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].result.time_us(), 11.0);
}

TEST_F(Resume, ForcingOneProblemKeepsTheResultsOfOthers) {
  const long long old = store_.begin_run(resumable_run());
  record(old, tile(64, 64), 10.0);
  const long long forced = store_.begin_run(forced_run());
  store_.record(forced, problem_of(8192), fictional_gpu(), measured(tile(64, 64), 40.0));
  EXPECT_THAT(known_to(resumable_run()), SizeIs(1));
}

TEST_F(Resume, KeepsWhatTheRunWasAskedAndWhetherItFinished) {
  RunInfo run = forced_run();
  run.strategy = "model";
  run.max_variants = 8;
  run.max_s = 2.5;
  const long long id = store_.begin_run(run);
  record(id, tile(64, 64), 10.0);
  store_.finish_run(id);
  const RunInfo stored = store_.run_of(known(id).front().id);
  EXPECT_EQ(stored.strategy, "model");
  EXPECT_EQ(stored.max_variants, 8);
  EXPECT_EQ(stored.max_s, 2.5);
  EXPECT_TRUE(stored.starts_over);
  EXPECT_EQ(error_of([&] { store_.finish_run(id + 1); }).code(), ErrorCode::invalid_argument);
}

std::vector<Finalist> finalists() {
  VariantResult winner = measured(tile(64, 64), 10.5);
  std::get<Measurement>(winner.outcome).sampling = Sampling::finals;
  VariantResult other = measured(tile(32, 32), 10.6);
  std::get<Measurement>(other.outcome).sampling = Sampling::finals;
  return {{.result = winner, .tied = true},
          {.result = other, .ratio = 1.01, .ratio_low = 1.005, .ratio_high = 1.02}};
}

TEST_F(Resume, KnowsTheDecisionItsThresholdAndTheScreeningBeforeIt) {
  const long long run = store_.begin_run(resumable_run());
  record(run, tile(64, 64), 10.0);
  store_.record_decision(run, problem_of(4096), fictional_gpu(), finalists(), 0.004);
  const auto known =
      store_.known_decision(store_.begin_run(resumable_run()), problem_of(4096), fictional_gpu());
  ASSERT_TRUE(known);
  EXPECT_EQ(known->tie_threshold, 0.004);
  ASSERT_THAT(known->finalists, SizeIs(2));
  EXPECT_EQ(known->finalists[0].result.variant, tile(64, 64));
  EXPECT_EQ(known->finalists[0].result.time_us(), 10.5);
  EXPECT_TRUE(known->finalists[0].tied);
  EXPECT_EQ(known->finalists[1].ratio_high, 1.02);
  EXPECT_FALSE(known->finalists[1].tied);
  EXPECT_THAT(known->screening_us, ::testing::ElementsAre(std::optional(10.0), std::nullopt));
}

TEST_F(Resume, KnowsNoDecisionOfOtherRuns) {
  const auto known_to_run = [&](const RunInfo& info) {
    return store_.known_decision(store_.begin_run(info), problem_of(4096), fictional_gpu());
  };
  EXPECT_FALSE(known_to_run(resumable_run()));
  RunInfo cold = resumable_run();
  cold.l2_state = "cold";
  store_.record_decision(store_.begin_run(cold), problem_of(4096), fictional_gpu(), finalists(),
                         0.005);
  EXPECT_FALSE(known_to_run(resumable_run()));
  EXPECT_TRUE(known_to_run(cold));
  EXPECT_FALSE(known_to_run(forced_run()));
}

}  // namespace
}  // namespace swr
