// SPDX-License-Identifier: MIT
#include "experiments/studies/study.h"

#include "experiments/studies/study_command.h"
#include "experiments/studies/study_run.h"
#include "experiments/studies/tile_choices.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/kept_folder.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/test.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/store.h>

namespace swr {
namespace {

DeviceInfo gb10() { return load_profile("gb10").device; }

VariantResult predicted(const StudyPoint& point, double time_us, long long excess) {
  return VariantResult{.variant = point.variant,
                       .outcome = Prediction{.time_us = time_us,
                                             .read_sectors = 100'000'000,
                                             .compulsory_misses = compulsory_sectors(point.problem),
                                             .excess_misses = excess}};
}

/// Sawtooth has a quarter of cyclic's excess misses.
std::optional<VariantResult> quarter(const StudyPoint& point) {
  const bool sawtooth = attention(point.variant).order == Order::sawtooth;
  return predicted(point, 1000.0, sawtooth ? 2'500'000 : 10'000'000);
}

TEST(Study, HitRateIsThatOfTheSectorsThatSmsAskedFor) {
  const StudyPoint point{AttentionProblem{.seq_q = 128, .seq_kv = 128}, AttentionVariant{}, "",
                         0.0};
  Measurement measurement{.counters = Counters{.sectors_demanded = 1000,
                                               .l2_lookups = 500,
                                               .l2_hits = 600,
                                               .l2_misses = 100,
                                               .l2_fabric_sectors = 40,
                                               .dram_read_bytes = 60LL * kSectorBytes}};
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

// Studies as they are carried out: generator, tuner and store as they are; only the GPU is faked.

/// Three strides of one problem that meet, and one point of another that stands alone.
Study small_study() {
  const GemmVariant variant{.tile_m = 32,
                            .tile_n = 32,
                            .tile_k = 32,
                            .stages = 2,
                            .warps_m = 1,
                            .warps_n = 2,
                            .raster = Raster::along_n};
  Study study{.name = "small", .title = "Small", .experiments = {}};
  Experiment& sweep = study.experiments.emplace_back();
  sweep.swept = "swizzle_stride";
  for (const int stride : {0, 64, 128}) {
    GemmVariant swizzled = variant;
    swizzled.swizzle_stride = stride;
    sweep.points.push_back(
        {GemmProblem{.m = 256, .n = 256, .k = 64}, swizzled, "256", stride * 1.0});
  }
  sweep.points.push_back({GemmProblem{.m = 64, .n = 64, .k = 64}, variant, "64", 0.0});
  return study;
}

int stride_of(const Variant& variant) { return variant.as<GemmVariant>().swizzle_stride; }

double true_time_us(const Variant& variant) { return stride_of(variant) == 64 ? 9.0 : 10.0; }

class CountingEvaluator final : public test::NoisyEvaluator {
 public:
  using NoisyEvaluator::NoisyEvaluator;

  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    ++evaluated;
    return NoisyEvaluator::evaluate(problem, variant, kernel);
  }

  int evaluated = 0;
};

class StudyRun : public ::testing::Test {
 protected:
  /// A process of its own: whatever was known is read from the store.
  StudyTally run(
      Evaluator& evaluator, Provenance provenance = Provenance::measured, bool force = false,
      std::function<bool()> stop = [] { return false; }) {
    const RunInfo info{.command = "test",
                       .l2_state = provenance == Provenance::measured ? "warm" : "",
                       .conditions = "study",
                       .starts_over = force};
    const long long run_id = store_.begin_run(info);
    StoredPoints stored(store_, evaluator.device(), provenance, {});
    const StudyTally tally = run_study(study_, stored,
                                       {.evaluator = evaluator,
                                        .generator = generator_,
                                        .store = store_,
                                        .provenance = provenance,
                                        .run_id = run_id,
                                        .force = force,
                                        .stop_requested = std::move(stop)});
    results_.clear();
    for (const StudyPoint& point : study_.experiments.front().points) {
      if (auto result = stored.find(point)) {
        results_.push_back(std::move(*result));
      }
    }
    return tally;
  }

