// SPDX-License-Identifier: MIT
#include "operations/attention/model/time.h"

#include "operations/attention/config.h"
#include "operations/attention/model/explanation.h"
#include "operations/attention/model/hopper_time.h"
#include "operations/attention/model/sm_timeline.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

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
  profile.kernel = {.product_gap_clocks = 2,
                    .smem_share = 0.25,
                    .step_latency_clocks = 100,
                    .barrier_clocks = 50,
                    .younger_share = 1.0,
                    .tile_clocks = 1000,
                    .launch_us = 3};
  return profile;
}

constexpr AttentionProblem kProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

Prediction predict(const AttentionProblem& problem, const AttentionVariant& variant,
                   int ctas_per_sm, const GpuProfile& profile,
                   const KernelResources& resources = {}) {
  const ScheduleShape shape =
      make_schedule_shape(problem, variant, profile.device.sm_count, ctas_per_sm);
  const L2Traffic traffic = simulate_l2(shape, profile.l2_policy());
  return predict_time(problem, variant, resources, shape, traffic, profile);
}

constexpr AttentionVariant kOneStage{.stages = 1};

/// Of a 64x64 tile at head_dim 64: products, 16 clocks at the rate and 2 between them, and a
/// quarter of the shared-memory time (four warps read 16 KiB of K and V, which cp.async wrote once:
/// 80 KiB at 128 bytes a clock).
constexpr double kProducts = 18.0 / 16 * 4 * 64 * 64 * 64 / 1024;
constexpr double kSmem = 0.25 * 640;
/// 128 lanes issue 4.5 instructions a score, 1024 copies of 16 bytes of K and V and 100 more for
/// each of four warps, beside exp2 at 16 a clock: the 4-norm of 252 and 256.
const double kSoftmax = std::pow(std::pow(252.0, 4) + std::pow(256.0, 4), 0.25);
const double kCompute = kProducts + kSmem + kSoftmax;

TEST(TimeModel, AFactorOfTheCodeLengthensItsStepsAndLeavesTheWalkAlone) {
  const GpuProfile plain = round_profile();
  GpuProfile slow = plain;
  slow.code_factors[kernel_code(kProblem.head_dim, kOneStage)] = 2.0;
  EXPECT_DOUBLE_EQ(step_cost(kProblem, kOneStage, 1, slow).compute_clocks, 2 * kCompute);
  EXPECT_DOUBLE_EQ(step_cost(kProblem, AttentionVariant{}, 1, slow).compute_clocks,
                   step_cost(kProblem, AttentionVariant{}, 1, plain).compute_clocks);
  const AttentionVariant other_copies{.stages = 1, .kv_copy = KvCopy::tma};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, other_copies, 1, slow).compute_clocks, kCompute);
  EXPECT_GT(predict(kProblem, kOneStage, 1, slow).time_us,
            1.5 * predict(kProblem, kOneStage, 1, plain).time_us);
  EXPECT_EQ(schedule_on_gpu(kProblem, kOneStage, 1, slow),
            schedule_on_gpu(kProblem, kOneStage, 1, plain));
}

TEST(TimeModel, AStepOfAHandComputedTile) {
  const StepCost cost = step_cost(kProblem, kOneStage, 1, round_profile());
  EXPECT_DOUBLE_EQ(cost.matrix_clocks, kProducts);
  EXPECT_DOUBLE_EQ(cost.product_clocks, kProducts + kSmem);
  EXPECT_DOUBLE_EQ(cost.softmax_clocks, kSoftmax);
  EXPECT_DOUBLE_EQ(cost.compute_clocks, kCompute);
}

TEST(TimeModel, SpillsMoveThroughL1OnceAStepAndStoresReachL2) {
  // 128 threads store 32 and load 96 bytes: 128 clocks at 128 bytes a clock. Four Q tiles take four
  // steps each, and 128 threads store a sector in each.
  const KernelResources spilled{.spill_store_bytes = 32, .spill_load_bytes = 96};
  EXPECT_DOUBLE_EQ(spill_clocks(kProblem, kOneStage, spilled), 128);
  EXPECT_EQ(spilled_sectors(kProblem, kOneStage, spilled, 16), 16 * 128);
  const GpuProfile profile = round_profile();
  const Prediction kept = predict(kProblem, kOneStage, 1, profile);
  const Prediction moved = predict(kProblem, kOneStage, 1, profile, spilled);
  EXPECT_EQ(moved.write_sectors, kept.write_sectors + 16 * 128);
  EXPECT_EQ(moved.read_sectors, kept.read_sectors);
  EXPECT_EQ(moved.compulsory_misses, kept.compulsory_misses);
  // Each of two SMs has two of the Q tiles; L2 and memory hide a part of it.
  const double eight_steps_us = 8 * 128 / profile.clock_mhz;
  EXPECT_GT(moved.time_us - kept.time_us, 0.5 * eight_steps_us);
  EXPECT_LT(moved.time_us - kept.time_us, 1.1 * eight_steps_us);
}

