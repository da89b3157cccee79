// SPDX-License-Identifier: MIT
// What runs leave in a database: their history, questions without an answer, what a later run
// resumes.
#include "db/history.h"

#include "db/missed_questions.h"
#include "tests/db/fixtures.h"
#include "tests/support/with.h"
#include <swr/gemm_problem.h>

#include <sys/stat.h>

namespace swr {
namespace {

TEST(History, HoldsEveryResultInTheOrderRecorded) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  {
    Store store(path, Store::Mode::read_write);
    const long long run_id = store.begin_run(some_run());
    store.record(run_id, problem_of(512), fictional_gpu(), measured(tile(64, 64), 20.0));
    store.record(run_id, problem_of(512), fictional_gpu(), predicted(tile(64, 64), 18.0));
    store.record(run_id, problem_of(512), fictional_gpu(), measured(tile(64, 64), 19.0));
    store.record(run_id, problem_of(256), fictional_gpu(), measured(tile(32, 32), 5.0));
    store.finish_run(run_id);
    store.begin_run(some_run());
  }
  const History history = read_history(path);
  ASSERT_THAT(history.runs, SizeIs(2));
  EXPECT_EQ(history.runs[0].info.command, some_run().command);
  EXPECT_TRUE(history.runs[0].finished_at);
  EXPECT_FALSE(history.runs[1].finished_at);
  ASSERT_THAT(history.places, SizeIs(2));
  EXPECT_EQ(history.places[0].problem, problem_of(256));
  std::vector<double> times;
  for (const RecordedResult& recorded : history.places[1].results) {
    times.push_back(recorded.result.time_us());
  }
  EXPECT_THAT(times, ElementsAre(20.0, 18.0, 19.0));
}

TEST(History, HoldsDecisionsWithTheirFinalistsByRatio) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  {
    Store store(path, Store::Mode::read_write);
    const long long run_id = store.begin_run(some_run());
    const std::vector<Finalist> finalists{
        {measured(tile(64, 64), 10.0), 1.0, 1.0, 1.0, true},
        {measured(tile(32, 32), 12.0), 1.2, 1.19, 1.21, false},
        {measured(tile(128, 64), 9.99), 0.999, 0.998, 1.001, true}};
    store.record_decision(run_id, problem_of(512), fictional_gpu(), finalists, 0.005);
  }
  const History history = read_history(path);
  ASSERT_THAT(history.places, SizeIs(1));
  ASSERT_THAT(history.places[0].decisions, SizeIs(1));
  const RecordedDecision& decision = history.places[0].decisions[0];
  EXPECT_EQ(decision.tie_threshold, 0.005);
  ASSERT_THAT(decision.finalists, SizeIs(3));
  EXPECT_DOUBLE_EQ(decision.finalists[0].ratio, 0.999);
  EXPECT_TRUE(decision.finalists[0].tied);
  EXPECT_DOUBLE_EQ(decision.finalists[2].ratio_high, 1.21);
  EXPECT_FALSE(decision.finalists[2].tied);
  EXPECT_EQ(decision.finalists[1].result_id, decision.winner_id);
  EXPECT_EQ(decision.finalists[1].rounds, 1);
}

TEST(History, PoolsRowsOfOneDeviceUnderSeveralNames) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  {
    Store store(path, Store::Mode::read_write);
    const long long run_id = store.begin_run(some_run());
    DeviceInfo renamed = fictional_gpu();
    renamed.name = "Fictional F1 PCIe";
    store.record(run_id, problem_of(512), fictional_gpu(), measured(tile(64, 64), 20.0));
    store.record(run_id, problem_of(512), renamed, measured(tile(32, 32), 21.0));
  }
  const History history = read_history(path);
  ASSERT_THAT(history.places, SizeIs(1));
  EXPECT_THAT(history.places[0].results, SizeIs(2));
  EXPECT_EQ(history.places[0].device.name, "Fictional F1");
}

