// SPDX-License-Identifier: MIT
// The tuning story with NVRTC, the generator and the store as they are; only the GPU is faked.
#include "tuner/run/tuner.h"

#include "report/report.h"
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/kept_folder.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/test.h"
#include "tuner/predict/predicting_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

class RecordingProgress final : public Progress {
 public:
  void begin(const std::string& /*title*/, std::size_t total) override { announced = total; }
  void advance(const VariantResult& /*result*/) override { ++advanced; }
  void end() override { ++ended; }

  std::size_t announced = 0;
  std::size_t advanced = 0;
  int ended = 0;
};

class TunerStory : public ::testing::Test {
 protected:
  Generator make_generator() const {
    GeneratorOptions options{.cache_dir = kept_kernels()};
    return Generator(options);
  }

  void SetUp() override {
    options_.space.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}};
    options_.space.restrictions = {{"stages", {2LL, 1LL}},
                                   {"order", {std::string("cyclic")}},
                                   {"persistence", {std::string("grid")}}};
    options_.compile_threads = 2;
    options_.provenance = Provenance::predicted;
    store_.emplace(directory_ / "tuned.db", Store::Mode::read_write);
    options_.run_id = store_->begin_run({.command = "test"});
  }

  TuneReport tune_with(const Generator& generator) {
    return tune(problem_, evaluator_, generator, *store_, options_, progress_);
  }

  TempDirectory directory_;
  AttentionProblem problem_{.seq_q = 128, .seq_kv = 128, .head_dim = 16};
  test::FakeEvaluator evaluator_{test::fictional_device()};
  TuneOptions options_;
  RecordingProgress progress_;
  std::optional<Store> store_;
};

TEST_F(TunerStory, RanksByTimeAndRecordsEveryRow) {
  const TuneReport report = tune_with(make_generator());
  ASSERT_THAT(report.results, SizeIs(2));
  EXPECT_EQ(attention(report.results[0].variant).stages, 1);
  EXPECT_EQ(report.best(), &report.results[0]);
  EXPECT_THAT(store_->results(problem_, evaluator_.device()), SizeIs(2));
  EXPECT_EQ(progress_.announced, 2U);
  EXPECT_EQ(progress_.advanced, 2U);
  EXPECT_EQ(progress_.ended, 1);
  const auto match = store_->best(problem_, evaluator_.device());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->result.variant, report.best()->variant);
}

TEST_F(TunerStory, PutsTheRowThatAQueryReturnsFirstAlsoWhenTimesTie) {
  evaluator_.script = [](VariantResult& result) {
    result.outcome =
        Prediction{.time_us = 5.0, .excess_misses = 10 * (4 - attention(result.variant).stages)};
  };
  const TuneReport report = tune_with(make_generator());
  const auto match = store_->best(problem_, evaluator_.device());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->result.variant, report.best()->variant);
  EXPECT_EQ(attention(report.best()->variant).stages, 2);
}

TEST_F(TunerStory, PutsTheRobustOneOfPredictedTiesFirstAndAQueryAnswersAlike) {
  // The fastest hangs on memory alone, the next on latencies, the last on half of each.
  options_.space.restrictions["stages"] = {1LL, 2LL, 3LL};
  evaluator_.script = [](VariantResult& result) {
    const std::array<Prediction, 3> by_stages{
        Prediction{.time_us = 100.0, .dram_us = 100.0, .relative_error = 0.1},
        Prediction{.time_us = 100.5, .latency_us = 100.5, .relative_error = 0.1},
        Prediction{.time_us = 101.0, .dram_us = 50.0, .latency_us = 51.0, .relative_error = 0.1}};
    result.outcome = by_stages.at(static_cast<std::size_t>(attention(result.variant).stages) - 1);
  };
  for (int run = 0; run < 2; ++run) {
    const TuneReport report = tune_with(make_generator());
    ASSERT_THAT(report.results, SizeIs(3));
    ASSERT_TRUE(report.robust);
    EXPECT_EQ(report.robust->tied, 3U);
    EXPECT_EQ(attention(report.best()->variant).stages, 3);
    EXPECT_EQ(report.results[1].time_us(), 100.0);
    const auto match = store_->best(problem_, evaluator_.device());
    ASSERT_TRUE(match.has_value());
    EXPECT_EQ(match->result.variant, report.best()->variant);
  }
}

