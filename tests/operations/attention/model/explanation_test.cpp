// SPDX-License-Identifier: MIT
#include "operations/attention/model/explanation.h"

#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

constexpr KernelResources kResources{.registers_per_thread = 128};
constexpr AttentionVariant kPaperVariant{.tile_m = 80,
                                         .tile_n = 80,
                                         .warps = 5,
                                         .stages = 1,
                                         .persistence = Persistence::persistent,
                                         .workers = 48};

AttentionProblem problem(int seq) { return {.seq_q = seq, .seq_kv = seq, .head_dim = 64}; }

TEST(AttentionExplanation, AgreesWithWhatThePredictionWasMadeOf) {
  const GpuProfile gb10 = load_profile("gb10");
  const AttentionExplanation why = explain(problem(32768), kPaperVariant, kResources, gb10);
  EXPECT_EQ(why.shape.ctas, 48);
  EXPECT_EQ(why.prediction.read_sectors, why.traffic.schedule.read_sectors);
  EXPECT_EQ(why.prediction.excess_misses, why.traffic.excess_misses);
  EXPECT_EQ(why.occupancy.limited_by, "registers");
}

TEST(AttentionExplanation, MissesBeginWhereThePaperSawThem) {
  const AttentionExplanation why =
      explain(problem(32768), kPaperVariant, kResources, load_profile("gb10"));
  ASSERT_TRUE(why.first_seq_with_excess);
  EXPECT_NEAR(*why.first_seq_with_excess, 80 * 1024, 5 * 1024);
}

TEST(AttentionExplanation, ACurveFallsToZeroAtTheCapacityItNames) {
  const AttentionExplanation why =
      explain(problem(100'000), kPaperVariant, kResources, load_profile("gb10"));
  ASSERT_FALSE(why.miss_curve.empty());
  for (std::size_t i = 1; i < why.miss_curve.size(); ++i) {
    EXPECT_LE(why.miss_curve[i].excess_misses, why.miss_curve[i - 1].excess_misses);
  }
  for (const MissPoint& point : why.miss_curve) {
    EXPECT_EQ(point.excess_misses == 0, point.capacity_bytes >= why.capacity_without_excess_bytes);
  }
}

TEST(AttentionExplanation, AVariantThatFitsNoSmIsRefusedByName) {
  KernelResources huge;
  huge.registers_per_thread = 255;
  const AttentionVariant variant{.tile_m = 256, .tile_n = 16, .warps = 16};
  EXPECT_THROW(explain(problem(1024), variant, huge, load_profile("gb10")), Error);
}

}  // namespace
}  // namespace swr