  TempDirectory directory_;
  Study study_ = small_study();
  Generator generator_{{.cache_dir = kept_kernels()}};
  Store store_{directory_ / "tuned.db", Store::Mode::read_write};
  std::vector<VariantResult> results_;
  CountingEvaluator gpu_{true_time_us};
};

TEST_F(StudyRun, PointsOfASweepMeetInSharedRoundsAndOthersDoNot) {
  const StudyTally tally = run(gpu_);
  EXPECT_EQ(tally.tuned, 4U);
  EXPECT_EQ(gpu_.races, 5);
  ASSERT_THAT(results_, SizeIs(4));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(results_[i].measurement()->sampling, Sampling::finals);
    EXPECT_THAT(results_[i].measurement()->samples_us, SizeIs(20)) << "the slow ones too";
    EXPECT_NEAR(results_[i].time_us(), true_time_us(results_[i].variant), 0.1);
    EXPECT_TRUE(results_[i].measurement()->counters);
  }
  EXPECT_EQ(results_[3].measurement()->sampling, Sampling::screening);
}

TEST_F(StudyRun, WhatIsKnownIsNotTunedAgain) {
  run(gpu_);
  const int races = gpu_.races;
  const StudyTally again = run(gpu_);
  EXPECT_EQ(again.tuned, 0U);
  EXPECT_EQ(again.known, 4U);
  EXPECT_EQ(gpu_.races, races);
  const StudyTally forced = run(gpu_, Provenance::measured, true);
  EXPECT_EQ(forced.tuned, 4U);
  EXPECT_EQ(gpu_.races, 2 * races);
}

TEST_F(StudyRun, AnInterruptedSweepGoesOnAndStillMeets) {
  const StudyTally cut =
      run(gpu_, Provenance::measured, false, [this] { return gpu_.evaluated == 2; });
  EXPECT_TRUE(cut.interrupted);
  EXPECT_EQ(gpu_.races, 0);
  ASSERT_THAT(results_, SizeIs(2)) << "one of the sweep, and the one that stands alone";
  gpu_.evaluated = 0;
  const StudyTally rest = run(gpu_);
  EXPECT_EQ(gpu_.evaluated, 2) << "two strides were left";
  EXPECT_FALSE(rest.interrupted);
  EXPECT_EQ(rest.tuned, 3U) << "what meets is tuned together";
  EXPECT_EQ(rest.known, 1U);
  ASSERT_THAT(results_, SizeIs(4));
  EXPECT_THAT(results_[0].measurement()->samples_us, SizeIs(20));
}

TEST_F(StudyRun, PredictionsNeverStandForMeasurements) {
  test::FakeEvaluator model(test::fictional_device());
  EXPECT_EQ(run(model, Provenance::predicted).tuned, 4U);
  EXPECT_EQ(results_[0].provenance(), Provenance::predicted);
  EXPECT_EQ(run(gpu_).tuned, 4U);
  EXPECT_EQ(results_[0].provenance(), Provenance::measured);
  EXPECT_EQ(run(model, Provenance::predicted).known, 4U);
}

TEST_F(StudyRun, WhatTheGpuCannotRunIsCountedAndLeftOut) {
  for (StudyPoint& point : study_.experiments.front().points) {
    point.variant.as<GemmVariant>().family = Family::hopper;
  }
  const StudyTally tally = run(gpu_);
  EXPECT_EQ(tally.illegal, 4U);
  EXPECT_EQ(tally.tuned, 0U);
}

}  // namespace
}  // namespace swr

namespace swr::cli {
namespace {
// study on a database that holds its points, so that nothing is compiled.

/// Stores a prediction for every point of a study; returns their number.
std::size_t store_points(const std::filesystem::path& database, const Study& study,
                         const DeviceInfo& device) {
  Store store(database, Store::Mode::read_write);
  const long long run_id = store.begin_run({.command = "test", .swr_version = "0"});
  std::set<std::pair<Problem, Variant>> stored;
  for (const Experiment& experiment : study.experiments) {
    for (const StudyPoint& point : experiment.points) {
      if (stored.emplace(point.problem, point.variant).second) {
        VariantResult result{
            .variant = point.variant,
            .outcome = Prediction{.time_us = 1000.0,
                                  .read_sectors = 1'000'000,
                                  .compulsory_misses = compulsory_sectors(point.problem),
                                  .excess_misses = 12'345}};
        store.record(run_id, point.problem, device, result);
      }
    }
  }
  return stored.size();
}

/// The command on a database that holds every point.
class StudyCommand : public ::testing::Test {
 protected:
  /// Returns the exit code.
  int run_study(const std::string& study, const std::string& gpu) {
    const DeviceInfo device = load_profile(gpu).device;
    const auto database = directory_ / "tuned.db";
    points_ = store_points(database, make_study(study, device), device);
    const Environment environment{.cache_dir = kept_kernels().string()};
    const std::vector<std::string> arguments{
        study, "--gpu", gpu, "--db", database.string(), "--out", (directory_ / "study").string()};
    return cli::run_study(arguments, environment, out_, err_);
  }
  std::string text_of(const std::string& name) const {
    return bytes_of(directory_ / "study" / name);
  }

  const TempDirectory directory_;
  std::size_t points_ = 0;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(StudyCommand, TunesNothingTwiceAndWritesTablesAndCsv) {
  ASSERT_EQ(run_study("sawtooth", "gb10"), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("sawtooth: 0 points predicted, " + std::to_string(points_) +
                                    " known from an earlier run"));
  const std::string tables = text_of("sawtooth.md");
  EXPECT_THAT(tables, StartsWith("# Sawtooth Wavefront Reordering, predicted\n\n**Every number "
                                 "here is predicted**"));
  EXPECT_THAT(tables, HasSubstr("swr-study sawtooth --gpu gb10"));
  EXPECT_THAT(tables, HasSubstr("12,345"));
  EXPECT_THAT(text_of("sawtooth.csv"), StartsWith("study,experiment,series,x,provenance,"));
}

TEST_F(StudyCommand, WritesTheStridesOfGemm) {
  ASSERT_EQ(run_study("gemm-swizzle", "h200"), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("gemm-swizzle: 0 points predicted, " + std::to_string(points_) +
                                    " known from an earlier run, 0 not legal"));
  EXPECT_THAT(text_of("gemm-swizzle.md"), StartsWith("# Block scheduling in GEMM, predicted\n"));
  EXPECT_THAT(text_of("gemm-swizzle.csv"), HasSubstr("gemm-swizzle,k_order,portable sawtooth,"));
}

TEST(StudyCommandLine, UnknownStudiesAreABadCommandLine) {
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string> arguments{"spiral", "--gpu", "gb10", "--out", "x"};
  EXPECT_EQ(run_study(arguments, {}, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr("sawtooth"));
}

}  // namespace
}  // namespace swr::cli