TEST_F(TunerStory, CompilesOnceForVariantsThatDifferOnlyAtLaunch) {
  problem_.heads_q = problem_.heads_kv = 4;
  options_.space.restrictions["stages"] = {1LL};
  options_.space.restrictions["swizzle"] = {std::string("q_fastest"), std::string("head_fastest")};
  const TuneReport report = tune_with(make_generator());
  ASSERT_THAT(report.results, SizeIs(2));
  EXPECT_EQ(report.kernels_compiled, 1U);
  EXPECT_EQ(report.results[0].cubin_digest, report.results[1].cubin_digest);
}

TEST_F(TunerStory, EvaluatesInTheSameOrderWithOneThreadAndWithMany) {
  options_.space.restrictions["stages"] = {3LL, 1LL, 2LL};
  options_.compile_threads = 1;
  tune_with(make_generator());
  const std::vector<std::string> alone = std::exchange(evaluator_.keys, {});
  options_.compile_threads = 8;
  tune_with(make_generator());
  EXPECT_EQ(evaluator_.keys, alone);
  EXPECT_THAT(alone, SizeIs(3));
}

TEST_F(TunerStory, EvaluatesInTheSameOrderHoweverFarTheEvaluatorLooksAhead) {
  options_.space.restrictions["stages"] = {3LL, 1LL, 2LL, 4LL};
  options_.space.restrictions["persistence"] = {std::string("grid"), std::string("pairs")};
  tune_with(make_generator());
  const std::vector<std::string> alone = std::exchange(evaluator_.keys, {});
  EXPECT_THAT(alone, SizeIs(8));
  for (const std::size_t ahead : {1U, 2U, 100U}) {
    evaluator_.ahead = ahead;
    const TuneReport report = tune_with(make_generator());
    EXPECT_EQ(std::exchange(evaluator_.keys, {}), alone);
    EXPECT_EQ(evaluator_.unexpected, 0);
    EXPECT_TRUE(evaluator_.expected.empty()) << "nothing is expected after a run";
  }
}

TEST_F(TunerStory, PredictsTheSameRowsOnOneThreadAndOnMany) {
  problem_.seq_q = problem_.seq_kv = 4096;
  problem_.causal = true;
  options_.space.restrictions = {{"stages", {1LL, 2LL}}};
  const Generator generator = make_generator();
  const GpuProfile profile = load_profile("h200");
  const auto rows = [&](int threads) {
    PredictingEvaluator evaluator(profile, threads);
    const TuneReport report = tune(problem_, evaluator, generator, *store_, options_, progress_);
    std::vector<std::string> all;
    for (const VariantResult& result : report.results) {
      all.push_back(to_key(result.variant) + " " + std::to_string(result.time_us()) + " " +
                    std::to_string(result.prediction()->excess_misses));
    }
    return all;
  };
  const std::vector<std::string> alone = rows(0);
  EXPECT_GT(alone.size(), 8U);
  EXPECT_EQ(rows(1), alone);
  EXPECT_EQ(rows(4), alone);
}

TEST_F(TunerStory, RecordsAKernelThatDoesNotCompileAndGoesOn) {
  const auto overlay = directory_ / "overlay";
  std::filesystem::create_directories(overlay / "attention" / "portable");
  std::ofstream(overlay / "attention" / "portable" / "attention.cu")
      << "#error \"deliberately broken\"\n";
  GeneratorOptions broken{.template_overlay = overlay};
  const TuneReport report = tune_with(Generator(broken));
  ASSERT_THAT(report.results, SizeIs(2));
  EXPECT_EQ(report.best(), nullptr);
  EXPECT_TRUE(evaluator_.keys.empty());
  for (const StoredResult& row : store_->results(problem_, evaluator_.device())) {
    EXPECT_EQ(row.result.state, ResultState::compile);
    EXPECT_EQ(row.result.provenance(), Provenance::predicted);
    EXPECT_THAT(row.result.detail, HasSubstr("deliberately broken"));
  }
}

