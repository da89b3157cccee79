// SPDX-License-Identifier: MIT
#include "operations/attention/model/explanation.h"
#include "operations/attention/model/time.h"
#include "operations/attention/model/walk.h"
#include "operations/gemm/model/time.h"
#include "operations/gemm/model/walk.h"
#include "tests/support/test.h"
#include "tuner/predict/predicting_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

struct Sink {
  int touch(int, int, int) { return 0; }
  void read_once(int, int) {}
  void write_once(int) {}
};

AttentionVariant tile(int m, int n) { return AttentionVariant{.tile_m = m, .tile_n = n}; }

AttentionProblem attention(int batch, int heads, int seq_q, int seq_kv, bool causal = false) {
  return {.batch = batch,
          .heads_q = heads,
          .heads_kv = heads,
          .seq_q = seq_q,
          .seq_kv = seq_kv,
          .causal = causal};
}

ScheduleShape shape_of(const AttentionProblem& problem) {
  validate(problem);
  return schedule_on_gpu(problem, tile(64, 64), 1, load_profile("gb10"));
}

std::string error_of(const ScheduleShape& shape) {
  return message_of(ErrorCode::invalid_argument,
                    [&] { simulate_l2(shape, load_profile("gb10").l2_policy()); });
}

TEST(WalkLimits, PairsOfLegalSizesAreCountedBeyondAnInt) {
  EXPECT_EQ(kv_pair_count(shape_of(attention(65536, 1, 1, 1 << 24))), 1LL << 34);
  EXPECT_EQ(kv_pair_count(shape_of(attention(2, 3, 100, 1000))), 96);
}

TEST(WalkLimits, NameTheSizeThatTheMemoryForbids) {
  EXPECT_THAT(error_of(shape_of(attention(65536, 1, 1, 1 << 24))),
              AllOf(HasSubstr("batch 65536"), HasSubstr("1/16777216 rows"), HasSubstr("64x64"),
                    HasSubstr("GiB"), HasSubstr("shorter length")));
  EXPECT_THAT(error_of(shape_of(attention(4096, 32, 64, 131072))), HasSubstr("at most 2 GiB"));
}

TEST(WalkLimits, NameTheSizeThatTheTimeForbids) {
  for (const bool causal : {false, true}) {
    EXPECT_THAT(error_of(shape_of(attention(1, 1, 1 << 24, 1 << 24, causal))),
                HasSubstr("16777216/16777216 rows"));
  }
}

TEST(WalkLimits, HoldForEverySizeTogether) {
  EXPECT_FALSE(beyond_walk_limits(shape_of(attention(1, 1, 1, 1 << 24))));
  EXPECT_FALSE(beyond_walk_limits(shape_of(attention(65536, 1, 1, 1024))));
  EXPECT_FALSE(beyond_walk_limits(shape_of(attention(1, 32, 131072, 131072, true))));
  EXPECT_FALSE(beyond_walk_limits(shape_of(attention(64, 8, 1, 131072))));
  EXPECT_TRUE(beyond_walk_limits(shape_of(attention(65536, 1, 1, 1 << 20))));
}

/// The estimate is from above, and exact in steps of CTAs.
TEST(WalkLimits, CountTheStepsThatAWalkTakes) {
  for (const auto& [problem, splits] : {std::pair{attention(2, 3, 700, 1000), 1},
                                        {attention(1, 4, 512, 512, true), 1},
                                        {attention(1, 2, 300, 2000), 4}}) {
    AttentionVariant variant = tile(64, 32);
    variant.kv_splits = splits;
    const ScheduleShape shape = schedule_on_gpu(problem, variant, 2, load_profile("h200"));
    Sink sink;
    const auto walked = static_cast<double>(AttentionWalk(shape, sink).run().steps);
    const auto items = static_cast<double>(shape.items().count());
    const double places = std::min(static_cast<double>(shape.ctas),
                                   static_cast<double>(shape.sm_count) * shape.ctas_per_sm);
    EXPECT_GE(walk_cost(shape).steps, walked);
    EXPECT_LE(walk_cost(shape).steps, 2.0 * walked + items * (places + 1.0));
  }
}

TEST(WalkLimits, HoldForGemmAsWell) {
  const GpuProfile profile = load_profile("h200");
  const auto launch = [&](int m, int n, int k, int batch) {
    return gemm_launch_on_gpu({.m = m, .n = n, .k = k, .batch = batch}, GemmVariant{}, 1, profile);
  };
  EXPECT_FALSE(beyond_walk_limits(launch(4096, 14336, 4096, 1)));
  EXPECT_THAT(beyond_walk_limits(launch(1 << 20, 1 << 20, 1 << 20, 1)).value_or(""),
              HasSubstr("m 1048576"));
  EXPECT_THROW(simulate_gemm_l2(launch(128, 128, 1 << 24, 1 << 10), profile.l2_policy()), Error);
}

TEST(WalkLimits, BecomeRowsWithAReasonWhereOtherVariantsAreWalked) {
  const GpuProfile profile = load_profile("gb10");
  PredictingEvaluator model(profile);
  CompiledKernel kernel;
  kernel.resources.registers_per_thread = 64;
  const AttentionProblem huge = attention(65536, 1, 1, 1 << 20);
  const VariantResult row = model.evaluate(huge, tile(64, 64), kernel);
  EXPECT_EQ(row.state, ResultState::constraint);
  EXPECT_THAT(row.detail, HasSubstr("model_limits: the model does not walk attention"));
}

TEST(WalkLimits, AnExplanationSearchesNoFurtherThanTheyReach) {
  const AttentionProblem many = attention(2048, 8, 1, 4096);
  KernelResources resources{.registers_per_thread = 64};
  const AttentionExplanation why = explain(many, tile(64, 64), resources, load_profile("h200"));
  EXPECT_LT(why.longest_seq_walked, kLongestSequence);
  EXPECT_GT(why.longest_seq_walked, 4096);
}

}  // namespace
}  // namespace swr
