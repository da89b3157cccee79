// SPDX-License-Identifier: MIT
#include "db/match.h"

#include "tests/db/fixtures.h"
#include <swr/attention_problem.h>

namespace swr {
namespace {

TEST(Match, EqualShapesAreAtDistanceZero) {
  EXPECT_EQ(shape_distance(problem_of(4096), problem_of(4096)), 0.0);
}

TEST(Match, OneDoublingIsAtDistanceOneInEveryDimension) {
  const AttentionProblem base = problem_of(4096);
  for (int AttentionProblem::*dimension :
       {&AttentionProblem::batch, &AttentionProblem::heads_q, &AttentionProblem::heads_kv,
        &AttentionProblem::seq_q, &AttentionProblem::seq_kv}) {
    AttentionProblem doubled = base;
    doubled.*dimension *= 2;
    EXPECT_DOUBLE_EQ(shape_distance(base, doubled).value(), 1.0);
    EXPECT_DOUBLE_EQ(shape_distance(doubled, base).value(), 1.0);
  }
}

TEST(Match, DimensionsAddUpAsSquares) {
  AttentionProblem far = problem_of(4096);
  far.batch = 8;    // three octaves
  far.seq_q /= 16;  // four
  EXPECT_DOUBLE_EQ(shape_distance(problem_of(4096), far).value(), 5.0);
}

TEST(Match, ProblemsOfAnotherKindHaveNoDistance) {
  const AttentionProblem base = problem_of(4096);
  AttentionProblem other = base;
  other.dtype = DType::bf16;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.head_dim = 128;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.causal = true;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.alignment_bytes = 8;
  EXPECT_FALSE(shape_distance(base, other));
}

TEST(Match, DevicesDifferByTheirSizesNotTheirNames) {
  DeviceInfo other = fictional_gpu();
  other.name = "Fictional F1 Deluxe";
  EXPECT_EQ(device_distance(fictional_gpu(), other), 0.0);
  other.l2_bytes *= 2;
  EXPECT_DOUBLE_EQ(device_distance(fictional_gpu(), other), 1.0);
}

TEST(Match, TheSmallerTimeWinsWhateverTheRest) {
  VariantResult slow = predicted(tile(64, 64), 11.0);
  VariantResult fast = predicted(tile(128, 64), 10.0);
  std::get<Prediction>(fast.outcome).excess_misses = 1000;
  EXPECT_TRUE(is_better(problem_of(4096), fast, slow));
  EXPECT_FALSE(is_better(problem_of(4096), slow, fast));
}

TEST(Match, TiesGoToFewerExcessMissesThenRegistersThenTheKey) {
  const AttentionProblem problem = problem_of(4096);
  VariantResult a = predicted(tile(128, 64), 10.0);
  VariantResult b = predicted(tile(64, 64), 10.0);
  EXPECT_TRUE(is_better(problem, a, b)) << "by key: tile_m=128 sorts before tile_m=64";
  b.resources.registers_per_thread = 100;
  EXPECT_TRUE(is_better(problem, b, a)) << "by registers";
  std::get<Prediction>(b.outcome).excess_misses = 5;
  EXPECT_TRUE(is_better(problem, a, b)) << "by misses";
}

TEST(Match, KnownMissesBeatUnknownOnesInATie) {
  const VariantResult unknown = measured(tile(64, 64), 10.0);
  VariantResult known = measured(tile(64, 64), 10.0);
  auto& measurement = std::get<Measurement>(known.outcome);
  measurement.counters = Counters{.dram_read_bytes = 1LL << 40};
  measurement.counters_missing_because.clear();
  EXPECT_TRUE(is_better(problem_of(4096), known, unknown));
}

}  // namespace
}  // namespace swr
