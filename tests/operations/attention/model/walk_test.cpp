// SPDX-License-Identifier: MIT
#include "operations/attention/model/walk.h"

#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

/// Writes down what is touched: pairs by number, after a stroke in the second partition, and Q and
/// O tiles as "-".
struct Recorder {
  std::string text;

  int touch(int pair, int sectors, int partition) {
    text += std::string(static_cast<std::size_t>(partition), '\'') + std::to_string(pair) + " ";
    return sectors;
  }
  void read_once(int /*sectors*/, int /*partition*/) { text += "- "; }
  void write_once(int /*sectors*/) { text += "- "; }
};

/// Two rows per sector unit; tiles of 16 x 16.
ScheduleShape small_shape(int seq_q, int seq_kv) {
  return {.seq_q = seq_q,
          .seq_kv = seq_kv,
          .row_sectors = 1,
          .tile_m = 16,
          .tile_n = 16,
          .ctas = ceil_div(seq_q, 16),
          .sm_count = 2,
          .ctas_per_sm = 1,
          .dram_sectors_per_step = 0};
}

std::string touches_of(const ScheduleShape& shape) {
  Recorder recorder;
  AttentionWalk(shape, recorder).run();
  return recorder.text;
}

TEST(AttentionWalk, CtasInStepReadEachPairOnce) {
  // Two CTAs on two SMs, twice: Q Q, pairs 0 1 2, then O Q for each, pairs again, O O.
  EXPECT_EQ(touches_of(small_shape(64, 48)), "- - 0 1 2 - - - - 0 1 2 - - ");
}

TEST(AttentionWalk, SawtoothTurnsRoundAtTheEndOfEachLocalIteration) {
  ScheduleShape shape = small_shape(64, 48);
  shape.order = Order::sawtooth;
  shape.persistence = Persistence::persistent;
  shape.ctas = 2;
  EXPECT_EQ(touches_of(shape), "- - 0 1 2 - - - - 2 1 0 - - ");
}

TEST(AttentionWalk, OnlyFullPersistentLaunchesInCyclicOrderMayGoAsAGrid) {
  ScheduleShape shape = small_shape(160, 64);
  shape.persistence = Persistence::persistent;
  shape.ctas = 2;
  const auto grid = grid_in_turn(shape);
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->persistence, Persistence::grid);
  EXPECT_EQ(grid->ctas, 10);
  EXPECT_EQ(touches_of(*grid), touches_of(shape));
  ScheduleShape other = shape;
  other.ctas = 1;
  EXPECT_FALSE(grid_in_turn(other)) << "a grid would fill the second SM";
  other = shape;
  other.order = Order::sawtooth;
  EXPECT_FALSE(grid_in_turn(other));
  other = shape;
  other.persistence = Persistence::pairs;
  EXPECT_FALSE(grid_in_turn(other));
}

TEST(AttentionWalk, DrawnTilesGoToTheCtaThatEndsFirst) {
  // Two CTAs, Q tiles of 1, 2, 3 and 4 steps. Dealt, the first computes 1 and 3; drawn, it ends
  // first and takes 3, and the second 4: as many steps. With long tiles first, 4 | 3, then 2 | 1:
  // the second CTA ends its 3 first and draws the 2.
  ScheduleShape shape = small_shape(64, 64);
  shape.causal = true;
  shape.longest_first = true;
  shape.ctas = 2;
  const auto makespan = [&shape](Persistence persistence) {
    shape.persistence = persistence;
    Recorder recorder;
    return AttentionWalk(shape, recorder).run().makespan_steps;
  };
  EXPECT_EQ(makespan(Persistence::persistent), 6);
  EXPECT_EQ(makespan(Persistence::dynamic), 5);
}

TEST(AttentionWalk, DrawnTilesTurnAsIfTheyHadBeenDealt) {
  ScheduleShape shape = small_shape(64, 32);
  shape.order = Order::sawtooth;
  shape.persistence = Persistence::dynamic;
  shape.ctas = 2;
  EXPECT_FALSE(scans_backward(shape, 1, 3));
  EXPECT_TRUE(scans_backward(shape, 2, 0));
  shape.persistence = Persistence::persistent;
  EXPECT_TRUE(scans_backward(shape, 1, 3));
}

TEST(AttentionWalk, CrossingStreamsTouchTheSharedPairOnce) {
  ScheduleShape shape = small_shape(64, 64);
  shape.causal = true;
  shape.order = Order::sawtooth;
  shape.persistence = Persistence::pairs;
  shape.ctas = 2;
  // CTA 0 takes tile 0 (pair 0) and tile 1 backwards (1 0), CTA 1 tile 2 (0 1 2) and tile 3
  // backwards: they meet on pair 1.
  EXPECT_EQ(touches_of(shape), "- - 0 - - 1 0 2 - - - 3 2 1 0 - ");
}

TEST(AttentionWalk, TouchesNoMoreThanCtasRead) {
  struct Counter {
    long long touches = 0;
    int touch(int /*pair*/, int sectors, int /*partition*/) {
      return ++touches % 3 == 0 ? sectors : 0;
    }
    void read_once(int /*sectors*/, int /*partition*/) {}
    void write_once(int /*sectors*/) {}
  };
  for (const int seq : {512, 1024, 2048, 4096}) {
    ScheduleShape shape = small_shape(seq, seq);
    shape.causal = true;
    shape.sm_count = 8;
    shape.l2_partitions = 2;
    shape.dram_sectors_per_step = 40;
    shape.pace_spread_ppm = 10'000;
    Counter counter;
    const ScheduleSummary summary = AttentionWalk(shape, counter).run();
    EXPECT_LE(counter.touches, summary.steps);
  }
}

TEST(AttentionWalk, RunsOfSmsBelongToPartitionsInTurn) {
  EXPECT_EQ(partition_of_sm({}, 2, 6, 2), 0);
  EXPECT_EQ(partition_of_sm({}, 2, 6, 3), 1);
  const int runs[] = {1, 3, 2};
  const int expected[] = {0, 1, 1, 1, 0, 0};
  for (int sm = 0; sm < 6; ++sm) {
    EXPECT_EQ(partition_of_sm(runs, 2, 6, sm), expected[sm]) << sm;
  }
}

TEST(AttentionWalk, PacesLieWithinTheSpread) {
  ScheduleShape shape{.pace_spread_ppm = 1000};
  constexpr int kSteps = 1000;
  long long sum = 0;
  constexpr int kSms = 128;
  for (int sm = 0; sm < kSms; ++sm) {
    const long long delay = pace_delay_ticks(shape, sm, kSteps);
    EXPECT_GE(delay, 0);
    EXPECT_LE(delay, kTicksPerStep);  // A thousandth of a thousand steps.
    sum += delay;
  }
  EXPECT_NEAR(static_cast<double>(sum) / kSms, kTicksPerStep / 2.0, 0.05 * kTicksPerStep);
}

TEST(AttentionWalk, ShapesOfVariantsThatL2CannotTellApartAreEqual) {
  const AttentionProblem problem{.seq_q = 4096, .seq_kv = 4096};
  const AttentionVariant plain;
  AttentionVariant staged{.warps = 2, .stages = 4, .smem_swizzle = false};
  EXPECT_EQ(make_schedule_shape(problem, plain, 48, 2),
            make_schedule_shape(problem, staged, 48, 2));
  // 64 CTAs on 48 SMs fill two places each, not eight.
  EXPECT_EQ(make_schedule_shape(problem, plain, 48, 2), make_schedule_shape(problem, plain, 48, 8));
}

}  // namespace
}  // namespace swr
