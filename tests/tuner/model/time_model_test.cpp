// SPDX-License-Identifier: MIT
#include "tuner/model/time_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace swr {
namespace {

/// Round numbers: 1000 MHz, so that 1000 clocks are a microsecond.
GpuProfile round_profile() {
  GpuProfile profile;
  profile.device.sm_count = 2;
  profile.device.dram_gb_per_s = 200;
  profile.dram_efficiency = 0.5;
  profile.clock_mhz = 1000;
  profile.matrix_flop_per_clock_per_sm = 1024;
  profile.exp2_per_clock_per_sm = 16;
  profile.fma_per_clock_per_sm = 128;
  profile.l2_gb_per_s = 1000;
  profile.l2_latency_clocks = 200;
  profile.dram_latency_clocks = 600;
  profile.l2_effective_bytes = 1 << 20;
  return profile;
}

constexpr AttentionProblem kProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

Prediction predict(const AttentionProblem& problem, const Variant& variant, int ctas_per_sm,
                   const GpuProfile& profile) {
  const ScheduleShape shape =
      make_schedule_shape(problem, variant, profile.device.sm_count, ctas_per_sm);
  const L2Traffic traffic = simulate_l2(shape, profile.l2_effective_bytes);
  return predict_time(problem, variant, shape, traffic, profile);
}

TEST(TimeModel, AStepOfAHandComputedTile) {
  const StepCost cost = step_cost(kProblem, Variant{}, 1, round_profile());
  EXPECT_DOUBLE_EQ(cost.matrix_clocks, 4.0 * 64 * 64 * 64 / 1024);
  EXPECT_DOUBLE_EQ(cost.softmax_clocks, 64.0 * 64 / 16);
  // One warp per scheduler overlaps nothing and stalls for 150 clocks.
  EXPECT_DOUBLE_EQ(cost.compute_clocks, 1024 + 256 + 150);
}

TEST(TimeModel, MoreWarpsOverlapProductsAndSoftmax) {
  EXPECT_DOUBLE_EQ(step_cost(kProblem, Variant{}, 2, round_profile()).compute_clocks,
                   1024 + (256 + 150) / 2.0);
}

TEST(TimeModel, FewerWarpsThanSchedulersLeaveUnitsIdle) {
  const Variant two_warps{.warps = 2};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, two_warps, 1, round_profile()).softmax_clocks, 512);
}

TEST(TimeModel, SharedMemoryBoundsAFastTensorCore) {
  GpuProfile profile = round_profile();
  profile.matrix_flop_per_clock_per_sm = 1 << 20;
  // Four warps read 16 KiB of K and V, which cp.async wrote once: 80 KiB at 128 bytes per clock.
  EXPECT_DOUBLE_EQ(step_cost(kProblem, Variant{}, 1, profile).matrix_clocks, 640);
  // Without the swizzle each read of a 128-byte row conflicts eight ways.
  const Variant plain{.smem_swizzle = false};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, plain, 1, profile).matrix_clocks, 8 * 512 + 128);
}

TEST(TimeModel, TermsOfAHandComputedLaunch) {
  // Four Q tiles on two SMs: two each of four steps.
  const Prediction prediction = predict(kProblem, Variant{}, 1, round_profile());
  EXPECT_DOUBLE_EQ(prediction.matrix_us, 8 * 1.024);
  EXPECT_DOUBLE_EQ(prediction.softmax_us, 8 * 0.256);
  // Q and O 1024 sectors each, K and V 2048 per Q tile.
  EXPECT_EQ(prediction.read_sectors, 1024 + 4 * 2048);
  EXPECT_EQ(prediction.write_sectors, 1024);
  EXPECT_DOUBLE_EQ(prediction.l2_us, (2048 + 8192) * 32 / 1000e3);
  EXPECT_DOUBLE_EQ(prediction.dram_us, 4096 * 32 / 100e3);
  // Two stages keep up: (latency + step) / 2 is below a step. Each Q tile waits once for memory.
  EXPECT_NEAR(prediction.latency_us, 2 * 0.6, 1e-9);
  const double compute_us = 8 * 1.430;
  const double bound_us = std::pow(
      std::pow(compute_us, 4) + std::pow(prediction.l2_us, 4) + std::pow(prediction.dram_us, 4),
      0.25);
  EXPECT_NEAR(prediction.time_us, bound_us + 2 * 0.6, 1e-9);
}

TEST(TimeModel, OneStageExposesTheLatencyThatTwoHide) {
  Variant single;
  single.stages = 1;
  EXPECT_GT(predict(kProblem, single, 1, round_profile()).latency_us,
            predict(kProblem, Variant{}, 1, round_profile()).latency_us);
}

TEST(TimeModel, ARaggedTileCostsAsMuchAsAFullOne) {
  AttentionProblem ragged = kProblem;
  ragged.seq_kv = 193;
  EXPECT_DOUBLE_EQ(predict(ragged, Variant{}, 1, round_profile()).matrix_us,
                   predict(kProblem, Variant{}, 1, round_profile()).matrix_us);
}

TEST(TimeModel, ATailWaveCostsAsMuchAsAFullWave) {
  AttentionProblem five_tiles = kProblem;
  five_tiles.seq_q = 5 * 64;
  AttentionProblem six_tiles = kProblem;
  six_tiles.seq_q = 6 * 64;
  EXPECT_DOUBLE_EQ(predict(five_tiles, Variant{}, 1, round_profile()).matrix_us,
                   predict(six_tiles, Variant{}, 1, round_profile()).matrix_us);
}

TEST(TimeModel, SlowMemoryBoundsTheTime) {
  GpuProfile profile = round_profile();
  profile.device.dram_gb_per_s = 2;
  const Prediction prediction = predict(kProblem, Variant{}, 1, profile);
  EXPECT_GT(prediction.dram_us, prediction.matrix_us);
  EXPECT_GE(prediction.time_us, prediction.dram_us);
}

TEST(TimeModel, MemoryDeliversItsRateDuringAStep) {
  // Two CTAs of 1227 clocks each: 2.454 us at 100 bytes per ns.
  EXPECT_EQ(dram_sectors_per_step(kProblem, Variant{}, 2, round_profile()), 2454 * 100 / 32);
}

}  // namespace
}  // namespace swr
