// SPDX-License-Identifier: MIT
// Whole tuning runs over a measuring process, disturbed from inside and outside: the run finishes
// or a later one does, the right variant is blamed, nothing stored is lost.
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/kept_folder.h"
#include "tests/support/test.h"
#include "tests/tuner/supervise/supervision.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <sys/resource.h>

namespace swr {
namespace {

using namespace test;
using ::testing::Pair;

const AttentionProblem kProblem{.seq_q = 128, .seq_kv = 128, .head_dim = 16};

/// Stored states by behaviour.
using States = std::map<int, ResultState>;

class SupervisedTuning : public ::testing::Test {
 protected:
  /// Variants that behave so, in this order; they share one kernel.
  TuneOptions options(const std::vector<long long>& behaviours) const {
    TuneOptions options{.space = {.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}}},
                        .compile_threads = 1};
    options.space.restrictions = {{"stages", {1LL}},
                                  {"order", {std::string("cyclic")}},
                                  {"persistence", {std::string("persistent")}},
                                  {"workers", {behaviours.begin(), behaviours.end()}}};
    return options;
  }

  TuneReport run(const std::vector<long long>& behaviours) const {
    const Generator generator(GeneratorOptions{.cache_dir = kept_kernels()});
    SuperviseOptions supervision = directory_.options();
    supervision.deadline = deadline_;
    SupervisedEvaluator evaluator(supervision);
    Store store(database(), Store::Mode::read_write);
    TuneOptions tuning = options(behaviours);
    tuning.run_id = store.begin_run({.command = "test"});
    QuietProgress progress;
    return tune(kProblem, evaluator, generator, store, tuning, progress);
  }

  /// Runs in a process of its own and disturbs it, or its measuring process, at the variant that
  /// waits once, when all before it are stored. Returns the status of the tuner's process, whose
  /// exit code is the code of the Error that ended it.
  int run_disturbed(const std::vector<long long>& behaviours,
                    const std::function<void(pid_t tuner, pid_t worker)>& disturb) const {
    const pid_t tuner = fork();
    if (tuner == 0) {
      _exit(run_to_exit_code(behaviours));
    }
    const Meeting meeting(directory_.path());
    disturb(tuner, meeting.process());
    int status = 0;
    waitpid(tuner, &status, 0);
    meeting.wait_for_its_end();
    return status;
  }

  States stored() const {
    States states;
    const Store store(database(), Store::Mode::read_only);
    for (const StoredResult& row : store.results(kProblem, fictional_device())) {
      states[attention(row.result.variant).workers] = row.result.state;
    }
    return states;
  }

  std::filesystem::path database() const { return files_ / "tuned.db"; }

  WorkerDirectory directory_;
  TempDirectory files_;
  std::optional<std::chrono::milliseconds> deadline_;

 private:
  int run_to_exit_code(const std::vector<long long>& behaviours) const {
    constexpr int kFinished = 0;
    std::signal(SIGXFSZ, SIG_IGN);
    try {
      run(behaviours);
      return kFinished;
    } catch (const Error& error) {
      return static_cast<int>(error.code());
    }
  }
};

/// Stored before the variant that waits, and one after it.
const std::vector<long long> kWaitsInTheMiddle{kIsWrong, kWaitsOnce, kGood};

TEST_F(SupervisedTuning, FinishesARunOverVariantsThatBreakInEveryWay) {
  deadline_ = std::chrono::milliseconds(2000);
  const TuneReport report = run({kCrashes, kHangs, kIsWrong, kFaults, kExhaustsMemory, kGood});
  ASSERT_NE(report.best(), nullptr);
  EXPECT_EQ(attention(report.best()->variant).workers, kGood);
  const States states = stored();
  EXPECT_THAT(states, Contains(Pair(kCrashes, ResultState::crash)));
  EXPECT_THAT(states, Contains(Pair(kHangs, ResultState::timeout)));
  EXPECT_THAT(states, Contains(Pair(kIsWrong, ResultState::correctness)));
  EXPECT_THAT(states, Contains(Pair(kFaults, ResultState::runtime)));
  EXPECT_THAT(states, Contains(Pair(kExhaustsMemory, ResultState::crash)));
  EXPECT_THAT(states, Contains(Pair(kGood, ResultState::ok)));
}

class DisturbedTuning : public SupervisedTuning {
 protected:
  /// The variants that a good run of kWaitsInTheMiddle stores.
  void expect_all_stored() const {
    const States states = stored();
    EXPECT_THAT(states, Contains(Pair(kIsWrong, ResultState::correctness)));
    EXPECT_THAT(states, Contains(Pair(kWaitsOnce, ResultState::ok)));
    EXPECT_THAT(states, Contains(Pair(kGood, ResultState::ok)));
  }
  /// What was stored is still there, and a later run, undisturbed, does the rest.
  void expect_rows_and_a_later_run() const {
    EXPECT_THAT(stored(), Contains(Pair(kIsWrong, ResultState::correctness)));
    run(kWaitsInTheMiddle);
    expect_all_stored();
  }
};

TEST_F(DisturbedTuning, FinishesWhenTheMeasuringProcessIsKilled) {
  const int status = run_disturbed(kWaitsInTheMiddle,
                                   [](pid_t /*tuner*/, pid_t worker) { kill(worker, SIGKILL); });
  EXPECT_EQ(status, 0);
  expect_all_stored();
}

TEST_F(DisturbedTuning, LosesNoRowAndLeavesNoProcessWhenTheTunerIsKilled) {
  const int status =
      run_disturbed(kWaitsInTheMiddle, [](pid_t tuner, pid_t /*worker*/) { kill(tuner, SIGKILL); });
  EXPECT_TRUE(WIFSIGNALED(status));
  expect_rows_and_a_later_run();
}

TEST_F(DisturbedTuning, LosesNoRowWhenTheDiskIsFull) {
  const int status = run_disturbed(kWaitsInTheMiddle, [](pid_t tuner, pid_t worker) {
    const rlimit nothing_more{1, 1};
    prlimit(tuner, RLIMIT_FSIZE, &nothing_more, nullptr);
    kill(worker, SIGKILL);
  });
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ErrorCode::not_writable));
  expect_rows_and_a_later_run();
}

TEST_F(DisturbedTuning, LosesNoRowWhenAnotherProcessLocksTheDatabase) {
  std::optional<SQLite::Database> other;
  const int status = run_disturbed(kWaitsInTheMiddle, [&](pid_t /*tuner*/, pid_t worker) {
    other.emplace(database().string(), SQLite::OPEN_READWRITE);
    other->exec("BEGIN IMMEDIATE");
    kill(worker, SIGKILL);
  });
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ErrorCode::database_locked));
  other.reset();
  expect_rows_and_a_later_run();
}

}  // namespace
}  // namespace swr