TEST(TimeModel, TwoCtasTakeTurnsAtTheUnits) {
  const StepCost cost = step_cost(kProblem, kOneStage, 2, round_profile());
  // Two customers of a closed network of three queues: beside the one the other is at each unit in
  // proportion to its clocks.
  const double alike = kProducts * kProducts + kSmem * kSmem + kSoftmax * kSoftmax;
  EXPECT_NEAR(cost.compute_clocks, (kCompute + alike / kCompute) / 2, 1e-9);
}

TEST(TimeModel, ManyWorksTakeAsLongAsTheLongestUnit) {
  EXPECT_DOUBLE_EQ(clocks_in_turn({5, 3, 2}, 1), 10);
  EXPECT_NEAR(clocks_in_turn({5, 3, 2}, 1000), 5, 1e-9);
  // Of equal units works keep all three busy as far as they do not queue.
  EXPECT_NEAR(clocks_in_turn({2, 2, 2}, 4), 2 * (4 + 2) / 4.0, 1e-9);
}

TEST(TimeModel, BlocksOfRowsOfASchedulerHideAPartOfOneAnother) {
  // Two to each scheduler count as the square root of two works: between one, which takes the sum,
  // and two, in proportion.
  const AttentionVariant two_blocks{.tile_m = 128, .stages = 1};
  const StepCost cost = step_cost(kProblem, two_blocks, 1, round_profile());
  const double sum = cost.product_clocks + cost.softmax_clocks;
  const double works = std::sqrt(2.0);
  const std::array units{2 * kProducts, kSmem, cost.softmax_clocks};
  double two = 0.0;
  for (const double unit : units) {
    two += unit / works * (1 + unit / sum);
  }
  EXPECT_NEAR(cost.compute_clocks, two - (2 - works) * (two - sum / works), 1e-9);
  EXPECT_LT(cost.compute_clocks, sum);
}

TEST(TimeModel, HopperTakesEightClocksAProductThoughOperandsThatStayTakeFewer) {
  GpuProfile profile = round_profile();
  profile.matrix_flop_per_clock_per_sm = 2730;
  EXPECT_DOUBLE_EQ(main_loop_flop_per_clock(profile), 4 * 4096.0 / (8 + 2));
  profile.matrix_flop_per_clock_per_sm = 512;
  EXPECT_DOUBLE_EQ(main_loop_flop_per_clock(profile), 4 * 4096.0 / (32 + 2));
}

TEST(TimeModel, WarpsOfOneCtaHideLessThanThoseOfTwo) {
  const AttentionVariant eight{.tile_m = 128, .warps = 8, .stages = 1};
  EXPECT_GT(step_cost(kProblem, eight, 1, round_profile()).compute_clocks,
            2 * step_cost(kProblem, kOneStage, 2, round_profile()).compute_clocks);
}

TEST(TimeModel, QThatDoesNotStayInRegistersIsReadAgainEveryStep) {
  const AttentionProblem problem{.seq_q = 256, .seq_kv = 256, .head_dim = 256};
  ASSERT_FALSE(make_attention_config(problem, kOneStage).q_in_registers());
  // Four warps read 64 KiB of K and V, which cp.async wrote once, and together 32 KiB of Q.
  const StepCost cost = step_cost(problem, kOneStage, 1, round_profile());
  const double others = 4 * kProducts + cost.softmax_clocks;
  EXPECT_NEAR(cost.compute_clocks - others, 0.25 * 4 * 640 + 256, 1e-6);
}

