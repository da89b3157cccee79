// SPDX-License-Identifier: MIT
// The tuning story of GEMM: space, NVRTC, store, lookup and report as they are; only the GPU is
// faked.
#include "report/report.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/temp_directory.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

namespace swr {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SilentProgress final : public Progress {
 public:
  void begin(const std::string& /*title*/, std::size_t /*total*/) override {}
  void advance(const VariantResult& /*result*/) override {}
  void end() override {}
};

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
    options_.run_id = store_->begin_run({.command = "test",
                                         .swr_version = "0",
                                         .templates_digest = "digest",
                                         .nvrtc_version = "0.0",
                                         .driver_version = "1",
                                         .l2_state = "warm",
                                         .conditions = "test"});
  }
  TuneReport tune_on(Evaluator& evaluator) {
    const Generator generator({.cache_dir = directory_ / "cache"});
    return tune(problem_, evaluator, generator, *store_, options_, progress_);
  }

  TempDirectory directory_;
  GemmProblem problem_{.m = 256, .n = 256, .k = 64};
  TuneOptions options_;
  SilentProgress progress_;
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
  test::NoisyEvaluator gpu(
      test::fictional_device(),
      [](const Variant& variant) {
        return variant.as<GemmVariant>().swizzle_stride == 64 ? 9.0 : 10.0;
      },
      1);
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

}  // namespace
}  // namespace swr