TEST(History, MissingFileIsAClearError) {
  const TempDirectory directory;
  const auto error = error_of([&] { read_history(directory / "none.db"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
}

// Questions without an exact answer, noted while programs serve.

class MissedQuestionsTest : public ::testing::Test {
 protected:
  TempDirectory directory_;
  std::filesystem::path file_ = missed_questions_path(directory_ / "tuned.db");
};

TEST_F(MissedQuestionsTest, LieBesideTheDatabaseAndNoneAreThereAtFirst) {
  EXPECT_EQ(file_, directory_ / "tuned.db.missed");
  EXPECT_THAT(read_missed_questions(file_), IsEmpty());
}

TEST_F(MissedQuestionsTest, AreNotedOnceAProcessWhateverTheOperation) {
  const GemmProblem product{.m = 17, .n = 4096, .k = 4096};
  MissedQuestions missed(file_);
  for (int i = 0; i < 3; ++i) {
    missed.note(problem_of(5000));
    missed.note(product);
  }
  EXPECT_THAT(read_missed_questions(file_),
              ElementsAre(Problem(problem_of(5000)), Problem(product)));
}

TEST_F(MissedQuestionsTest, AreNotWrittenThroughALink) {
  const auto other = directory_.write("other", "of mine");
  std::filesystem::create_symlink(other, file_);
  MissedQuestions(file_).note(problem_of(1000));
  EXPECT_EQ(std::filesystem::file_size(other), 7U);
}

TEST_F(MissedQuestionsTest, ComeMostAskedFirst) {
  MissedQuestions(file_).note(problem_of(1000));
  for (int process = 0; process < 3; ++process) {
    MissedQuestions(file_).note(problem_of(2000));
  }
  EXPECT_THAT(read_missed_questions(file_),
              ElementsAre(Problem(problem_of(2000)), Problem(problem_of(1000))));
}

TEST_F(MissedQuestionsTest, OfSeveralThreadsAreAllThere) {
  MissedQuestions missed(file_);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&missed, thread] {
      for (int i = 1; i <= 100; ++i) {
        missed.note(problem_of(1000 * thread + i));
        missed.note(problem_of(i));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(read_missed_questions(file_).size(), 400U);
}

TEST_F(MissedQuestionsTest, AreBounded) {
  MissedQuestions missed(file_);
  for (int i = 1; i <= 5000; ++i) {
    missed.note(problem_of(i));
  }
  EXPECT_EQ(read_missed_questions(file_).size(), 4096U);
  for (int process = 0; process < 3; ++process) {
    MissedQuestions more(file_);
    for (int i = 10000; i < 14000; ++i) {
      more.note(problem_of(i));
    }
  }
  EXPECT_LE(std::filesystem::file_size(file_), 1U << 20U);
}

TEST_F(MissedQuestionsTest, ThatCannotBeWrittenAreNone) {
  MissedQuestions(directory_ / "none" / "tuned.db.missed").note(problem_of(1));
  MissedQuestions(directory_.path()).note(problem_of(1));
  ASSERT_EQ(mkfifo((directory_ / "pipe").c_str(), 0644), 0);
  MissedQuestions(directory_ / "pipe").note(problem_of(1));
  EXPECT_TRUE(std::filesystem::is_fifo(directory_ / "pipe"));
}

TEST_F(MissedQuestionsTest, ThatAreAnsweredAreForgottenAndTheOthersStay) {
  MissedQuestions missed(file_);
  for (const int length : {1000, 2000, 3000}) {
    missed.note(problem_of(length));
  }
  forget_missed_questions(
      file_, [](const Problem& problem) { return problem == Problem(problem_of(2000)); });
  EXPECT_THAT(read_missed_questions(file_),
              ElementsAre(Problem(problem_of(1000)), Problem(problem_of(3000))));
  forget_missed_questions(file_, [](const Problem&) { return true; });
  EXPECT_THAT(read_missed_questions(file_), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path())) << "nothing is left beside it";
}

TEST_F(MissedQuestionsTest, AFileOfAnotherKindIsRefusedWithItsLine) {
  MissedQuestions(file_).note(problem_of(1000));
  std::ofstream(file_, std::ios::app) << "seq=4096\n";
  const Error error = error_of([&] { (void)read_missed_questions(file_); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("line 2 of " + file_.string()));
}

// Which results a run takes over from earlier ones.

class Resume : public ::testing::Test {
 protected:
  static RunInfo resumable_run() { return with(some_run(), &RunInfo::conditions, "samples=20"); }
  static RunInfo forced_run() { return with(resumable_run(), &RunInfo::starts_over, true); }
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