TEST_F(TunerStory, RecordsWhatAConstraintDropsAfterCompilation) {
  DeviceInfo device = test::fictional_device();
  device.registers_per_sm = 256;  // One warp of 8 registers.
  test::FakeEvaluator evaluator(device);
  const TuneReport report =
      tune(problem_, evaluator, make_generator(), *store_, options_, progress_);
  ASSERT_THAT(report.results, SizeIs(2));
  EXPECT_TRUE(evaluator.keys.empty());
  EXPECT_EQ(report.results[0].state, ResultState::constraint);
  EXPECT_THAT(report.results[0].detail, HasSubstr("residency"));
  EXPECT_EQ(dropped_by_constraint(report.dropped).at("residency"), 2);
  EXPECT_THAT(store_->results(problem_, device), SizeIs(2));
}

TEST_F(TunerStory, StopsBetweenVariantsAndKeepsWhatIsKnown) {
  options_.stop_requested = [this] { return !evaluator_.keys.empty(); };
  const TuneReport report = tune_with(make_generator());
  EXPECT_TRUE(report.interrupted);
  EXPECT_THAT(report.results, SizeIs(1));
  EXPECT_THAT(store_->results(problem_, evaluator_.device()), SizeIs(1));
  EXPECT_EQ(progress_.ended, 1);
}

TEST_F(TunerStory, KeepsRecordedRowsWhenTheGpuIsLost) {
  evaluator_.script = [this](const VariantResult&) {
    if (evaluator_.keys.size() == 2) {
      throw Error(ErrorCode::driver_failed, "the device fell off the bus");
    }
  };
  const Generator generator = make_generator();
  EXPECT_THROW(tune_with(generator), Error);
  EXPECT_THAT(store_->results(problem_, evaluator_.device()), SizeIs(1));
  EXPECT_EQ(progress_.ended, 1);
}

TEST_F(TunerStory, NamesTheConstraintAndItsNumbersWhenNoVariantIsLeft) {
  problem_.head_dim = 256;
  options_.space.tiles = {{.tile_m = 256, .tile_n = 256, .warps = 4}};
  const Generator generator = make_generator();
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { tune_with(generator); }),
              AllOf(HasSubstr("shared_memory"), HasSubstr("101376")));
}

class MeasuredStory : public TunerStory {
 protected:
  void SetUp() override {
    TunerStory::SetUp();
    options_.provenance = Provenance::measured;
    options_.space.restrictions["stages"] = {1LL, 2LL, 3LL};
  }
};

TEST_F(MeasuredStory, DecidesInFinalsAndAnswersQueriesWithTheWinner) {
  // One stage is 2 percent slower, two and three are equal: fewer registers, then the key decide.
  const auto true_time_us = [](const Variant& variant) {
    return attention(variant).stages == 1 ? 102.0 : 100.0;
  };
  const Generator generator = make_generator();
  std::vector<Variant> winners;
  for (unsigned long long seed = 1; seed <= 5; ++seed) {
    test::NoisyEvaluator gpu(true_time_us, seed);
    options_.finals->seed = seed;
    const TuneReport report = tune(problem_, gpu, generator, *store_, options_, progress_);
    ASSERT_THAT(report.finalists, SizeIs(3)) << report.undecided_because;
    EXPECT_EQ(report.best()->variant, report.finalists.front().result.variant);
    EXPECT_EQ(report.best()->measurement()->sampling, Sampling::finals);
    const auto match = store_->best(problem_, gpu.device());
    ASSERT_TRUE(match);
    EXPECT_EQ(match->result.variant, report.best()->variant);
    EXPECT_EQ(match->result.measurement()->samples_us, report.best()->measurement()->samples_us);
    winners.push_back(report.best()->variant);
  }
  EXPECT_THAT(winners, ::testing::Each(winners.front()));
  EXPECT_NE(attention(winners.front()).stages, 1);
}