TEST(TimeModel, FewerWarpsThanSchedulersLeaveUnitsIdle) {
  const AttentionVariant two_warps{.warps = 2, .stages = 1};
  // Two warps less issue 100 instructions each.
  const double busy = std::pow(std::pow(202.0, 4) + std::pow(256.0, 4), 0.25);
  EXPECT_NEAR(step_cost(kProblem, two_warps, 1, round_profile()).softmax_clocks, 2 * busy, 1e-9);
}

TEST(TimeModel, FifthWarpsMeetOnOneScheduler) {
  const AttentionVariant five{.tile_m = 80, .tile_n = 80, .warps = 5, .stages = 1};
  // 6400 scores, 1280 copies and 500 instructions of warps; 6400 exponentials.
  const double even =
      std::pow(std::pow((4.5 * 6400 + 1280 + 16000) / 128, 4) + std::pow(400.0, 4), 0.25);
  EXPECT_NEAR(step_cost(kProblem, five, 1, round_profile()).softmax_clocks, 1.6 * even, 1e-6);
  // Ten warps: three on two of the schedulers.
  EXPECT_NEAR(step_cost(kProblem, five, 2, round_profile()).softmax_clocks, 1.2 * even, 1e-6);
}

TEST(TimeModel, WithoutTheSwizzleReadsConflict) {
  // Rows of 128 bytes conflict eight ways; what cp.async writes does not.
  const AttentionVariant plain{.stages = 1, .smem_swizzle = false};
  EXPECT_DOUBLE_EQ(step_cost(kProblem, plain, 1, round_profile()).compute_clocks,
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
  // One work: the sum of its units, its latencies and two barriers. V is asked for a third of a
  // step ahead, which hides its 600 clocks.
  const double step = kCompute + 200;
  const double clocks = 2 * (1000 + 4 * step);
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
  // One step either way.
  AttentionProblem causal{.seq_q = 64, .seq_kv = 64, .head_dim = 64};
  const double unmasked_us = predict(causal, AttentionVariant{}, 1, round_profile()).time_us;
  causal.causal = true;
  EXPECT_GT(predict(causal, AttentionVariant{}, 1, round_profile()).time_us, unmasked_us + 0.01);
}

TEST(TimeModel, EveryPredictionCarriesTheErrorOfItsRegime) {
  GpuProfile profile = round_profile();
  EXPECT_EQ(predict(kProblem, kOneStage, 1, profile).relative_error, 0.0);
  profile.prediction_errors = {.regimes = {{false, 64, 0.1}, {true, 64, 0.2}}, .brief = 0.3};
  EXPECT_EQ(predict(kProblem, kOneStage, 1, profile).relative_error, 0.3);
  AttentionProblem longer{
      .heads_q = 16, .heads_kv = 16, .seq_q = 2048, .seq_kv = 2048, .head_dim = 64};
  EXPECT_EQ(predict(longer, kOneStage, 1, profile).relative_error, 0.1);
  longer.causal = true;
  EXPECT_EQ(predict(longer, kOneStage, 1, profile).relative_error, 0.2);
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
  const double step = kCompute + 200;
  // 100 bytes a clock, to the nearest power of the square root of 2.
  EXPECT_NEAR(std::log2(shape.dram_sectors_per_step), std::log2(step * 100 / 32), 0.251);
  // A tile takes 8192 of 500 bytes a clock beyond the latency. V is asked for a first product
  // ahead, K the rest of the step; that latencies scatter adds a little.
  const double late = 2 * (1600 + 8192 / 500.0) - step + 8;
  EXPECT_NEAR(shape.miss_ticks, kTicksPerStep * late / step, 20);
  EXPECT_EQ(shape.l2_partitions, 2);
  EXPECT_EQ(shape.pace_spread_ppm, 0);
  // A miss that two stages hide costs 8 clocks. Their step has one barrier.
  profile.dram_latency_clocks = 1000;
  const double shorter = kCompute + 150;
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

// The Hopper family's time: terms by hand, and against the tuner's own choices as they were
// measured on an H200 (experiments/hopper_attention/attention_peers.csv).

GpuProfile hopper_profile() {
  return GpuProfile{
      .exp2_per_clock_per_sm = 16, .fma_per_clock_per_sm = 128, .l2_latency_clocks = 300};
}

HopperAttentionConfig config(int head_dim, const AttentionVariant& variant) {
  const AttentionProblem problem{.seq_q = 4096, .seq_kv = 4096, .head_dim = head_dim};
  return make_hopper_config(problem, variant);
}

constexpr AttentionVariant kVariant{.family = Family::hopper,
                                    .tile_m = 128,
                                    .tile_n = 128,
                                    .warps = 8,
                                    .persistence = Persistence::persistent,
                                    .mainloop = Mainloop::overlap_ordered};

/// exp2 at 16 a clock and 4.5 instructions on 128 lanes.
constexpr double kHopperSoftmax = 128 * 128 * (1 / 16.0 + 4.5 / 128);

TEST(HopperTime, AStepOfAHandComputedTile) {
  const HopperStep step = hopper_step(config(128, kVariant), hopper_profile());
  EXPECT_DOUBLE_EQ(step.matrix_clocks, 4.0 * 128 * 128 * 128 / 4096);
  EXPECT_DOUBLE_EQ(step.softmax_clocks, kHopperSoftmax);
  EXPECT_DOUBLE_EQ(step.step_clocks, std::cbrt(std::pow(2048, 3) + std::pow(kHopperSoftmax, 3)));
}

TEST(HopperTime, HeadDimensionsArePaddedToPanels) {
  EXPECT_DOUBLE_EQ(hopper_step(config(80, kVariant), hopper_profile()).matrix_clocks,
                   hopper_step(config(96, kVariant), hopper_profile()).matrix_clocks);
}

TEST(HopperTime, NarrowTilesWaitForSharedMemory) {
  // Q K^T of 32 keys takes 16 clocks of the tensor cores per 16 columns, and reads 2 KiB of Q and
  // 1 KiB of K in 24. P V, with P in registers, reads 4 KiB of V in 32 of its 64.
  AttentionVariant narrow = kVariant;
  narrow.tile_n = 32;
  EXPECT_DOUBLE_EQ(hopper_step(config(128, narrow), hopper_profile()).matrix_clocks,
                   2 * (8 * 24 + 2 * 64));
}

TEST(HopperTime, PInSharedMemoryCostsWhereVIsNarrow) {
  AttentionVariant shared = kVariant;
  shared.p_operand = POperand::shared;
  // 2 KiB of P and 1 KiB of V per 16 keys: 24 clocks in place of 16.
  EXPECT_DOUBLE_EQ(hopper_step(config(32, shared), hopper_profile()).matrix_clocks -
                       hopper_step(config(32, kVariant), hopper_profile()).matrix_clocks,
                   2 * 8 * (24 - 16));
  EXPECT_DOUBLE_EQ(hopper_step(config(128, shared), hopper_profile()).matrix_clocks,
                   hopper_step(config(128, kVariant), hopper_profile()).matrix_clocks);
}

TEST(HopperTime, ExponentialsOnTheFmaPipeCostMoreThanTheySave) {
  AttentionVariant polynomial = kVariant;
  polynomial.exp2_fma_eighths = 2;
  EXPECT_DOUBLE_EQ(hopper_step(config(64, polynomial), hopper_profile()).softmax_clocks,
                   128 * 128 * (0.75 / 16 + (4.5 + 0.25 * 9) / 128));
  EXPECT_GT(hopper_step(config(64, polynomial), hopper_profile()).step_clocks,
            hopper_step(config(64, kVariant), hopper_profile()).step_clocks);
}

TEST(HopperTime, MainLoopsThatOverlapAreFaster) {
  AttentionVariant plain = kVariant;
  plain.mainloop = Mainloop::plain;
  const double overlapped = hopper_step(config(128, kVariant), hopper_profile()).step_clocks;
  const double in_turn = hopper_step(config(128, plain), hopper_profile()).step_clocks;
  EXPECT_GT(in_turn, 1.1 * overlapped);
  EXPECT_LT(in_turn, 2048 + kHopperSoftmax);
  // A lone warpgroup has nobody to fill its gaps.
  plain.tile_m = 64;
  plain.warps = 4;
  const HopperStep alone = hopper_step(config(128, plain), hopper_profile());
  EXPECT_DOUBLE_EQ(alone.step_clocks, alone.matrix_clocks + alone.softmax_clocks);
}

TEST(HopperTime, AQTileThatIsNotChainedShowsItsFirstSoftmax) {
  AttentionVariant grid = kVariant;
  grid.persistence = Persistence::grid;
  EXPECT_DOUBLE_EQ(hopper_tile_clocks(config(128, grid), hopper_profile()) -
                       hopper_tile_clocks(config(128, kVariant), hopper_profile()),
                   300 + kHopperSoftmax / 2);
}

/// A choice of the tuner with its measured time.
struct Choice {
  AttentionProblem problem;
  AttentionVariant variant;
  double measured_us = 0.0;
  double predicted_us = 0.0;

  double flop() const {
    return 4.0 * problem.batch * problem.heads_q * problem.seq_q * problem.seq_kv *
           problem.head_dim * (problem.causal ? 0.5 : 1.0);
  }
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

/// A row of swr: shape, "variant (exact)" in quotation marks, figures.
Choice parse_choice(const std::string& line, const GpuProfile& profile) {
  const std::vector<std::string> quoted = split(line, '"');
  const std::vector<std::string> shape = split(quoted.at(0), ',');
  Choice choice;
  choice.problem = {.batch = std::stoi(shape.at(0)),
                    .heads_q = std::stoi(shape.at(1)),
                    .heads_kv = std::stoi(shape.at(2)),
                    .seq_q = std::stoi(shape.at(3)),
                    .seq_kv = std::stoi(shape.at(3)),
                    .head_dim = std::stoi(shape.at(4)),
                    .dtype = parse_dtype(shape.at(5)),
                    .causal = shape.at(6) == "True"};
  choice.variant =
      parse_variant(attention_operation(), split(quoted.at(1), ' ').front()).as<AttentionVariant>();
  choice.measured_us = std::stod(split(quoted.at(2), ',').at(2));
  const ScheduleShape walked = schedule_on_gpu(choice.problem, choice.variant, 1, profile);
  choice.predicted_us = predict_time(choice.problem, choice.variant, {}, walked,
                                     simulate_l2(walked, profile.l2_policy()), profile)
                            .time_us;
  return choice;
}

std::vector<Choice> choices() {
  const GpuProfile h200 = load_profile("h200");
  std::ifstream file(SWR_ATTENTION_PEERS);
  std::vector<Choice> all;
  for (std::string line; std::getline(file, line);) {
    if (line.find(",swr,") != std::string::npos) {
      all.push_back(parse_choice(line, h200));
    }
  }
  return all;
}

/// Spearman's rank correlation; no two values are equal.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto rank = [](const std::vector<double>& values, double value) {
    return static_cast<double>(std::count_if(values.begin(), values.end(),
                                             [value](double other) { return other < value; }));
  };
  const auto n = static_cast<double>(a.size());
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += std::pow(rank(a, a[i]) - rank(b, b[i]), 2);
  }
  return 1 - 6 * squares / (n * (n * n - 1));
}

