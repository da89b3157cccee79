// SPDX-License-Identifier: MIT
// The Hopper family's time: terms by hand, and against the tuner's own choices as they were
// measured on an H200 (experiments/hopper_attention/attention_peers.csv).
#include "operations/attention/model/hopper_time.h"

#include "operations/attention/model/time.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

GpuProfile round_profile() {
  GpuProfile profile;
  profile.exp2_per_clock_per_sm = 16;
  profile.fma_per_clock_per_sm = 128;
  profile.l2_latency_clocks = 300;
  return profile;
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
constexpr double kSoftmax = 128 * 128 * (1 / 16.0 + 4.5 / 128);

TEST(HopperTime, AStepOfAHandComputedTile) {
  const HopperStep step = hopper_step(config(128, kVariant), round_profile());
  EXPECT_DOUBLE_EQ(step.matrix_clocks, 4.0 * 128 * 128 * 128 / 4096);
  EXPECT_DOUBLE_EQ(step.softmax_clocks, kSoftmax);
  EXPECT_DOUBLE_EQ(step.step_clocks, std::cbrt(std::pow(2048, 3) + std::pow(kSoftmax, 3)));
}

TEST(HopperTime, HeadDimensionsArePaddedToPanels) {
  EXPECT_DOUBLE_EQ(hopper_step(config(80, kVariant), round_profile()).matrix_clocks,
                   hopper_step(config(96, kVariant), round_profile()).matrix_clocks);
}

TEST(HopperTime, NarrowTilesWaitForSharedMemory) {
  // Q K^T of 32 keys takes 16 clocks of the tensor cores per 16 columns, and reads 2 KiB of Q and
  // 1 KiB of K in 24. P V, with P in registers, reads 4 KiB of V in 32 of its 64.
  AttentionVariant narrow = kVariant;
  narrow.tile_n = 32;
  EXPECT_DOUBLE_EQ(hopper_step(config(128, narrow), round_profile()).matrix_clocks,
                   2 * (8 * 24 + 2 * 64));
}

TEST(HopperTime, PInSharedMemoryCostsWhereVIsNarrow) {
  AttentionVariant shared = kVariant;
  shared.p_operand = POperand::shared;
  // 2 KiB of P and 1 KiB of V per 16 keys: 24 clocks in place of 16.
  EXPECT_DOUBLE_EQ(hopper_step(config(32, shared), round_profile()).matrix_clocks -
                       hopper_step(config(32, kVariant), round_profile()).matrix_clocks,
                   2 * 8 * (24 - 16));
  EXPECT_DOUBLE_EQ(hopper_step(config(128, shared), round_profile()).matrix_clocks,
                   hopper_step(config(128, kVariant), round_profile()).matrix_clocks);
}

TEST(HopperTime, ExponentialsOnTheFmaPipeCostMoreThanTheySave) {
  AttentionVariant polynomial = kVariant;
  polynomial.exp2_fma_eighths = 2;
  EXPECT_DOUBLE_EQ(hopper_step(config(64, polynomial), round_profile()).softmax_clocks,
                   128 * 128 * (0.75 / 16 + (4.5 + 0.25 * 9) / 128));
  EXPECT_GT(hopper_step(config(64, polynomial), round_profile()).step_clocks,
            hopper_step(config(64, kVariant), round_profile()).step_clocks);
}

TEST(HopperTime, MainLoopsThatOverlapAreFaster) {
  AttentionVariant plain = kVariant;
  plain.mainloop = Mainloop::plain;
  const double overlapped = hopper_step(config(128, kVariant), round_profile()).step_clocks;
  const double in_turn = hopper_step(config(128, plain), round_profile()).step_clocks;
  EXPECT_GT(in_turn, 1.1 * overlapped);
  EXPECT_LT(in_turn, 2048 + kSoftmax);
  // A lone warpgroup has nobody to fill its gaps.
  plain.tile_m = 64;
  plain.warps = 4;
  const HopperStep alone = hopper_step(config(128, plain), round_profile());
  EXPECT_DOUBLE_EQ(alone.step_clocks, alone.matrix_clocks + alone.softmax_clocks);
}

TEST(HopperTime, AQTileThatIsNotChainedShowsItsFirstSoftmax) {
  AttentionVariant grid = kVariant;
  grid.persistence = Persistence::grid;
  EXPECT_DOUBLE_EQ(hopper_tile_clocks(config(128, grid), round_profile()) -
                       hopper_tile_clocks(config(128, kVariant), round_profile()),
                   300 + kSoftmax / 2);
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
  std::ifstream file(SWR_HOPPER_ATTENTION_DOC);
  const std::string published{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(published, HasSubstr(text));
  EXPECT_NEAR(load_profile("h200").prediction_error("hopper"),
              std::sqrt(squares / static_cast<double>(all.size())), 0.005);
  EXPECT_LT(mean, 0.05);
  EXPECT_LT(worst, 0.15);
  EXPECT_GT(correlation, 0.95);
}

}  // namespace
}  // namespace swr
