// SPDX-License-Identifier: MIT
// Whole tunings of each operation but attention, whose evaluator has a test of its own.
#include "operations/attention_serving/serving_attention.h"
#include "operations/softmax/softmax.h"
#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_backward_problem.h>
#include <swr/attention_backward_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

class Tuning : public GpuTest {
 protected:
  static CompiledKernel compile(const Problem& problem, const Variant& variant) {
    return bench().generator.compile(problem, variant, bench().device.sm_arch);
  }
  /// So many variants drawn from the space of each problem are right on fresh data, and timed.
  static void expect_drawn_are_right(const Problem& problem, std::size_t drawn,
                                     std::mt19937& random) {
    std::vector<Variant> variants = enumerate_space(problem, bench().device, {}).variants;
    std::ranges::shuffle(variants, random);
    variants.resize(std::min(variants.size(), drawn));
    MeasuringEvaluator evaluator(bench().generator, {.counters = false});
    for (const Variant& variant : variants) {
      const CompiledKernel kernel = compile(problem, variant);
      if (check_compiled(problem, variant, bench().device, kernel.resources)) {
        continue;  // It spills.
      }
      const VariantResult result = evaluator.evaluate(problem, variant, kernel);
      EXPECT_EQ(result.state, ResultState::ok)
          << to_string(problem) << " " << to_key(variant) << ": " << result.detail;
      EXPECT_GT(result.time_us(), 0.0);
    }
  }
  /// A kernel of another problem or variant is found to be wrong.
  static VariantResult expect_wrong(const Problem& problem, const Variant& variant,
                                    const CompiledKernel& kernel) {
    MeasuringEvaluator evaluator(bench().generator, {.counters = false});
    VariantResult result = evaluator.evaluate(problem, variant, kernel);
    EXPECT_EQ(result.state, ResultState::correctness) << result.detail;
    return result;
  }
};

class GemmTuning : public Tuning {};

TEST_F(GemmTuning, DrawnVariantsOfTheDefaultSpaceAreRight) {
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
    expect_drawn_are_right(problem, 8, random);
  }
}

TEST_F(GemmTuning, AKernelOfAnotherLayoutIsWrong) {
  const GemmProblem problem{.m = 256, .n = 256, .k = 256};
  GemmProblem other = problem;
  other.layout = GemmLayout::nn;
  const Variant variant = default_variant(Problem(problem), bench().device);
  EXPECT_THAT(expect_wrong(problem, variant, compile(other, variant)).detail, HasSubstr("exact"));
}

TEST_F(GemmTuning, RacesGiveOneTimePerRound) {
  MeasuringEvaluator evaluator(bench().generator, {.counters = false});
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

// Attention backward through the tuner's evaluator: variants drawn from its space are right on
// fresh data, deterministic ones to the bit, and a wrong mask is found.

class BackwardTuning : public Tuning {};

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
      expect_drawn_are_right(problem, 4, random);
    }
  }
}

/// Where dS = P (dP - rowsum) cancels, gradients are nearly 0, and what is left is rounding: of
/// sums in fp32 with one key, of O with two.
TEST_F(BackwardTuning, GradientsThatCancelAreRight) {
  MeasuringEvaluator evaluator(bench().generator, {.counters = false});
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
  AttentionBackwardProblem full = kGrouped;
  full.causal = false;
  const AttentionBackwardVariant variant{.tile_m = 32, .tile_n = 64};
  expect_wrong(kGrouped, variant, compile(full, variant));
}

// Attention over unequal sequences through the tuner's evaluator: variants drawn from its space are
// right on fresh data and timed, whatever the family of lengths, and a wrong mask is found.

class ServingTuning : public Tuning {};

const ServingAttentionProblem kDecode{.batch = 21,
                                      .heads_q = 8,
                                      .heads_kv = 2,
                                      .seq_q = 2,
                                      .seq_kv = 1500,
                                      .head_dim = 128,
                                      .head_dim_v = 128,
                                      .dtype = DType::bf16};

TEST_F(ServingTuning, DrawnVariantsAreRightForEveryFamilyOfLengths) {
  std::mt19937 random(3);
  std::vector<ServingAttentionProblem> problems;
  for (int family = 0; family < 7; ++family) {
    ServingAttentionProblem problem = kDecode;
    problem.lengths = static_cast<LengthFamily>(family);
    problem.page_size = family % 2 == 0 ? 16 : 7 * (family / 2);
    problem.sinks = family % 3 == 0;
    problem.leftpad = family == 5;
    problems.push_back(problem);
    problem.seq_q = 300;
    problem.dtype = DType::fp16;
    problem.mask = family < 3 ? ServingMask::causal : ServingMask::window;
    problem.window = family < 3 ? 0 : 100 * family;
    problem.softcap = family % 3 == 1 ? Softcap::accurate : Softcap::none;
    problem.head_dim = family == 4 ? 192 : 128;
    problems.push_back(problem);
  }
  for (const ServingAttentionProblem& problem : problems) {
    expect_drawn_are_right(problem, 3, random);
  }
}

TEST_F(ServingTuning, AKernelWithAnotherMaskIsWrong) {
  ServingAttentionProblem full = kDecode;
  full.mask = ServingMask::full;
  const ServingAttentionVariant variant{.pack_gqa = true};
  expect_wrong(kDecode, variant, compile(full, variant));
}

// Softmax through the tuner's evaluator: variants drawn from its space are right on fresh data and
// timed, one shape is tuned to a winner, and a kernel that computes something else is found.

class SoftmaxTuning : public Tuning {};

TEST_F(SoftmaxTuning, DrawnVariantsAreRight) {
  std::mt19937 random(3);
  for (const SoftmaxProblem& problem :
       {SoftmaxProblem{.rows = 1000, .columns = 4096},
        SoftmaxProblem{.rows = 77, .columns = 1003, .dtype = DType::bf16, .alignment_bytes = 2},
        SoftmaxProblem{.rows = 300, .columns = 50257, .alignment_bytes = 4},
        SoftmaxProblem{.rows = 5, .columns = 131072, .dtype = DType::bf16},
        SoftmaxProblem{.rows = 4097, .columns = 7}}) {
    expect_drawn_are_right(problem, 12, random);
  }
}

TEST_F(SoftmaxTuning, OneShapeIsTunedToAWinnerFasterThanTheSlowest) {
  MeasuringEvaluator evaluator(bench().generator, {.counters = false});
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
  const SoftmaxProblem problem{.rows = 64, .columns = 4096};
  const SoftmaxVariant whole{.threads_per_row = 256, .vector = 8, .held = 2};
  SoftmaxVariant half = whole;
  half.held = 1;
  expect_wrong(problem, whole, compile(problem, half));
}

}  // namespace
}  // namespace swr
