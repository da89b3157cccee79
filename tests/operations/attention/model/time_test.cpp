// SPDX-License-Identifier: MIT
#include "operations/attention/model/time.h"

#include "operations/attention/config.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace swr {
namespace {

using ::testing::Each;

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
  profile.kernel = {.product_factor = 1.25,
                    .smem_share = 0.25,
                    .smem_share_per_register = 0.01,
                    .exp2_share = 1.0,
                    .softmax_instructions = 4.0,
                    .copy_instructions = 8.0,
                    .mask_instructions = 3.0,
                    .overlap_share = 0.5,
                    .works_per_cta = 1.0,
                    .lone_warp_share = 0.5,
                    .step_latency_clocks = 100,
                    .barrier_clocks = 50,
                    .younger_share = 1.0,
                    .tile_clocks = 1000,
                    .tile_clocks_per_128_bytes = 5,
                    .launch_us = 3};
  return profile;
}

constexpr AttentionProblem kProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

/// Beside 64 accumulators and 16 registers of Q.
constexpr KernelResources kAmple{.registers_per_thread = 255};

Prediction predict(const AttentionProblem& problem, const AttentionVariant& variant,
                   int ctas_per_sm, const GpuProfile& profile) {
  const ScheduleShape shape =
      make_schedule_shape(problem, variant, profile.device.sm_count, ctas_per_sm);
  const L2Traffic traffic = simulate_l2(shape, profile.l2_policy());
  return predict_time(problem, variant, kAmple, shape, traffic, profile);
}

constexpr AttentionVariant kOneStage{.stages = 1};

/// Of a 64x64 tile at head_dim 64: products, 1.25 times as long as at the rate, and a quarter of
/// the shared-memory time (four warps read 16 KiB of K and V, which cp.async wrote once: 80 KiB at
/// 128 bytes a clock).
constexpr double kProducts = 1.25 * 4 * 64 * 64 * 64 / 1024;
constexpr double kSmem = 0.25 * 640;
/// Six instructions per score on 128 lanes (four, and eight for each of the 1024 pieces of 16 bytes
/// of K and V, a quarter of the scores) beside exp2 at 16 a clock: the 4-norm of 192 and
/// 256.
const double kSoftmax = std::pow(std::pow(192.0, 4) + std::pow(256.0, 4), 0.25);
const double kCompute = kProducts + kSmem + kSoftmax;

TEST(TimeModel, AFactorOfTheCodeLengthensItsStepsAndLeavesTheWalkAlone) {
  const GpuProfile plain = round_profile();
  GpuProfile slow = plain;
  slow.code_factors[kernel_code(kProblem.head_dim, kOneStage)] = 2.0;
  EXPECT_DOUBLE_EQ(step_cost(kProblem, kOneStage, kAmple, 1, slow).compute_clocks, 2 * kCompute);
  EXPECT_DOUBLE_EQ(step_cost(kProblem, AttentionVariant{}, kAmple, 1, slow).compute_clocks,
                   step_cost(kProblem, AttentionVariant{}, kAmple, 1, plain).compute_clocks);
  const AttentionVariant other_copies{.stages = 1, .kv_copy = KvCopy::tma};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, other_copies, kAmple, 1, slow).compute_clocks, kCompute);
  EXPECT_GT(predict(kProblem, kOneStage, 1, slow).time_us,
            1.5 * predict(kProblem, kOneStage, 1, plain).time_us);
  EXPECT_EQ(schedule_on_gpu(kProblem, kOneStage, 1, slow),
            schedule_on_gpu(kProblem, kOneStage, 1, plain));
}

TEST(TimeModel, AStepOfAHandComputedTile) {
  const StepCost cost = step_cost(kProblem, kOneStage, kAmple, 1, round_profile());
  EXPECT_DOUBLE_EQ(cost.matrix_clocks, kProducts);
  EXPECT_DOUBLE_EQ(cost.product_clocks, kProducts + kSmem);
  EXPECT_DOUBLE_EQ(cost.softmax_clocks, kSoftmax);
  EXPECT_DOUBLE_EQ(cost.compute_clocks, kCompute);
}

