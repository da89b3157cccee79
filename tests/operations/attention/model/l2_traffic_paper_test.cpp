// SPDX-License-Identifier: MIT
// What Sawtooth Wavefront Reordering measured on GB10, from the model with the gb10 profile.
#include "model/profile/gpu_profile.h"
#include "operations/attention/model/l2_traffic.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

AttentionProblem paper_problem(int seq, int batch = 1) {
  return {.batch = batch, .seq_q = seq, .seq_kv = seq, .head_dim = 64};
}

/// Square tiles, one CTA per SM as in the paper.
L2Traffic gb10_traffic(const AttentionProblem& problem, int tile, Order order,
                       Persistence persistence, int workers = 48) {
  static const GpuProfile profile = load_profile("gb10");
  const AttentionVariant variant{.tile_m = tile,
                                 .tile_n = tile,
                                 .order = order,
                                 .persistence = persistence,
                                 .workers = persistence == Persistence::persistent ? workers : 0};
  const ScheduleShape shape = make_schedule_shape(problem, variant, profile.device.sm_count, 1);
  return simulate_l2(shape, profile.l2_policy());
}

long long total_sectors(const L2Traffic& traffic) {
  return traffic.schedule.read_sectors + traffic.schedule.write_sectors;
}

TEST(PaperFacts, SectorsOfTable2ComeOutExactly) {
  const auto grid = [](int seq) {
    return total_sectors(gb10_traffic(paper_problem(seq), 80, Order::cyclic, Persistence::grid));
  };
  EXPECT_EQ(grid(32 * 1024), 107'741'184);
  EXPECT_EQ(grid(128 * 1024), 1'719'664'640);
}

TEST(PaperFacts, SectorsOfTable1AreWithinOnePercent) {
  const auto persistent = [](int seq) {
    return static_cast<double>(total_sectors(
        gb10_traffic(paper_problem(seq), 80, Order::cyclic, Persistence::persistent)));
  };
  EXPECT_NEAR(persistent(32 * 1024), 107'478'656, 0.01 * 107'478'656);
  EXPECT_NEAR(persistent(128 * 1024), 1'719'093'980, 0.01 * 1'719'093'980);
}

TEST(PaperFacts, CompulsoryMissesAreSixteenSectorsPerPosition) {
  for (const int seq : {32 * 1024, 100'000, 128 * 1024}) {
    const L2Traffic traffic =
        gb10_traffic(paper_problem(seq), 80, Order::cyclic, Persistence::persistent);
    EXPECT_EQ(traffic.compulsory_misses, 16LL * seq);
  }
}

TEST(PaperFacts, ExcessMissesBeginNear80K) {
  int first_with_misses = 0;
  for (int kilo = 128; kilo >= 48; kilo -= 2) {
    const L2Traffic traffic =
        gb10_traffic(paper_problem(kilo * 1024), 80, Order::cyclic, Persistence::persistent);
    if (traffic.excess_misses > 0) {
      first_with_misses = kilo;
    }
  }
  EXPECT_GE(first_with_misses, 78);
  EXPECT_LE(first_with_misses, 84);
}

TEST(PaperFacts, SawtoothRemovesHalfOfTheExcessMissesOrMore) {
  for (const int batch : {1, 2, 4, 8}) {
    const AttentionProblem problem = paper_problem(128 * 1024, batch);
    const auto excess = [&problem](Order order) {
      return gb10_traffic(problem, 64, order, Persistence::persistent).excess_misses;
    };
    EXPECT_LE(2 * excess(Order::sawtooth), excess(Order::cyclic)) << "batch " << batch;
    EXPECT_GT(excess(Order::sawtooth), 0) << "batch " << batch;
  }
}

TEST(PaperFacts, HitRateFollowsTheNumberOfActiveSms) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 47, 48}) {
    const L2Traffic traffic = gb10_traffic(paper_problem(128 * 1024), 80, Order::cyclic,
                                           Persistence::persistent, workers);
    EXPECT_NEAR(traffic.hit_rate(), 1.0 - 1.0 / workers, 0.02) << workers << " SMs";
  }
}

}  // namespace
}  // namespace swr