TEST(HopperTime, ErrorsOnTheTunersChoicesArePublishedAsComputed) {
  const std::vector<Choice> all = choices();
  ASSERT_EQ(all.size(), 112U);
  double sum = 0.0;
  double squares = 0.0;
  double worst = 0.0;
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const Choice& choice : all) {
    const double error = std::abs(choice.predicted_us / choice.measured_us - 1);
    sum += error;
    squares += std::pow(std::log(choice.predicted_us / choice.measured_us), 2);
    worst = std::max(worst, error);
    predicted.push_back(choice.flop() / choice.predicted_us);
    measured.push_back(choice.flop() / choice.measured_us);
  }
  const double mean = sum / static_cast<double>(all.size());
  const double correlation = rank_correlation(predicted, measured);
  char text[200];
  std::snprintf(text, sizeof text,
                "mean error %.1f %%, worst %.1f %%, rank correlation of the TFLOP/s %.2f",
                100 * mean, 100 * worst, correlation);
  const std::string published = bytes_of(SWR_HOPPER_ATTENTION_DOC);
  EXPECT_THAT(published, HasSubstr(text));
  EXPECT_NEAR(load_profile("h200").prediction_error("hopper"),
              std::sqrt(squares / static_cast<double>(all.size())), 0.005);
  EXPECT_LT(mean, 0.05);
  EXPECT_LT(worst, 0.15);
  EXPECT_GT(correlation, 0.95);
}

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
  KernelResources huge{.registers_per_thread = 255};
  const AttentionVariant variant{.tile_m = 256, .tile_n = 16, .warps = 16};
  EXPECT_THROW(explain(problem(1024), variant, huge, load_profile("gb10")), Error);
}

}  // namespace
}  // namespace swr
