// SPDX-License-Identifier: MIT
// swr-tune --gpus with NVRTC, the generator, the database and the reports as they are; only the
// GPUs are faked, in this process or in measuring processes.
#include "tuner/cli/team_tuning.h"

#include "tests/support/fake_evaluator.h"
#include "tests/support/kept_folder.h"
#include "tests/support/test.h"
#include "tests/support/waiting.h"
#include "tests/tuner/supervise/supervision.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <condition_variable>
#include <latch>

namespace swr::cli {
namespace {

using namespace test;
using ::testing::Ge;

/// A measured time that follows from the variant; all are close enough to meet in finals.
void measured_by_stages(VariantResult& result) {
  Measurement measurement;
  measurement.median_us = measurement.p95_us =
      10.0 + 0.1 * result.variant.as<AttentionVariant>().stages;
  measurement.samples_us = {measurement.median_us};
  result.outcome = measurement;
}

/// Tunes four problems with three variants each on fake GPUs.
class TeamTuningTest : public ::testing::Test {
 protected:
  using Start = std::function<std::unique_ptr<Evaluator>(const GpuChoice&)>;

  static constexpr std::size_t kVariants = 3;

  TeamTuningTest() {
    for (const int seq : {64, 128, 192, 256}) {
      problems_.push_back(AttentionProblem{.seq_q = seq, .seq_kv = seq, .head_dim = 16});
    }
    tune_options_.space.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}};
    tune_options_.space.restrictions = {{"stages", {1LL, 2LL, 3LL}},
                                        {"order", {std::string("cyclic")}},
                                        {"persistence", {std::string("grid")}}};
    tune_options_.compile_threads = 2;
  }

  /// Takes `order` of the problems; returns what run_team() threw.
  std::optional<Error> tune(int gpus, const std::vector<std::size_t>& order, const Start& start) {
    std::vector<std::string> arguments{
        "tune", "--seq", "64", "--gpus", "all", "--db", database().string(), "--json", "--quiet"};
    arguments.insert(arguments.end(), more_arguments_.begin(), more_arguments_.end());
    const ParsedCommand parsed = parse_command(arguments);
    const TuneSession session{{.common = parsed.common,
                               .environment = {},
                               .command_line = "test",
                               .arguments = arguments,
                               .out = out_,
                               .err = err_},
                              parsed.arguments<TuneArguments>()};
    const InterruptListener interrupt;
    tune_options_.stop_requested = [&interrupt] { return interrupt.interrupted(); };
    const ShardChoice everything;
    WorkSource work(session, everything, std::vector<std::string>(problems_.size()), order);
    const Generator generator(GeneratorOptions{.cache_dir = kept_kernels()});
    ReportSink sink(session, document(session, Provenance::measured, fictional_device()));
    std::vector<int> numbers;
    std::vector<GpuChoice> choices;
    for (int i = 0; i < gpus; ++i) {
      numbers.push_back(i);
      choices.push_back({.device = fictional_device(),
                         .profile = std::nullopt,
                         .ordinal = i,
                         .card = "card " + std::to_string(i)});
    }
    ProgressSinks progress(session, numbers, problems_.size());
    ReportOrder reports(sink, progress, [](const TuneReport&) { return ""; }, {0, 1, 2, 3});
    TeamTuning tuning({start, session, generator, interrupt, problems_, work, reports, progress},
                      choices, tune_options_,
                      {.command = "test",
                       .swr_version = "0",
                       .templates_digest = "digest",
                       .nvrtc_version = "0.0",
                       .driver_version = "0.0",
                       .l2_state = "warm",
                       .conditions = "fake",
                       .starts_over = session.options.repeat > 1});
    std::optional<Error> failure;
    try {
      run_team(
          numbers, [&] { return work.next(tune_options_.stop_requested); }, tuning);
    } catch (const Error& error) {
      failure = error;
    }
    tuning.finish();
    reports.finish();
    sink.add(tuning.histories());
    sink.finish();
    histories_ = tuning.histories();
    interrupted_ = interrupt.interrupted();
    return failure;
  }

  std::unique_ptr<Evaluator> fake(FakeEvaluator::Script script = measured_by_stages) const {
    auto evaluator = std::make_unique<FakeEvaluator>(fictional_device());
    evaluator->script = std::move(script);
    return evaluator;
  }