TEST_F(MeasuredStory, TheDefaultVariantMeetsTheOthersThoughTheSearchDidNotTryIt) {
  const Variant rival = default_variant(problem_, test::fictional_device());
  const AttentionVariant& tile = attention(rival);
  options_.space.tiles = {{.tile_m = tile.tile_m, .tile_n = tile.tile_n, .warps = tile.warps}};
  options_.space.restrictions["stages"] = {1LL, 2LL};
  options_.search = {.strategy = StrategyKind::exhaustive, .max_variants = 2};
  // Slower than all others: it takes part whatever its time.
  test::NoisyEvaluator gpu([&](const Variant& variant) { return variant == rival ? 20.0 : 10.0; });
  const TuneReport report = tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  ASSERT_THAT(report.finalists, SizeIs(2)) << report.undecided_because;
  EXPECT_EQ(report.finalists.back().result.variant, rival);
  EXPECT_THAT(report.results, SizeIs(2));
  EXPECT_NE(report.best()->variant, rival);
}

TEST_F(MeasuredStory, ABudgetIsALimitAndHasAPlaceForWhatRunsWithoutATune) {
  const Variant usual = default_variant(problem_, test::fictional_device());
  const Variant untuned =
      *problem_.operation().modelled_variant(problem_, test::fictional_device());
  ASSERT_NE(untuned, usual);
  std::vector<Variant> space;
  for (const int tile_m : {16, 32, 64, 128}) {
    for (const int stages : {1, 2, 3}) {
      space.push_back(
          AttentionVariant{.tile_m = tile_m, .tile_n = 16, .warps = 2, .stages = stages});
    }
  }
  const std::vector<Variant> neighbours{space[7], space[9]};
  space.push_back(usual);
  space.push_back(untuned);
  options_.variants = space;
  const KernelSource kernels = [](const Variant&) {
    return CompiledKernel{.sm_arch = 80, .resources = {.registers_per_thread = 64}};
  };
  test::NoisyEvaluator gpu(10.0);
  for (const StrategyKind strategy : {StrategyKind::exhaustive, StrategyKind::random,
                                      StrategyKind::model, StrategyKind::learned}) {
    for (const std::size_t budget : {1U, 2U, 3U, 6U, 13U, 14U, 20U}) {
      for (const bool has_neighbours : {false, true}) {
        SCOPED_TRACE(std::string(to_string(strategy)) + " " + std::to_string(budget));
        options_.search = {.strategy = strategy, .max_variants = budget, .spends_all = true};
        options_.rivals = has_neighbours ? neighbours : std::vector<Variant>{};
        for (const bool resumed : {false, true}) {
          options_.run_id = store_->begin_run({.command = "test",
                                               .l2_state = "warm",
                                               .conditions = "fake",
                                               .starts_over = !resumed});
          const TuneReport report = tune(problem_, gpu, kernels, *store_, options_, progress_);
          EXPECT_THAT(report.results, SizeIs(std::min(budget, space.size())));
          EXPECT_THAT(report.results,
                      ::testing::Contains(::testing::Field(&VariantResult::variant, usual)));
          if (budget > 1) {
            EXPECT_THAT(report.results,
                        ::testing::Contains(::testing::Field(&VariantResult::variant, untuned)));
          }
          if (strategy != StrategyKind::learned) {  // What was decided since teaches it otherwise.
            EXPECT_EQ(report.known, resumed ? report.results.size() : 0U);
          }
        }
      }
    }
  }
}