TEST(TimeModel, TwoCtasTakeTurnsAtTheUnits) {
  const StepCost cost = step_cost(kProblem, kOneStage, kAmple, 2, round_profile());
  // Two customers of a closed network of three queues, of which half is what they hide: beside the
  // one the other is at each unit in proportion to its clocks.
  const double alike = kProducts * kProducts + kSmem * kSmem + kSoftmax * kSoftmax;
  const double in_turn = (kCompute + alike / kCompute) / 2;
  EXPECT_NEAR(cost.compute_clocks, (kCompute + in_turn) / 2, 1e-9);
}

TEST(TimeModel, ManyWorksTakeAsLongAsTheLongestUnit) {
  KernelCosts kernel{.overlap_share = 1.0, .works_per_cta = 1.0};
  EXPECT_DOUBLE_EQ(clocks_in_turn({5, 3, 2}, 1, kernel), 10);
  EXPECT_NEAR(clocks_in_turn({5, 3, 2}, 1000, kernel), 5, 1e-9);
  // Of equal units works keep all three busy as far as they do not queue.
  EXPECT_NEAR(clocks_in_turn({2, 2, 2}, 4, kernel), 2 * (4 + 2) / 4.0, 1e-9);
  // Between whole counts in proportion.
  kernel.works_per_cta = 2.5;
  const double between = clocks_in_turn({5, 3, 2}, 1, kernel);
  kernel.works_per_cta = 1.0;
  EXPECT_NEAR(between,
              (clocks_in_turn({5, 3, 2}, 2, kernel) + clocks_in_turn({5, 3, 2}, 3, kernel)) / 2,
              1e-9);
}

TEST(TimeModel, WarpsOfOneCtaHideLessThanThoseOfTwo) {
  const AttentionVariant eight{.tile_m = 128, .warps = 8, .stages = 1};
  EXPECT_GT(step_cost(kProblem, eight, kAmple, 1, round_profile()).compute_clocks,
            2 * step_cost(kProblem, kOneStage, kAmple, 2, round_profile()).compute_clocks);
}

TEST(TimeModel, QThatDoesNotStayInRegistersIsReadAgainEveryStep) {
  const AttentionProblem problem{.seq_q = 256, .seq_kv = 256, .head_dim = 256};
  ASSERT_FALSE(make_attention_config(problem, kOneStage).q_in_registers());
  // Four warps read 64 KiB of K and V, which cp.async wrote once, and together 32 KiB of Q.
  const StepCost cost = step_cost(problem, kOneStage, kAmple, 1, round_profile());
  const double others = 4 * kProducts + cost.softmax_clocks;
  EXPECT_NEAR(cost.compute_clocks - others, (0.25 + 0.01 * 30) * 4 * 640 + 256, 1e-6);
}

TEST(TimeModel, OperandsLoadedJustInTimeExposeSharedMemory) {
  // 64 accumulators and 16 of Q leave 105 of 185 registers: 20 less than is ample.
  const KernelResources scarce{.registers_per_thread = 64 + 16 + kAmpleRegisters - 20};
  const StepCost cost = step_cost(kProblem, kOneStage, scarce, 1, round_profile());
  EXPECT_DOUBLE_EQ(cost.compute_clocks, kCompute + 20 * 0.01 * 640);
}

TEST(TimeModel, FewerWarpsThanSchedulersLeaveUnitsIdle) {
  const AttentionVariant two_warps{.warps = 2, .stages = 1};
  EXPECT_NEAR(step_cost(kProblem, two_warps, kAmple, 1, round_profile()).softmax_clocks,
              2 * kSoftmax, 1e-9);
}

TEST(TimeModel, FifthWarpsMeetOnOneScheduler) {
  const AttentionVariant five{.tile_m = 80, .tile_n = 80, .warps = 5, .stages = 1};
  GpuProfile profile = round_profile();
  profile.kernel.softmax_instructions = 1e-6;
  profile.kernel.copy_instructions = 1e-6;
  EXPECT_NEAR(step_cost(kProblem, five, kAmple, 1, profile).softmax_clocks, 1.6 * 80 * 80 / 16,
              1e-6);
  // Ten warps: three on two of the schedulers.
  EXPECT_NEAR(step_cost(kProblem, five, kAmple, 2, profile).softmax_clocks, 1.2 * 80 * 80 / 16,
              1e-6);
}