  /// The first column of the rows.
  std::vector<std::string> rows(const std::string& query) const {
    SQLite::Database file(database().string(), SQLite::OPEN_READONLY);
    SQLite::Statement row(file, query);
    std::vector<std::string> rows;
    while (row.executeStep()) {
      rows.push_back(row.getColumn(0).getString());
    }
    return rows;
  }

  /// Every problem has one decision, and every variant one screening and one row of the finals.
  void expect_everything_once() const {
    EXPECT_THAT(rows("SELECT count(*) FROM decision GROUP BY problem_id"),
                ElementsAre("1", "1", "1", "1"));
    EXPECT_THAT(rows("SELECT count(*) FROM result WHERE sampling = 'screening' "
                     "GROUP BY problem_id, variant_id"),
                AllOf(SizeIs(problems_.size() * kVariants), Each("1")));
    EXPECT_THAT(rows("SELECT DISTINCT stages FROM attention_results WHERE won"), ElementsAre("1"));
  }

  std::vector<int> reported_lengths() const {
    std::vector<int> lengths;
    const Json printed = Json::parse(out_.str());
    for (const Json& report : printed.at("reports")) {
      lengths.push_back(report.at("problem").at("seq_q").get<int>());
    }
    return lengths;
  }

  std::filesystem::path database() const { return files_ / "tuned.db"; }

  TempDirectory files_;
  std::vector<Problem> problems_;
  TuneOptions tune_options_;
  std::vector<std::string> more_arguments_;
  std::ostringstream out_;
  std::ostringstream err_;
  std::vector<GpuHistory> histories_;
  bool interrupted_ = false;
};

const std::vector<std::size_t> kLongestFirst{3, 2, 1, 0};

TEST_F(TeamTuningTest, TunesEveryProblemOnceIntoOneDatabaseAndReportsInOrder) {
  EXPECT_FALSE(tune(3, kLongestFirst, [&](const GpuChoice&) { return fake(); }));
  expect_everything_once();
  EXPECT_THAT(reported_lengths(), ElementsAre(64, 128, 192, 256));
  EXPECT_THAT(rows("SELECT count(*) FROM run WHERE finished_at IS NOT NULL"), ElementsAre("1"));
  EXPECT_THAT(rows("SELECT count(*) FROM device"), ElementsAre("1"));
}

TEST_F(TeamTuningTest, EveryGpuMeasuresTheReferenceBeforeBetweenAndAfterItsProblems) {
  std::mutex mutex;
  std::map<int, double> slowdown{{0, 0.0}, {1, 0.0}};
  const auto start = [&](const GpuChoice& gpu) {
    return fake([&, gpu](VariantResult& result) {
      measured_by_stages(result);
      const std::lock_guard lock(mutex);
      std::get<Measurement>(result.outcome).median_us += slowdown[gpu.ordinal];
      slowdown[gpu.ordinal] += gpu.ordinal;  // GPU 1 grows slower, GPU 0 does not.
    });
  };
  EXPECT_FALSE(tune(2, {0, 1, 2, 3}, start));
  std::size_t problems = 0;
  for (const GpuHistory& history : histories_) {
    ASSERT_THAT(history.references, SizeIs(Ge(1U)));
    EXPECT_EQ(history.references.front().tuned, "");
    problems += history.references.size() - 1;
  }
  EXPECT_EQ(problems, problems_.size());
  EXPECT_EQ(gpu_speeds(histories_)[0]->spread, 0.0);
  if (histories_[1].references.size() > 1) {
    EXPECT_GT(gpu_speeds(histories_)[1]->spread, 0.03);
  }
  const Store store(database(), Store::Mode::read_only);
  EXPECT_THAT(store.references(1), SizeIs(problems_.size() + 2));
  EXPECT_THAT(rows("SELECT DISTINCT card FROM gpu_reference ORDER BY card"),
              ElementsAre("card 0", "card 1"));
  EXPECT_THAT(rows("SELECT tuned FROM gpu_reference WHERE tuned <> '' GROUP BY tuned"),
              SizeIs(problems_.size()));
  const Json gpus = Json::parse(out_.str()).at("gpus");
  EXPECT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].at("references").size(), histories_[0].references.size());
}

