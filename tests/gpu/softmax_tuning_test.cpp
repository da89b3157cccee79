// SPDX-License-Identifier: MIT
// Softmax through the tuner's evaluator: variants drawn from its space are right on fresh data and
// timed, one shape is tuned to a winner, and a kernel that computes something else is found.
#include "operations/softmax/softmax.h"
#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace swr {
namespace {

class SoftmaxTuning : public GpuTest {
 protected:
  static CompiledKernel compile(const SoftmaxProblem& problem, const Variant& variant) {
    return bench().generator.compile(problem, variant, bench().device.sm_arch);
  }
  static MeasureOptions without_counters() {
    MeasureOptions options;
    options.counters = false;
    return options;
  }
};

TEST_F(SoftmaxTuning, DrawnVariantsAreRight) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  std::mt19937 random(3);
  for (const SoftmaxProblem& problem :
       {SoftmaxProblem{.rows = 1000, .columns = 4096},
        SoftmaxProblem{.rows = 77, .columns = 1003, .dtype = DType::bf16, .alignment_bytes = 2},
        SoftmaxProblem{.rows = 300, .columns = 50257, .alignment_bytes = 4},
        SoftmaxProblem{.rows = 5, .columns = 131072, .dtype = DType::bf16},
        SoftmaxProblem{.rows = 4097, .columns = 7}}) {
    std::vector<Variant> variants = enumerate_space(problem, bench().device, {}).variants;
    std::ranges::shuffle(variants, random);
    constexpr std::size_t kDrawn = 12;
    variants.resize(std::min(variants.size(), kDrawn));
    for (const Variant& variant : variants) {
      const VariantResult result = evaluator.evaluate(problem, variant, compile(problem, variant));
      EXPECT_EQ(result.state, ResultState::ok)
          << to_string(Problem(problem)) << " " << to_key(variant) << ": " << result.detail;
      EXPECT_GT(result.time_us(), 0.0);
    }
  }
}

TEST_F(SoftmaxTuning, OneShapeIsTunedToAWinnerFasterThanTheSlowest) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const SoftmaxProblem problem{.rows = 8192, .columns = 4096};
  SpaceOptions space;
  space.restrictions["tile_rows"] = {1LL, 4LL};
  space.restrictions["threads_per_row"] = {32LL, 256LL};
  space.restrictions["vector"] = {1LL, 8LL};
  std::optional<double> best_us;
  double worst_us = 0.0;
  for (const Variant& variant : enumerate_space(problem, bench().device, space).variants) {
    const VariantResult result = evaluator.evaluate(problem, variant, compile(problem, variant));
    ASSERT_EQ(result.state, ResultState::ok) << to_key(variant) << ": " << result.detail;
    best_us = std::min(best_us.value_or(result.time_us()), result.time_us());
    worst_us = std::max(worst_us, result.time_us());
  }
  ASSERT_TRUE(best_us);
  EXPECT_LT(*best_us, worst_us);
  RecordProperty("best_us", std::to_string(*best_us));
}

TEST_F(SoftmaxTuning, AKernelThatHoldsHalfOfTheRowIsWrong) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const SoftmaxProblem problem{.rows = 64, .columns = 4096};
  const SoftmaxVariant whole{.threads_per_row = 256, .vector = 8, .held = 2};
  SoftmaxVariant half = whole;
  half.held = 1;
  const VariantResult result = evaluator.evaluate(problem, whole, compile(problem, half));
  EXPECT_EQ(result.state, ResultState::correctness) << result.detail;
}

}  // namespace
}  // namespace swr
