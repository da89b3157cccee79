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
  profile.device.l2_bytes = 1 << 20;
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

/// Products of a 64x64 tile at head_dim 64, and the shared-memory time behind it: four warps read
/// 16 KiB of K and V, which cp.async wrote once, so 80 KiB at 128 bytes per clock.
constexpr double kProducts = 4.0 * 64 * 64 * 64 / 1024;
constexpr double kSmem = 640;
/// 5.5 instructions per score and one for the rescaling of O, on 128 lanes.
constexpr double kSoftmax = 64.0 * 64 * 6.5 / 128;
constexpr Variant kOneStage{.stages = 1};

TEST(TimeModel, AStepOfAHandComputedTile) {
  const StepCost cost = step_cost(kProblem, kOneStage, 2, round_profile());
  EXPECT_DOUBLE_EQ(cost.matrix_clocks, kProducts + 0.38 * kSmem);
  EXPECT_DOUBLE_EQ(cost.softmax_clocks, 64.0 * 64 / 16);  // exp2 takes longer than kSoftmax.
  EXPECT_DOUBLE_EQ(cost.compute_clocks, kProducts + 0.38 * kSmem + 256 + 75);
}

TEST(TimeModel, InstructionsBoundTheSoftmaxOfAFastExp2) {
  GpuProfile profile = round_profile();
  profile.exp2_per_clock_per_sm = 32;
  EXPECT_DOUBLE_EQ(step_cost(kProblem, kOneStage, 2, profile).softmax_clocks, kSoftmax);
}

TEST(TimeModel, ALoneWarpPerSchedulerWaitsForItsProducts) {
  EXPECT_DOUBLE_EQ(step_cost(kProblem, kOneStage, 1, round_profile()).matrix_clocks,
                   1.25 * kProducts + 0.38 * kSmem);
}

TEST(TimeModel, ARingOfStagesComputesItsAddresses) {
  EXPECT_DOUBLE_EQ(step_cost(kProblem, Variant{}, 2, round_profile()).matrix_clocks,
                   kProducts + 0.42 * kSmem);
}

TEST(TimeModel, FewerWarpsThanSchedulersLeaveUnitsIdle) {
  const Variant two_warps{.warps = 2};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, two_warps, 1, round_profile()).softmax_clocks, 512);
}

TEST(TimeModel, FifthWarpsMeetOnOneScheduler) {
  const Variant five{.tile_m = 80, .tile_n = 80, .warps = 5};
  const double even = 80.0 * 80 / 16;
  EXPECT_DOUBLE_EQ(step_cost(kProblem, five, 2, round_profile()).softmax_clocks, 1.6 * even);
}

TEST(TimeModel, SharedMemoryBoundsAFastTensorCore) {
  GpuProfile profile = round_profile();
  profile.matrix_flop_per_clock_per_sm = 1 << 30;
  EXPECT_DOUBLE_EQ(step_cost(kProblem, Variant{}, 1, profile).matrix_clocks, kSmem);
  // Without the swizzle each read of a 128-byte row conflicts eight ways.
  const Variant plain{.smem_swizzle = false};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, plain, 1, profile).matrix_clocks, 8 * 512 + 128);
}

TEST(TimeModel, OperandsLoadedJustInTimeExposeSharedMemory) {
  // Two 16-row blocks per warp: 192 of 255 registers hold scores and output.
  AttentionProblem problem = kProblem;
  problem.head_dim = 128;
  const Variant scarce{.tile_m = 128, .tile_n = 64, .warps = 4, .stages = 1};
  const StepCost cost = step_cost(problem, scarce, 2, round_profile());
  const double products = 4.0 * 128 * 64 * 128 / 1024;
  const double smem = (4 * 2 * 64 * 256 + 128 * 256 + 2 * 64 * 256) / 128.0;
  EXPECT_DOUBLE_EQ(cost.matrix_clocks, products + smem);
}

TEST(TimeModel, TermsOfAHandComputedLaunch) {
  // Four Q tiles on two SMs: two each of four steps.
  const Prediction prediction = predict(kProblem, kOneStage, 1, round_profile());
  const double matrix_clocks = 1.25 * kProducts + 0.38 * kSmem;
  EXPECT_DOUBLE_EQ(prediction.matrix_us, 8 * matrix_clocks / 1000);
  EXPECT_DOUBLE_EQ(prediction.softmax_us, 8 * 0.256);
  // Q and O 1024 sectors each, K and V 2048 per Q tile.
  EXPECT_EQ(prediction.read_sectors, 1024 + 4 * 2048);
  EXPECT_EQ(prediction.write_sectors, 1024);
  EXPECT_DOUBLE_EQ(prediction.l2_us, (2048 + 8192) * 32 / 1000e3);
  EXPECT_DOUBLE_EQ(prediction.dram_us, 4096 * 32 / 100e3);
  // 0.4 of a step hides the latency of a step. Each Q tile waits twice for memory.
  EXPECT_NEAR(prediction.latency_us, 2 * 2 * 0.6, 1e-9);
  const double compute_us = 8 * (matrix_clocks + 256 + 150) / 1000;
  const double bound_us = std::pow(
      std::pow(compute_us, 4) + std::pow(prediction.l2_us, 4) + std::pow(prediction.dram_us, 4),
      0.25);
  EXPECT_NEAR(prediction.time_us, bound_us + 2 * 2 * 0.6, 1e-9);
}

TEST(TimeModel, OneStageExposesALongLatencyThatTwoHide) {
  GpuProfile profile = round_profile();
  profile.l2_latency_clocks = 1500;
  profile.dram_latency_clocks = 1600;
  EXPECT_GT(predict(kProblem, kOneStage, 1, profile).latency_us,
            predict(kProblem, Variant{}, 1, profile).latency_us);
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

TEST(TimeModel, TheScheduleKnowsWhatMemoryDoesToIt) {
  GpuProfile profile = round_profile();
  profile.device.l2_bytes = 2 << 20;
  const ScheduleShape shape = schedule_on_gpu(kProblem, kOneStage, 2, profile);
  const double step_clocks = 2 * step_cost(kProblem, kOneStage, 2, profile).compute_clocks;
  EXPECT_EQ(shape.dram_sectors_per_step, static_cast<int>(step_clocks * 100 / 32));
  EXPECT_EQ(shape.miss_ticks, std::lround(kTicksPerStep * 400 / step_clocks));
  EXPECT_EQ(shape.l2_partitions, 2);
}

}  // namespace
}  // namespace swr
