// SPDX-License-Identifier: MIT
// GEMM through the tuner's evaluator: what the default space offers is right, timed and counted,
// and a kernel that computes something else is found.
#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <vector>

namespace swr {
namespace {

using ::testing::HasSubstr;

class GemmTuning : public GpuTest {
 protected:
  static CompiledKernel compile(const GemmProblem& problem, const Variant& variant) {
    return bench().generator.compile(problem, variant, bench().device.sm_arch);
  }
  static MeasureOptions without_counters() {
    MeasureOptions options;
    options.counters = false;
    return options;
  }
};

TEST_F(GemmTuning, DrawnVariantsOfTheDefaultSpaceAreRight) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  std::mt19937 random(11);
  for (const GemmProblem& problem :
       {GemmProblem{.m = 1000, .n = 1032, .k = 520}, GemmProblem{.m = 16, .n = 4096, .k = 4096},
        GemmProblem{.m = 300, .n = 520, .k = 264, .layout = GemmLayout::tn, .reads_c = true},
        GemmProblem{.m = 129,
        .n = 264,
        .k = 72,
        .batch = 3,
        .output = OutputType::fp32,
        .layout = GemmLayout::nn}}) {
    std::vector<Variant> variants = enumerate_space(problem, bench().device, {}).variants;
    std::shuffle(variants.begin(), variants.end(), random);
    constexpr std::size_t kDrawn = 8;
    variants.resize(std::min(variants.size(), kDrawn));
    for (const Variant& variant : variants) {
      const CompiledKernel kernel = compile(problem, variant);
      if (check_compiled(problem, variant, bench().device, kernel.resources)) {
        continue;
      }
      const VariantResult result = evaluator.evaluate(problem, variant, kernel);
      EXPECT_EQ(result.state, ResultState::ok)
          << to_string(problem) << " " << to_key(variant) << ": " << result.detail;
      EXPECT_GT(result.time_us(), 0.0);
    }
  }
}

TEST_F(GemmTuning, AKernelOfAnotherLayoutIsWrong) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const GemmProblem problem{.m = 256, .n = 256, .k = 256};
  GemmProblem other = problem;
  other.layout = GemmLayout::nn;
  const Variant variant = default_variant(Problem(problem), bench().device);
  const VariantResult result = evaluator.evaluate(problem, variant, compile(other, variant));
  EXPECT_EQ(result.state, ResultState::correctness) << result.detail;
  EXPECT_THAT(result.detail, HasSubstr("exact"));
}

TEST_F(GemmTuning, RacesGiveOneTimePerRound) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const GemmProblem problem{.m = 512, .n = 512, .k = 512};
  const Variant one = GemmVariant{};
  const Variant other = GemmVariant{.tile_m = 128, .tile_n = 128};
  const CompiledKernel first = compile(problem, one);
  const CompiledKernel second = compile(problem, other);
  const std::vector<Contender> contenders{{one, &first}, {other, &second}};
  const RaceResult race = evaluator.race(problem, contenders, {.rounds = 4});
  ASSERT_EQ(race.samples_us.size(), 2U);
  EXPECT_EQ(race.samples_us[0].size(), 4U);
  EXPECT_GT(race.samples_us[1][3], 0.0);
}

}  // namespace
}  // namespace swr
