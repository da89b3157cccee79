// SPDX-License-Identifier: MIT
// Attention backward through the tuner's evaluator: variants drawn from its space are right on
// fresh data, deterministic ones to the bit, and a wrong mask is found.
#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_backward_problem.h>
#include <swr/attention_backward_variant.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace swr {
namespace {

class BackwardTuning : public GpuTest {
 protected:
  static CompiledKernel compile(const AttentionBackwardProblem& problem, const Variant& variant) {
    return bench().generator.compile(problem, variant, bench().device.sm_arch);
  }
  static MeasureOptions without_counters() {
    MeasureOptions options;
    options.counters = false;
    return options;
  }
};

const AttentionBackwardProblem kGrouped{.batch = 2,
                                        .heads_q = 6,
                                        .heads_kv = 2,
                                        .seq_q = 500,
                                        .seq_kv = 700,
                                        .head_dim = 128,
                                        .head_dim_v = 128,
                                        .dtype = DType::bf16,
                                        .causal = true};

TEST_F(BackwardTuning, DrawnVariantsAreRightForEveryHeadDim) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  std::mt19937 random(7);
  for (const auto& [head_dim, head_dim_v] :
       {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {256, 256}, {112, 48}}) {
    for (const bool deterministic : {false, true}) {
      AttentionBackwardProblem problem = kGrouped;
      problem.head_dim = head_dim;
      problem.head_dim_v = head_dim_v;
      problem.deterministic = deterministic;
      problem.causal = random() % 2 == 0;
      problem.dtype = random() % 2 == 0 ? DType::fp16 : DType::bf16;
      problem.alignment_bytes = random() % 3 == 0 ? 4 : 16;
      std::vector<Variant> variants = enumerate_space(problem, bench().device, {}).variants;
      std::ranges::shuffle(variants, random);
      constexpr std::size_t kDrawn = 4;
      variants.resize(std::min(variants.size(), kDrawn));
      for (const Variant& variant : variants) {
        const CompiledKernel kernel = compile(problem, variant);
        if (check_compiled(problem, variant, bench().device, kernel.resources)) {
          continue;  // It spills.
        }
        const VariantResult result = evaluator.evaluate(problem, variant, kernel);
        EXPECT_EQ(result.state, ResultState::ok)
            << to_string(Problem(problem)) << " " << to_key(variant) << ": " << result.detail;
        EXPECT_GT(result.time_us(), 0.0);
      }
    }
  }
}

/// Where dS = P (dP - rowsum) cancels, gradients are nearly 0, and what is left is rounding: of
/// sums in fp32 with one key, of O with two.
TEST_F(BackwardTuning, GradientsThatCancelAreRight) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionBackwardVariant variant{.tile_m = 32, .tile_n = 64};
  AttentionBackwardProblem problem = kGrouped;
  problem.causal = false;
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    problem.dtype = dtype;
    const CompiledKernel kernel = compile(problem, variant);
    for (const auto& [heads, rows, keys] :
         {std::tuple{8, 2000, 1}, {1, 1, 1}, {1, 1, 2}, {1, 2, 2}, {2, 3, 2}, {3, 1, 3}}) {
      problem.batch = problem.heads_kv = 1;
      problem.heads_q = heads;
      problem.seq_q = rows;
      problem.seq_kv = keys;
      const VariantResult result = evaluator.evaluate(problem, variant, kernel);
      EXPECT_EQ(result.state, ResultState::ok) << to_string(Problem(problem)) << result.detail;
    }
  }
}

TEST_F(BackwardTuning, AKernelWithAnotherMaskIsWrong) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  AttentionBackwardProblem full = kGrouped;
  full.causal = false;
  const AttentionBackwardVariant variant{.tile_m = 32, .tile_n = 64};
  const VariantResult result = evaluator.evaluate(kGrouped, variant, compile(full, variant));
  EXPECT_EQ(result.state, ResultState::correctness) << result.detail;
}

}  // namespace
}  // namespace swr
