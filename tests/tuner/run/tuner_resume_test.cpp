// SPDX-License-Identifier: MIT
// Runs that are killed, interrupted or out of time, and the ones that continue them. NVRTC, the
// generator and the store are as they are; only the GPU is faked.
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tuner/run/tuner.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>

#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

class ResumedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.space.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}};
    options_.space.restrictions = {{"stages", {1LL, 2LL, 3LL}},
                                   {"order", {std::string("cyclic"), std::string("sawtooth")}},
                                   {"persistence", {std::string("persistent")}}};
    options_.compile_threads = 2;
    evaluator_.script = [](VariantResult& result) {
      Measurement measurement;
      measurement.median_us = measurement.p95_us = 1.0 + attention(result.variant).stages;
      measurement.samples_us = {measurement.median_us};
      result.outcome = measurement;
      if (attention(result.variant).order == Order::sawtooth) {
        result.state = ResultState::correctness;
      }
    };
  }

  /// Tunes under a new run in the named database.
  TuneReport tune_in(const char* database, bool starts_over = false) {
    Store store(directory_ / database, Store::Mode::read_write);
    GeneratorOptions generator_options;
    generator_options.cache_dir = directory_ / "cache";
    const Generator generator(generator_options);
    options_.run_id = store.begin_run({.command = "test",
                                       .swr_version = "0",
                                       .templates_digest = "digest",
                                       .nvrtc_version = "0.0",
                                       .driver_version = "0.0",
                                       .l2_state = "warm",
                                       .conditions = "fake",
                                       .starts_over = starts_over});
    QuietProgress progress;
    evaluator_.keys.clear();
    return tune(problem_, evaluator_, generator, store, options_, progress);
  }

  /// Runs tune_in in a child that dies by SIGKILL in its nth evaluation.
  void tune_and_die(const char* database, std::size_t nth) {
    const pid_t child = fork();
    if (child == 0) {
      const auto script = evaluator_.script;
      evaluator_.script = [this, script, nth](VariantResult& result) {
        if (evaluator_.keys.size() == nth) {
          raise(SIGKILL);
        }
        script(result);
      };
      tune_in(database);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  std::size_t rows(const char* database) {
    return Store(directory_ / database, Store::Mode::read_only)
        .results(problem_, evaluator_.device())
        .size();
  }

  static std::vector<std::string> keys_of(const TuneReport& report) {
    std::vector<std::string> keys;
    for (const VariantResult& result : report.results) {
      keys.push_back(to_key(result.variant));
    }
    return keys;
  }

  TempDirectory directory_;
  AttentionProblem problem_{.seq_q = 512, .seq_kv = 512, .head_dim = 16};
  test::FakeEvaluator evaluator_{test::fictional_device()};
  TuneOptions options_;
};

TEST_F(ResumedRun, ContinuesAfterKillMinus9AndFindsWhatAnUninterruptedRunFinds) {
  const TuneReport whole = tune_in("whole.db");
  ASSERT_THAT(whole.results, SizeIs(6));
  tune_and_die("killed.db", 5);
  const std::size_t survived = rows("killed.db");
  EXPECT_EQ(survived, 4U);
  const TuneReport continued = tune_in("killed.db");
  EXPECT_EQ(continued.known, survived);
  EXPECT_THAT(evaluator_.keys, SizeIs(6 - survived));
  EXPECT_EQ(rows("killed.db"), 6U);
  ASSERT_THAT(continued.results, SizeIs(6));
  EXPECT_EQ(to_key(continued.best()->variant), to_key(whole.best()->variant));
  EXPECT_THAT(keys_of(continued), ::testing::UnorderedElementsAreArray(keys_of(whole)));
}

TEST_F(ResumedRun, CountsWhatAKilledRunMeasuredButDidNotCount) {
  tune_in("other.db");  // With its cubins in the cache, the next run ends before it would count.
  tune_and_die("killed.db", 5);
  {
    const Store store(directory_ / "killed.db", Store::Mode::read_only);
    for (const StoredResult& row : store.results(problem_, evaluator_.device())) {
      EXPECT_EQ(row.result.state == ResultState::ok,
                row.result.measurement()->counters_missing_because == "not counted yet");
    }
  }
  tune_in("killed.db");
  const Store store(directory_ / "killed.db", Store::Mode::read_only);
  for (const StoredResult& row : store.results(problem_, evaluator_.device())) {
    if (row.result.state == ResultState::ok) {
      EXPECT_EQ(row.result.measurement()->counters_missing_because, "a fake has no counters");
    }
  }
}

TEST_F(ResumedRun, ContinuesAfterAnInterruptWithEverythingThatWasMeasured) {
  options_.stop_requested = [this] { return evaluator_.keys.size() == 4; };
  EXPECT_TRUE(tune_in("tuned.db").interrupted);
  options_.stop_requested = [] { return false; };
  const TuneReport continued = tune_in("tuned.db");
  EXPECT_EQ(continued.known, 4U);
  EXPECT_THAT(evaluator_.keys, SizeIs(2));
}

TEST_F(ResumedRun, AnswersAFinishedRunFromTheDatabase) {
  const TuneReport first = tune_in("tuned.db");
  const TuneReport second = tune_in("tuned.db");
  EXPECT_THAT(evaluator_.keys, IsEmpty());
  EXPECT_EQ(second.known, 6U);
  EXPECT_EQ(second.kernels_compiled, 0U);
  EXPECT_EQ(to_key(second.best()->variant), to_key(first.best()->variant));
}

TEST_F(ResumedRun, ShowsTheDecisionAndBothMediansOfFinalsHeldBefore) {
  evaluator_.script = [](VariantResult& result) {
    Measurement measurement;
    measurement.median_us = measurement.p95_us = 10.0 + 0.1 * attention(result.variant).stages;
    measurement.samples_us = {measurement.median_us};
    result.outcome = measurement;
  };
  // Finals give other times than the screening.
  evaluator_.race_factor = 1.1;
  const TuneReport first = tune_in("tuned.db");
  ASSERT_FALSE(first.finalists.empty());
  EXPECT_FALSE(first.decided_before);
  const TuneReport second = tune_in("tuned.db");
  EXPECT_TRUE(second.decided_before);
  ASSERT_EQ(second.finalists.size(), first.finalists.size());
  for (std::size_t i = 0; i < first.finalists.size(); ++i) {
    EXPECT_EQ(second.finalists[i].result.variant, first.finalists[i].result.variant);
    EXPECT_EQ(second.finalists[i].ratio, first.finalists[i].ratio);
    EXPECT_EQ(second.finalists[i].tied, first.finalists[i].tied);
  }
  EXPECT_EQ(second.screening_us, first.screening_us);
  EXPECT_EQ(second.tie_threshold, first.tie_threshold);
  EXPECT_EQ(keys_of(second), keys_of(first));
}

TEST_F(ResumedRun, StartsOverWhenForced) {
  tune_in("tuned.db");
  EXPECT_EQ(tune_in("tuned.db", true).known, 0U);
  EXPECT_THAT(evaluator_.keys, SizeIs(6));
}

TEST_F(ResumedRun, AModelSearchRepeatsItsChoicesOnWhatIsKnown) {
  options_.search = {.strategy = StrategyKind::model, .max_variants = 3};
  const TuneReport first = tune_in("tuned.db");
  const TuneReport second = tune_in("tuned.db");
  EXPECT_THAT(evaluator_.keys, IsEmpty());
  EXPECT_EQ(keys_of(second), keys_of(first));
}

TEST_F(ResumedRun, StopsWhenItsTimeIsOver) {
  options_.search.max_s = 1e-9;
  const TuneReport report = tune_in("tuned.db");
  EXPECT_TRUE(report.out_of_time);
  EXPECT_FALSE(report.interrupted);
  EXPECT_THAT(report.results, IsEmpty());
}

}  // namespace
}  // namespace swr
