// SPDX-License-Identifier: MIT
#include "operations/attention/model/sm_timeline.h"

#include "tests/support/test.h"

namespace swr {
namespace {

/// Q tiles of four KV steps each; CTAs that share an SM run at three quarters of their pace.
ScheduleShape four_steps(int q_tiles, int sms, int ctas_per_sm) {
  return {.seq_q = 16 * q_tiles,
          .seq_kv = 64,
          .row_sectors = 1,
          .tile_m = 16,
          .tile_n = 16,
          .ctas = q_tiles,
          .sm_count = sms,
          .ctas_per_sm = ctas_per_sm,
          .dram_sectors_per_step = 0};
}

TimelineCosts costs() { return {.step_clocks = {75, 100}}; }

TEST(SmTimeline, CtasThatShareAnSmSlowEachOtherDown) {
  EXPECT_DOUBLE_EQ(run_timeline(four_steps(1, 1, 2), costs()).clocks, 300);
  EXPECT_DOUBLE_EQ(run_timeline(four_steps(2, 1, 2), costs()).clocks, 400);
}

TEST(SmTimeline, TheLoneLastCtaHasTheSmForItself) {
  const Timeline timeline = run_timeline(four_steps(3, 1, 2), costs());
  EXPECT_DOUBLE_EQ(timeline.clocks, 400 + 300);
  EXPECT_EQ(timeline.busiest_sm_steps, 12);
}

TEST(SmTimeline, TheNextCtaGoesToTheSmThatIsFreeFirst) {
  ScheduleShape shape = four_steps(4, 2, 1);
  shape.causal = true;  // Q tiles of 1, 2, 3 and 4 steps: 1 and 3 on one SM, 2 and 4 on the other.
  const Timeline timeline = run_timeline(shape, costs());
  EXPECT_DOUBLE_EQ(timeline.clocks, 6 * 75);
  EXPECT_EQ(timeline.busiest_sm_steps, 6);
}

TEST(SmTimeline, PersistentCtasKeepTheirTiles) {
  ScheduleShape shape = four_steps(3, 1, 2);
  shape.persistence = Persistence::persistent;
  shape.ctas = 2;
  EXPECT_DOUBLE_EQ(run_timeline(shape, costs()).clocks, 400 + 300);
}

TEST(SmTimeline, APartlyEmptyLastRoundCostsTheMeanOfTwoDeals) {
  // Eight CTAs on four SMs, of which the first four have two Q tiles. Breadth first each of these
  // has an SM of its own; dealt two SMs first, they meet in pairs.
  ScheduleShape shape = four_steps(12, 4, 2);
  shape.persistence = Persistence::persistent;
  shape.ctas = 8;
  EXPECT_DOUBLE_EQ(run_timeline(shape, costs()).clocks, 0.2 * (400 + 300) + 0.8 * 800);
  // With one Q tile each both deals are alike.
  shape.ctas = 7;
  shape.seq_q = 16 * 7;
  EXPECT_DOUBLE_EQ(run_timeline(shape, costs()).clocks, 400);
}

TEST(SmTimeline, DrawnTilesGoToTheCtaThatEndsFirst) {
  // Q tiles of 4, 3, 2 and 1 steps on two SMs.
  ScheduleShape shape = four_steps(4, 2, 1);
  shape.causal = true;
  shape.longest_first = true;
  shape.ctas = 2;
  shape.persistence = Persistence::persistent;
  EXPECT_DOUBLE_EQ(run_timeline(shape, costs()).clocks, 6 * 75);
  shape.persistence = Persistence::dynamic;
  EXPECT_DOUBLE_EQ(run_timeline(shape, costs()).clocks, 5 * 75);
}

TEST(SmTimeline, TheOlderCtaEndsFirstAndLeavesTheRestAlone) {
  TimelineCosts unfair = costs();
  unfair.younger_share = 1.0 / 3;
  // The older has 3/4 of the SM: four steps in 4 * 100 / 1.5 clocks. The younger has done a third
  // of its own by then and does the rest alone.
  EXPECT_NEAR(run_timeline(four_steps(2, 1, 2), unfair).clocks, 800.0 / 3 + 8.0 / 3 * 75, 1e-9);
}

TEST(SmTimeline, WhileAQTileComesTheOtherCtaHasTheSmForItself) {
  TimelineCosts late = costs();
  late.tile_delay_clocks = 1000;
  EXPECT_DOUBLE_EQ(run_timeline(four_steps(1, 1, 1), late).clocks, 1300);
  EXPECT_DOUBLE_EQ(run_timeline(four_steps(2, 1, 2), late).clocks, 1400);
}

TEST(SmTimeline, MaskedStepsTakeLonger) {
  ScheduleShape shape = four_steps(1, 1, 1);
  shape.seq_q = 64;
  shape.tile_m = 64;
  shape.causal = true;
  TimelineCosts masked = costs();
  masked.masked_extra_steps = 0.5;
  EXPECT_DOUBLE_EQ(run_timeline(shape, masked).clocks, 300 + 4 * 0.5 * 75);
}

}  // namespace
}  // namespace swr
