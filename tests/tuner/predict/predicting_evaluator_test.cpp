// SPDX-License-Identifier: MIT
#include "tuner/predict/predicting_evaluator.h"

#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

CompiledKernel fake_kernel(int registers) {
  CompiledKernel kernel;
  kernel.cubin_digest = "abc";
  kernel.resources.registers_per_thread = registers;
  return kernel;
}

constexpr AttentionProblem kProblem{.seq_q = 8192, .seq_kv = 8192, .head_dim = 64};

TEST(PredictingEvaluator, FillsEveryFieldOfAResult) {
  PredictingEvaluator evaluator(load_profile("gb10"));
  const AttentionVariant variant{.stages = 1};
  const VariantResult result = evaluator.evaluate(kProblem, variant, fake_kernel(128));
  EXPECT_EQ(result.variant, variant);
  EXPECT_EQ(result.state, ResultState::ok);
  EXPECT_EQ(result.provenance(), Provenance::predicted);
  EXPECT_EQ(result.resources.registers_per_thread, 128);
  EXPECT_EQ(result.smem_bytes, 3 * 64 * 64 * 2);
  EXPECT_EQ(result.ctas_per_sm, 4);  // 65536 / (128 registers * 128 threads)
  EXPECT_EQ(result.cubin_digest, "abc");
  const Prediction& prediction = *result.prediction();
  EXPECT_GT(prediction.matrix_us, 0);
  EXPECT_GT(prediction.softmax_us, 0);
  EXPECT_GT(prediction.l2_us, 0);
  EXPECT_GT(prediction.dram_us, 0);
  EXPECT_GE(prediction.time_us, prediction.matrix_us);
  EXPECT_EQ(prediction.compulsory_misses, compulsory_sectors(kProblem));
  EXPECT_EQ(prediction.excess_misses, 0);
  EXPECT_EQ(prediction.write_sectors, 4 * 8192);
}

TEST(PredictingEvaluator, PredictsGemmOfBothFamilies) {
  PredictingEvaluator evaluator(load_profile("h200"));
  const GemmProblem problem{.m = 2048, .n = 2048, .k = 1024};
  GemmVariant hopper{.family = Family::hopper, .tile_m = 128, .tile_n = 128, .tile_k = 64};
  hopper.stages = 4;
  hopper.consumers = 2;
  hopper.persistence = Persistence::persistent;
  const GemmVariant portable{.tile_m = 128, .tile_n = 128, .tile_k = 32, .stages = 3};
  const VariantResult fast = evaluator.evaluate(problem, hopper, fake_kernel(168));
  const VariantResult slow = evaluator.evaluate(problem, portable, fake_kernel(168));
  for (const VariantResult* result : {&fast, &slow}) {
    ASSERT_EQ(result->state, ResultState::ok) << result->detail;
    const Prediction& prediction = *result->prediction();
    EXPECT_GT(prediction.matrix_us, 0);
    EXPECT_EQ(prediction.softmax_us, 0);
    EXPECT_GT(prediction.latency_us, 0);
    EXPECT_GE(prediction.time_us, prediction.matrix_us);
    EXPECT_EQ(prediction.compulsory_misses, compulsory_sectors(problem));
    EXPECT_EQ(prediction.write_sectors, 2048 * 2048 * 2 / 32);
  }
  EXPECT_EQ(fast.ctas_per_sm, 1);
  EXPECT_LT(fast.time_us(), slow.time_us()) << "wgmma is faster than mma.sync";
}

TEST(PredictingEvaluator, VariantsOfAnotherOperationAreRefused) {
  PredictingEvaluator evaluator(load_profile("h200"));
  EXPECT_THROW(evaluator.evaluate(GemmProblem{.m = 64, .n = 64, .k = 64}, AttentionVariant{},
                                  fake_kernel(128)),
               Error);
}

TEST(PredictingEvaluator, AKernelThatSpillsMuchIsDroppedByName) {
  PredictingEvaluator evaluator(load_profile("gb10"));
  CompiledKernel kernel = fake_kernel(255);
  kernel.resources.spill_store_bytes = 200;
  const VariantResult result = evaluator.evaluate(kProblem, AttentionVariant{}, kernel);
  EXPECT_EQ(result.state, ResultState::constraint);
  EXPECT_THAT(result.detail, testing::StartsWith("spills: "));
  EXPECT_EQ(result.provenance(), Provenance::predicted);
}

TEST(PredictingEvaluator, ACtaThatDoesNotFitIsDroppedByName) {
  GpuProfile profile = load_profile("gb10");
  profile.device.registers_per_sm = 1024;
  PredictingEvaluator evaluator(profile);
  const VariantResult result = evaluator.evaluate(kProblem, AttentionVariant{}, fake_kernel(128));
  EXPECT_EQ(result.state, ResultState::constraint);
  EXPECT_THAT(result.detail, testing::StartsWith("residency: "));
}

std::vector<AttentionVariant> some_variants() {
  std::vector<AttentionVariant> variants;
  for (int stages = 1; stages <= 4; ++stages) {
    for (const Persistence persistence : {Persistence::grid, Persistence::pairs}) {
      variants.push_back({.stages = stages, .persistence = persistence});
    }
  }
  return variants;
}

TEST(PredictingEvaluator, ThreadsGetWhatOneThreadGets) {
  PredictingEvaluator evaluator(load_profile("gb10"));
  PredictingEvaluator alone(load_profile("gb10"));
  const std::vector<AttentionVariant> variants = some_variants();
  std::vector<std::future<double>> times;
  for (const AttentionVariant& variant : variants) {
    times.push_back(std::async(std::launch::async, [&evaluator, variant] {
      return evaluator.evaluate(kProblem, variant, fake_kernel(128)).time_us();
    }));
  }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    EXPECT_DOUBLE_EQ(times[i].get(),
                     alone.evaluate(kProblem, variants[i], fake_kernel(128)).time_us());
  }
}

TEST(PredictingEvaluator, WhatIsExpectedComesOutAsWhatIsNot) {
  PredictingEvaluator evaluator(load_profile("gb10"), 3);
  PredictingEvaluator alone(load_profile("gb10"));
  EXPECT_GT(evaluator.kernels_ahead(), 0U);
  EXPECT_EQ(alone.kernels_ahead(), 0U);
  const CompiledKernel kernel = fake_kernel(128);
  std::vector<Contender> contenders;
  for (const AttentionVariant& variant : some_variants()) {
    contenders.push_back({variant, &kernel});
  }
  contenders.push_back({GemmVariant{}, &kernel});  // Refused, but only where it is evaluated.
  evaluator.expect(kProblem, contenders);
  for (const AttentionVariant& variant : some_variants()) {
    EXPECT_EQ(evaluator.evaluate(kProblem, variant, kernel).time_us(),
              alone.evaluate(kProblem, variant, kernel).time_us());
  }
  EXPECT_THROW(evaluator.evaluate(kProblem, GemmVariant{}, kernel), Error);
}

}  // namespace
}  // namespace swr
