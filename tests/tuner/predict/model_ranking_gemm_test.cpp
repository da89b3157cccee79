// SPDX-License-Identifier: MIT
// Ranking the space of GEMM before anything is compiled.
#include "operations/gemm/parts.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/predict/predicting_evaluator.h"
#include "tests/support/test.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>

namespace swr {
namespace {

using ::testing::Gt;

const GpuProfile& h200() {
  static const GpuProfile profile = load_profile("h200");
  return profile;
}

std::vector<Variant> space_of(const GemmProblem& problem) {
  return enumerate_space(problem, h200().device, {}).variants;
}

std::vector<double> ranked(const GemmProblem& problem, const std::vector<Variant>& space,
                           int threads = 2) {
  return model_predictor(problem, h200().device, threads)(space)->all_us();
}

/// Times as the model gives them for a kernel of the resources estimated.
double predicted_us(const GemmProblem& problem, const Variant& variant) {
  PredictingEvaluator model(h200());
  CompiledKernel kernel;
  kernel.resources = estimated_resources(problem, variant.as<GemmVariant>());
  return model.evaluate(problem, variant, kernel).time_us();
}

TEST(GemmRanking, TheBestIsWhatTheModelPredicts) {
  const GemmProblem problem{.m = 2048, .n = 2048, .k = 512};
  const std::vector<Variant> space = space_of(problem);
  const std::vector<double> times_us = ranked(problem, space);
  ASSERT_THAT(times_us, SizeIs(space.size()));
  EXPECT_THAT(times_us, Each(Gt(0.0)));
  const auto best = std::ranges::min_element(times_us) - times_us.begin();
  const Variant& chosen = space[static_cast<std::size_t>(best)];
  EXPECT_DOUBLE_EQ(*std::ranges::min_element(times_us), predicted_us(problem, chosen));
}

TEST(GemmRanking, ToldApartAreOrdersOfTilesWhichFloorsCannotTellApart) {
  const GemmProblem problem{.m = 6144, .n = 6144, .k = 256};
  GemmVariant variant{.family = Family::hopper, .tile_m = 128, .tile_n = 256, .tile_k = 64};
  variant.stages = 4;
  variant.consumers = 2;
  variant.persistence = Persistence::persistent;
  variant.raster = Raster::along_n;
  GemmVariant swizzled = variant;
  swizzled.swizzle_stride = 2048;
  const std::vector<double> times_us = ranked(problem, {variant, swizzled});
  EXPECT_NE(times_us[0], times_us[1]);
}

TEST(GemmRanking, DoesNotDependOnThreads) {
  const GemmProblem problem{.m = 1024, .n = 2048, .k = 256};
  const std::vector<Variant> space = space_of(problem);
  EXPECT_EQ(ranked(problem, space, 1), ranked(problem, space, 4));
}

TEST(GemmRanking, WhatIsNotWalkedIsOnTheScaleOfWhatIs) {
  const GemmProblem problem{.m = 2048, .n = 2048, .k = 256};
  const std::vector<Variant> space = space_of(problem);
  const std::vector<double> times_us = ranked(problem, space);
  // Over the whole space the ranking follows the model within a factor of two in the median.
  std::vector<double> errors;
  for (std::size_t i = 0; i < space.size(); i += 37) {
    errors.push_back(std::abs(std::log2(times_us[i] / predicted_us(problem, space[i]))));
  }
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 1.0);
}

TEST(GemmRanking, AnEmptySpaceHasNoTimes) {
  EXPECT_TRUE(ranked({.m = 64, .n = 64, .k = 64}, {}).empty());
}

}  // namespace
}  // namespace swr