TEST_F(MeasuredStory, ReadsCountersOfAllVariantsBeforeTheyAreRecorded) {
  test::NoisyEvaluator gpu(10.0);
  gpu.excess_sectors = [](const Variant& variant) { return 1000LL * attention(variant).stages; };
  options_.finals.reset();
  tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  const auto rows = store_->results(problem_, gpu.device());
  ASSERT_THAT(rows, SizeIs(3));
  for (const StoredResult& row : rows) {
    const auto& counters = row.result.measurement()->counters;
    ASSERT_TRUE(counters.has_value());
    EXPECT_EQ(counters->dram_read_bytes, 32'000LL * attention(row.result.variant).stages);
  }
}

TEST_F(MeasuredStory, CountsTheAccessesOfTheWinnerAndOfCheapFinalistsOnce) {
  test::NoisyEvaluator gpu(10.0);
  const TuneReport report = tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  EXPECT_EQ(gpu.access_counts, 1);
  for (const StoredResult& row : store_->results(problem_, gpu.device())) {
    ASSERT_TRUE(row.result.measurement()->accesses) << to_key(row.result.variant);
    EXPECT_EQ(row.result.measurement()->accesses->smem_load_conflicts,
              attention(row.result.variant).stages);
    EXPECT_EQ(row.result.measurement()->sampling, Sampling::finals);
  }
  EXPECT_TRUE(report.best()->measurement()->accesses);
}

TEST_F(MeasuredStory, CountsTheAccessesOfASlowWinnerAlone) {
  test::NoisyEvaluator gpu(50'000.0);
  const TuneReport report = tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  for (const StoredResult& row : store_->results(problem_, gpu.device())) {
    EXPECT_EQ(row.result.measurement()->accesses.has_value(),
              row.result.variant == report.best()->variant);
  }
}

TEST_F(MeasuredStory, CountsTheAccessesOfTheFastestWhereNothingIsDecided) {
  test::NoisyEvaluator gpu(10.0);
  options_.finals.reset();
  const TuneReport report = tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  for (const StoredResult& row : store_->results(problem_, gpu.device())) {
    EXPECT_EQ(row.result.measurement()->accesses.has_value(),
              row.result.variant == report.best()->variant);
  }
  options_.count_accesses = false;
  options_.run_id = store_->begin_run({.command = "again"});
  tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  EXPECT_EQ(gpu.access_counts, 1);
}

TEST_F(MeasuredStory, AProfilerThatFailsCostsTheAccessesAndNothingElse) {
  test::NoisyEvaluator gpu(10.0);
  gpu.accesses_fail = true;
  const TuneReport report = tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  ASSERT_NE(report.best(), nullptr);
  const auto stored = store_->best(problem_, gpu.device());
  ASSERT_TRUE(stored);
  const Measurement& measurement = *stored->result.measurement();
  EXPECT_TRUE(measurement.counters);
  EXPECT_FALSE(measurement.accesses);
  EXPECT_THAT(measurement.accesses_missing_because, HasSubstr("the profiler fell over"));
}

TEST_F(MeasuredStory, RanksByMedianWhenTheGpuThrottlesInTheFinals) {
  test::NoisyEvaluator gpu(10.0);
  gpu.degraded_because = "the GPU throttles: hardware slowdown";
  const TuneReport report = tune(problem_, gpu, make_generator(), *store_, options_, progress_);
  EXPECT_THAT(report.undecided_because, HasSubstr("hardware slowdown"));
  ASSERT_NE(report.best(), nullptr);
  EXPECT_EQ(report.best()->measurement()->sampling, Sampling::screening);
}

TEST(GroupByKernel, JoinsLaunchChoicesAndKeepsTheOrderOfFirstMembers) {
  std::vector<Variant> variants(5, AttentionVariant{});
  attention(variants[1]).stages = 3;
  attention(variants[2]).workers = 7;
  attention(variants[3]).stages = 3;
  attention(variants[3]).swizzle = AttentionSwizzle::head_sections;
  attention(variants[3]).section_heads = 2;
  attention(variants[4]).order = Order::sawtooth;
  const auto groups = group_by_kernel(variants);
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_EQ(groups[0], (std::vector{variants[0], variants[2]}));
  EXPECT_EQ(groups[1], (std::vector{variants[1], variants[3]}));
  EXPECT_EQ(groups[2], (std::vector{variants[4]}));
}

// The tuning story of GEMM: space, NVRTC, store, lookup and report as they are; only the GPU is
// faked.

class GemmStory : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.space.tiles = {{.tile_m = 32, .tile_n = 32}};
    options_.space.restrictions = {{"warps_m", {1LL}},
                                   {"warps_n", {2LL}},
                                   {"tile_k", {32LL}},
                                   {"stages", {3LL, 2LL}},
                                   {"persistence", {std::string("grid")}},
                                   {"raster", {std::string("along_n")}},
                                   {"swizzle_stride", {0LL, 64LL}}};
    options_.compile_threads = 2;
    store_.emplace(directory_ / "tuned.db", Store::Mode::read_write);
    options_.run_id =
        store_->begin_run({.command = "test", .l2_state = "warm", .conditions = "test"});
  }
  TuneReport tune_on(Evaluator& evaluator) {
    const Generator generator({.cache_dir = kept_kernels()});
    return tune(problem_, evaluator, generator, *store_, options_, progress_);
  }

  TempDirectory directory_;
  GemmProblem problem_{.m = 256, .n = 256, .k = 64};
  TuneOptions options_;
  QuietProgress progress_;
  std::optional<Store> store_;
};

