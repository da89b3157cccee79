// SPDX-License-Identifier: MIT
// Studies as they are carried out: generator, tuner and store as they are; only the GPU is faked.
#include "experiments/studies/study_run.h"

#include "tests/support/fake_evaluator.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/temp_directory.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swr {
namespace {

using ::testing::SizeIs;

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
                       .swr_version = "0",
                       .templates_digest = "digest",
                       .nvrtc_version = "0.0",
                       .driver_version = provenance == Provenance::measured ? "1" : "",
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
  Generator generator_{{.cache_dir = directory_ / "cache"}};
  Store store_{directory_ / "tuned.db", Store::Mode::read_write};
  std::vector<VariantResult> results_;
  CountingEvaluator gpu_{test::fictional_device(), true_time_us, 1};
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