TEST_F(TeamTuningTest, AReferenceAnswersNoQuestion) {
  EXPECT_FALSE(tune(2, {0, 1, 2, 3}, [&](const GpuChoice&) { return fake(); }));
  const Store store(database(), Store::Mode::read_only);
  EXPECT_THAT(store.results(reference_problem(), fictional_device()), IsEmpty());
}

TEST_F(TeamTuningTest, WhatALostGpuBeganAnotherContinuesWithoutMeasuringTwice) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_lost = false;
  const auto start = [&](const GpuChoice& gpu) {
    auto evaluations = std::make_shared<int>(0);
    return fake([&, gpu, evaluations](VariantResult& result) {
      std::unique_lock lock(mutex);
      ++*evaluations;
      // The reference, then two variants of its first problem; the other waits with its own.
      if (gpu.ordinal == 1 && *evaluations == 4) {
        is_lost = true;
        changed.notify_all();
        throw Error(ErrorCode::driver_failed, "GPU 1 fell off the bus");
      }
      if (gpu.ordinal == 0 && *evaluations > 1) {
        changed.wait(lock, [&] { return is_lost; });
      }
      measured_by_stages(result);
    });
  };
  EXPECT_FALSE(tune(2, {0, 1, 2, 3}, start));
  expect_everything_once();
  EXPECT_THAT(reported_lengths(), ElementsAre(64, 128, 192, 256));
  EXPECT_THAT(histories_[1].lost_because, HasSubstr("fell off the bus"));
  EXPECT_THAT(histories_[1].references, SizeIs(1));
  EXPECT_THAT(histories_[0].references, SizeIs(5));
  EXPECT_THAT(err_.str(), HasSubstr("note: GPU 1 measures no further"));
  EXPECT_THAT(rows("SELECT count(*) FROM run WHERE finished_at IS NOT NULL"), ElementsAre("1"));
}

TEST_F(TeamTuningTest, RepetitionsOfAProblemBelongTogether) {
  more_arguments_ = {"--repeat", "2"};
  EXPECT_FALSE(tune(2, kLongestFirst, [&](const GpuChoice&) { return fake(); }));
  EXPECT_THAT(reported_lengths(), ElementsAre(64, 64, 128, 128, 192, 192, 256, 256));
  EXPECT_THAT(rows("SELECT count(*) FROM decision GROUP BY run_id"), ElementsAre("4", "4"));
  const Json agreement = Json::parse(out_.str()).at("repeatability");
  EXPECT_EQ(agreement.at("problems").size(), 4U);
  EXPECT_EQ(agreement.at("identical_share"), 1.0);
}

TEST_F(TeamTuningTest, CtrlCEndsAllGpusAfterTheVariantInHandAndALaterRunContinues) {
  std::atomic<int> waiting = 0;
  const auto start = [&](const GpuChoice&) {
    auto evaluations = std::make_shared<int>(0);
    return fake([&, evaluations](VariantResult& result) {
      if (++*evaluations == 3) {  // The reference and one variant are stored.
        if (++waiting == 2) {
          kill(getpid(), SIGINT);
        }
        EXPECT_TRUE(comes_true([&] { return waiting >= 2 && tune_options_.stop_requested(); }));
      }
      measured_by_stages(result);
    });
  };
  EXPECT_FALSE(tune(2, {0, 1, 2, 3}, start));
  EXPECT_TRUE(interrupted_);
  EXPECT_THAT(rows("SELECT id FROM result"), SizeIs(4));
  EXPECT_THAT(rows("SELECT id FROM decision"), IsEmpty());
  EXPECT_THAT(rows("SELECT id FROM run WHERE finished_at IS NOT NULL"), IsEmpty());
  EXPECT_THAT(reported_lengths(), ElementsAre(64, 128));
  out_.str("");
  EXPECT_FALSE(tune(2, {0, 1, 2, 3}, [&](const GpuChoice&) { return fake(); }));
  expect_everything_once();
}

/// Waits before it measures anything.
class GatedEvaluator final : public Evaluator {
 public:
  GatedEvaluator(std::unique_ptr<Evaluator> evaluator, const std::latch& gate)
      : evaluator_(std::move(evaluator)), gate_(gate) {}