TEST(TimeModel, WithoutTheSwizzleReadsConflict) {
  // Rows of 128 bytes conflict eight ways; what cp.async writes does not.
  const AttentionVariant plain{.stages = 1, .smem_swizzle = false};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, plain, kAmple, 1, round_profile()).compute_clocks,
                   kCompute + 0.25 * 7 * 512);
}

TEST(TimeModel, TermsOfAHandComputedLaunch) {
  // Four Q tiles on two SMs: two each of four steps.
  const Prediction prediction = predict(kProblem, kOneStage, 1, round_profile());
  EXPECT_DOUBLE_EQ(prediction.matrix_us, 8 * kProducts / 1000);
  EXPECT_DOUBLE_EQ(prediction.softmax_us, 8 * (kCompute - kProducts) / 1000);
  // Q and O 1024 sectors each, K and V 2048 per Q tile.
  EXPECT_EQ(prediction.read_sectors, 1024 + 4 * 2048);
  EXPECT_EQ(prediction.write_sectors, 1024);
  EXPECT_DOUBLE_EQ(prediction.l2_us, (2048 + 8192) * 32 / 1000e3);
  EXPECT_DOUBLE_EQ(prediction.dram_us, 4096 * 32 / 100e3);
  // A lone warp per scheduler: half of its step, its latencies and two barriers are not filled, and
  // half of the latter come on top. V is asked for a third of a step ahead, which hides its 400
  // clocks.
  const double step = std::hypot(kCompute, 0.5 * kCompute + 200) + 100;
  // Each Q tile of 8 KiB comes after 1000 + 5 * 64 clocks.
  const double clocks = 2 * (1320 + 4 * step);
  EXPECT_NEAR(prediction.time_us,
              3 + std::pow(std::pow(clocks / 1000, 4) + std::pow(prediction.l2_us, 4) +
                               std::pow(prediction.dram_us, 4),
                           0.25),
              1e-9);
}

TEST(TimeModel, AnotherCtaComputesWhileOneWaits) {
  // K and V come later than they are asked for, but by less than the other CTA computes.
  GpuProfile late = round_profile();
  late.l2_latency_clocks = late.dram_latency_clocks = 1500;
  GpuProfile early = late;
  early.l2_latency_clocks = early.dram_latency_clocks = 1;
  const auto slowdown = [&](int ctas_per_sm) {
    return predict(kProblem, kOneStage, ctas_per_sm, late).time_us /
           predict(kProblem, kOneStage, ctas_per_sm, early).time_us;
  };
  EXPECT_GT(slowdown(1), 1.05);
  EXPECT_DOUBLE_EQ(slowdown(2), 1.0);
}

TEST(TimeModel, OneStageExposesALongLatencyThatTwoHide) {
  GpuProfile profile = round_profile();
  profile.l2_latency_clocks = 1500;
  profile.dram_latency_clocks = 1600;
  EXPECT_GT(predict(kProblem, kOneStage, 1, profile).latency_us,
            predict(kProblem, AttentionVariant{}, 1, profile).latency_us);
}

TEST(TimeModel, MaskedTilesCostMore) {
  AttentionProblem causal = kProblem;
  causal.causal = true;
  GpuProfile free_mask = round_profile();
  free_mask.kernel.mask_instructions = 1e-9;
  EXPECT_GT(predict(causal, AttentionVariant{}, 1, round_profile()).time_us,
            predict(causal, AttentionVariant{}, 1, free_mask).time_us);
}

TEST(TimeModel, ARaggedTileCostsAsMuchAsAFullOne) {
  AttentionProblem ragged = kProblem;
  ragged.seq_kv = 193;
  EXPECT_DOUBLE_EQ(predict(ragged, AttentionVariant{}, 1, round_profile()).matrix_us,
                   predict(kProblem, AttentionVariant{}, 1, round_profile()).matrix_us);
}