TEST_F(GemmStory, CompilesRanksStoresAndAnswers) {
  options_.provenance = Provenance::predicted;
  test::FakeEvaluator gpu(test::fictional_device());
  const TuneReport report = tune_on(gpu);
  ASSERT_THAT(report.results, SizeIs(4));
  EXPECT_EQ(report.kernels_compiled, 2U) << "strides share a cubin";
  EXPECT_EQ(report.best()->variant.as<GemmVariant>().stages, 2);
  EXPECT_GT(report.best()->resources.registers_per_thread, 0);
  const auto match = store_->best(problem_, gpu.device());
  ASSERT_TRUE(match);
  EXPECT_EQ(match->result.variant, report.best()->variant);
  EXPECT_EQ(match->problem, problem_);
  GemmProblem other = problem_;
  other.layout = GemmLayout::nn;
  EXPECT_FALSE(store_->best(other, gpu.device()));
  EXPECT_FALSE(store_->best(AttentionProblem{.seq_q = 64, .seq_kv = 64}, gpu.device()));
}

TEST_F(GemmStory, FinalsDecideAndAnotherRunKnowsTheResult) {
  test::NoisyEvaluator gpu([](const Variant& variant) {
    return variant.as<GemmVariant>().swizzle_stride == 64 ? 9.0 : 10.0;
  });
  const TuneReport first = tune_on(gpu);
  ASSERT_FALSE(first.finalists.empty()) << first.undecided_because;
  EXPECT_EQ(first.best()->variant.as<GemmVariant>().swizzle_stride, 64);
  const TuneReport second = tune_on(gpu);
  EXPECT_EQ(second.known, second.results.size());
  EXPECT_TRUE(second.decided_before);
  EXPECT_EQ(second.best()->variant, first.best()->variant);
}

TEST_F(GemmStory, TheReportNamesTheChoicesOfGemm) {
  options_.provenance = Provenance::predicted;
  test::FakeEvaluator gpu(test::fictional_device());
  const TuneReport report = tune_on(gpu);
  std::ostringstream text;
  print_report(text, report, {.top = 10});
  EXPECT_THAT(text.str(),
              AllOf(HasSubstr("gemm b1 m256 n256 k64 bf16 nt bf16"), HasSubstr("32x32x32"),
                    HasSubstr("1x2 warps"), HasSubstr("along_n, stride 64")));
}

// Runs that are killed, interrupted or out of time, and the ones that continue them. NVRTC, the
// generator and the store are as they are; only the GPU is faked.

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
    GeneratorOptions generator_options{.cache_dir = kept_kernels()};
    const Generator generator(generator_options);
    options_.run_id = store.begin_run(
        {.command = "test", .l2_state = "warm", .conditions = "fake", .starts_over = starts_over});
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