  const DeviceInfo& device() const override { return evaluator_->device(); }
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    gate_.wait();
    return evaluator_->evaluate(problem, variant, kernel);
  }
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override {
    return evaluator_->count(problem, contenders);
  }
  std::vector<AccessReading> count_accesses(const Problem& problem,
                                            std::span<const Contender> contenders) override {
    return evaluator_->count_accesses(problem, contenders);
  }
  std::vector<PowerReading> measure_power(const Problem& problem,
                                          std::span<const Contender> contenders) override {
    return evaluator_->measure_power(problem, contenders);
  }
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    return evaluator_->race(problem, contenders, options);
  }

 private:
  std::unique_ptr<Evaluator> evaluator_;
  const std::latch& gate_;
};

/// The same on measuring processes, one for each of four fake GPUs. One of them is killed in the
/// middle of its first problem, while the others have not begun; the number of workers says how a
/// variant behaves.
class ProcessTeamTest : public TeamTuningTest {
 protected:
  static constexpr int kVictim = 2;

  ProcessTeamTest() {
    tune_options_.space.restrictions["stages"] = {1LL};
    tune_options_.space.restrictions["persistence"] = {std::string("persistent")};
    tune_options_.space.restrictions["workers"] = {std::int64_t{kGood}, std::int64_t{kWaitsOnce},
                                                   std::int64_t{kIsWrong}};
  }

  /// Tunes, and kills the victim's process; `before` that something else is done.
  void tune_and_kill(const std::function<void()>& before) {
    std::latch killed(1);
    std::thread killer([&] {
      const Meeting meeting(directories_[kVictim].path());
      before();
      kill(meeting.process(), SIGKILL);
      killed.count_down();
    });
    const auto failure =
        tune(4, {0, 1, 2, 3}, [&](const GpuChoice& gpu) { return start(gpu.ordinal, killed); });
    killer.join();
    EXPECT_FALSE(failure) << failure->what();
  }

  void expect_every_row_once() const {
    EXPECT_THAT(rows("SELECT count(*) FROM result GROUP BY problem_id, variant_id"),
                AllOf(SizeIs(problems_.size() * kVariants), Each("1")));
    EXPECT_THAT(
        rows("SELECT DISTINCT workers || ' ' || state FROM attention_results ORDER BY workers"),
        ElementsAre(std::to_string(kGood) + " ok", std::to_string(kIsWrong) + " correctness",
                    std::to_string(kWaitsOnce) + " ok"));
    EXPECT_THAT(reported_lengths(), ElementsAre(64, 128, 192, 256));
  }

  std::array<WorkerDirectory, 4> directories_;

 private:
  std::unique_ptr<Evaluator> start(int gpu, const std::latch& killed) const {
    const WorkerDirectory& directory = directories_[static_cast<std::size_t>(gpu)];
    auto evaluator = std::make_unique<SupervisedEvaluator>(directory.options(kDiesWhenGone));
    if (gpu == kVictim) {
      return evaluator;
    }
    // Nobody meets these: what waits once has waited.
    std::ofstream(directory.path() / ("seen-" + std::to_string(kWaitsOnce)));
    return std::make_unique<GatedEvaluator>(std::move(evaluator), killed);
  }
};

TEST_F(ProcessTeamTest, AKilledMeasuringProcessIsReplacedAndNothingIsLostOrCountedTwice) {
  tune_and_kill([] {});
  expect_every_row_once();
  EXPECT_THAT(histories_[kVictim].lost_because, IsEmpty());
  EXPECT_THAT(histories_[kVictim].references, SizeIs(Ge(2U)));
}

TEST_F(ProcessTeamTest, WhenItCannotBeReplacedTheOthersFinishItsWork) {
  tune_and_kill([this] { std::ofstream(directories_[kVictim].path() / kGoneMark); });
  expect_every_row_once();
  EXPECT_THAT(histories_[kVictim].lost_because, HasSubstr("failed to start 3 times"));
  EXPECT_THAT(histories_[kVictim].references, SizeIs(1));
}

}  // namespace
}  // namespace swr::cli