TEST(TimeModel, ATailWaveCostsAsMuchAsAFullWave) {
  AttentionProblem five_tiles = kProblem;
  five_tiles.seq_q = 5 * 64;
  AttentionProblem six_tiles = kProblem;
  six_tiles.seq_q = 6 * 64;
  EXPECT_DOUBLE_EQ(predict(five_tiles, AttentionVariant{}, 1, round_profile()).matrix_us,
                   predict(six_tiles, AttentionVariant{}, 1, round_profile()).matrix_us);
}

TEST(TimeModel, SlowMemoryBoundsTheTime) {
  GpuProfile profile = round_profile();
  profile.device.dram_gb_per_s = 2;
  const Prediction prediction = predict(kProblem, AttentionVariant{}, 1, profile);
  EXPECT_GT(prediction.dram_us, prediction.matrix_us);
  EXPECT_GE(prediction.time_us, prediction.dram_us);
}

TEST(TimeModel, TheScheduleKnowsWhatMemoryDoesToIt) {
  GpuProfile profile = round_profile();
  profile.device.l2_bytes = 2 << 20;
  profile.dram_latency_clocks = 1600;
  const ScheduleShape shape = schedule_on_gpu(kProblem, kOneStage, 1, profile);
  const double step = std::hypot(kCompute, 0.5 * kCompute + 200) + 100;
  // 100 bytes a clock, to the nearest power of the square root of 2.
  EXPECT_NEAR(std::log2(shape.dram_sectors_per_step), std::log2(step * 100 / 32), 0.251);
  // A tile takes 8192 of 500 bytes a clock beyond the latency. V is asked for a first product
  // ahead, K the rest of the step; that latencies scatter adds a little.
  const double late = 2 * (1600 + 8192 / 500.0) - step + 8;
  EXPECT_NEAR(shape.miss_ticks, kTicksPerStep * late / step, 20);
  EXPECT_EQ(shape.l2_partitions, 2);
  EXPECT_EQ(shape.pace_spread_ppm, 0);
  // A miss that two stages hide costs 8 clocks. Their step has one barrier.
  const double shorter = std::hypot(kCompute, 0.5 * kCompute + 150) + 75;
  EXPECT_NEAR(schedule_on_gpu(kProblem, AttentionVariant{}, 1, profile).miss_ticks,
              kTicksPerStep * 8 / shorter, 1);
}

TEST(TimeModel, CtasTakeShorterStepsWhenOthersOfTheirSmHaveEnded) {
  const AttentionProblem problem{.seq_q = 512, .seq_kv = 512};
  const AttentionVariant variant{.tile_m = 64, .tile_n = 64, .warps = 4};
  const auto ticks = [&](const AttentionProblem& of, int ctas_per_sm) {
    return schedule_on_gpu(of, variant, ctas_per_sm, round_profile()).step_ticks;
  };
  EXPECT_TRUE(ticks(problem, 1).empty());
  const std::vector<int> two = ticks(problem, 2);
  ASSERT_EQ(two.size(), 3U);
  EXPECT_LT(two[0], kTicksPerStep);
  EXPECT_THAT(std::vector(two.begin() + 1, two.end()), Each(kTicksPerStep));
  const std::vector<int> three = ticks(problem, 3);
  ASSERT_EQ(three.size(), 6U);
  EXPECT_LT(three[0], three[1]);
  EXPECT_EQ(three[1], three[2]);
  EXPECT_NEAR(static_cast<double>(three[3]) / three[5], 0.85, 0.001);
  EXPECT_NEAR(three[3] * 3 / (1 + 0.97 + 0.85), kTicksPerStep, 2);
  AttentionProblem causal = problem;
  causal.causal = true;
  EXPECT_EQ(ticks(causal, 3)[3], ticks(causal, 3)[5]);
}

TEST(TimeModel, UnderTheMaskSmsDifferInPace) {
  AttentionProblem causal = kProblem;
  causal.causal = true;
  GpuProfile profile = round_profile();
  profile.l2_partition_runs = {profile.device.sm_count};
  const ScheduleShape shape = schedule_on_gpu(causal, AttentionVariant{}, 1, profile);
  EXPECT_GT(shape.pace_spread_ppm, 0);
  EXPECT_EQ(shape.partition_runs, profile.l2_partition_runs);
}

}  // namespace
}  // namespace swr
