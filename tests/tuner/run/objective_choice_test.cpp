// SPDX-License-Identifier: MIT
#include "tuner/run/objective_choice.h"

#include "tests/support/attention.h"
#include "tests/support/energy_evaluator.h"
#include "tests/support/fake_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swr {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const AttentionProblem kChoiceProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

AttentionVariant choice_variant(int tile_n) { return {.tile_n = tile_n}; }

VariantResult measured(int tile_n, double time_us) {
  VariantResult result{.variant = AttentionVariant{}};
  result.variant = choice_variant(tile_n);
  result.outcome = Measurement{.samples_us = {time_us}, .median_us = time_us, .p95_us = time_us};
  return result;
}

VariantResult with_traffic(VariantResult result, long long dram_bytes, long long l2_sectors) {
  std::get<Measurement>(result.outcome).counters =
      Counters{.sectors_demanded = l2_sectors, .dram_read_bytes = dram_bytes};
  return result;
}

VariantResult with_energy(VariantResult result, std::vector<double> samples_mj) {
  std::get<Measurement>(result.outcome).energy =
      Energy{.samples_mj = std::move(samples_mj), .launch_us = 10.0, .idle_power_w = 80.0};
  return result;
}

TimesByVariant times_of(const std::vector<VariantResult>& results) {
  TimesByVariant times_us;
  for (const VariantResult& result : results) {
    times_us[result.variant] = result.time_us();
  }
  return times_us;
}

std::vector<RankedVariant> rank(const std::vector<VariantResult>& results,
                                const std::string& objective = "energy") {
  return rank_by(Objective(objective), kChoiceProblem, test::fictional_device(), results,
                 times_of(results), 0.02);
}

CompiledKernel no_choice_kernel(const Variant& /*variant*/) { return {}; }

TEST(ChooseForEnergy, TakesTheFastestAndThoseThatMoveLeast) {
  const std::vector<VariantResult> results{
      with_traffic(measured(16, 14.0), 100, 900), with_traffic(measured(32, 10.0), 500, 800),
      with_traffic(measured(48, 12.0), 400, 100), with_traffic(measured(64, 11.0), 600, 700),
      with_traffic(measured(80, 13.0), 700, 600)};
  EXPECT_THAT(choose_for_energy(results, times_of(results), {.most_measured = 4}),
              ElementsAre(1, 3, 2, 0));
}

TEST(ChooseForEnergy, LeavesOutFailuresAndThoseBeyondReach) {
  std::vector<VariantResult> results{measured(16, 10.0), measured(32, 15.1), measured(48, 9.9)};
  results.back().state = ResultState::correctness;
  EXPECT_THAT(choose_for_energy(results, times_of(results), {}), ElementsAre(0));
  EXPECT_THAT(choose_for_energy(results, times_of(results), {.reach = 2.0}), ElementsAre(0, 1));
  EXPECT_THAT(choose_for_energy({}, {}, {}), IsEmpty());
}

TEST(ChooseForEnergy, GoesByTimeAloneWithoutCounters) {
  const std::vector<VariantResult> results{measured(16, 10.0), measured(32, 10.1),
                                           measured(48, 10.2), measured(64, 10.3)};
  EXPECT_THAT(choose_for_energy(results, times_of(results), {.most_measured = 3}),
              ElementsAre(0, 1, 2));
}

class MeasureEnergy : public ::testing::Test {
 protected:
  void measure(const ObjectiveOptions& options = {}) {
    measure_energy(kChoiceProblem, gpu_, no_choice_kernel, results_, std::vector<std::size_t>{0, 1},
                   75.0, options, [] { return false; });
  }
  const Measurement& of(std::size_t place) { return *results_[place].measurement(); }

  std::vector<VariantResult> results_{measured(16, 10.0), measured(32, 20.0)};
  test::EnergyEvaluator gpu_{
      test::fictional_device(),
      [](const Variant& variant) { return attention(variant).tile_n == 16 ? 10.0 : 20.0; },
      [](const Variant& variant) { return attention(variant).tile_n == 16 ? 600.0 : 200.0; }};
};

TEST_F(MeasureEnergy, IsPowerTimesTimeOfALaunch) {
  measure();
  EXPECT_THAT(of(0).energy->samples_mj, ElementsAre(6.0, 6.0, 6.0));
  EXPECT_THAT(of(1).energy->samples_mj, ElementsAre(4.0, 4.0, 4.0));
  EXPECT_EQ(of(0).energy->launch_us, 10.0);
  EXPECT_EQ(of(0).energy->idle_power_w, 75.0);
  EXPECT_NEAR(of(1).energy->power_w(), 200.0, 1e-9);
}

TEST_F(MeasureEnergy, GoesOnUntilTheRunsLieCloseTogether) {
  gpu_.power_error = 0.2;
  measure();
  EXPECT_THAT(of(0).energy->samples_mj, SizeIs(6));
  EXPECT_THAT(gpu_.measured, SizeIs(12));
}

TEST_F(MeasureEnergy, SaysWhyWhereItCannot) {
  gpu_.missing_because = "the counter fell off";
  measure();
  EXPECT_FALSE(of(0).energy.has_value());
  EXPECT_EQ(of(0).energy_missing_because, "the counter fell off");
}

TEST(RankBy, AVariantThatIsFasterButHungrierLosesUnderEnergy) {
  const std::vector<VariantResult> results{with_energy(measured(16, 10.0), {6.0, 6.1, 5.9}),
                                           with_energy(measured(32, 14.0), {4.0, 4.1, 3.9})};
  const auto by_energy = rank(results);
  EXPECT_EQ(by_energy.front().variant, choice_variant(32));
  EXPECT_EQ(by_energy.back().variant, choice_variant(16));
  EXPECT_NEAR(by_energy.back().ratio, 1.5, 1e-9);
  EXPECT_LE(by_energy.back().ratio_low, 1.5);
  EXPECT_GE(by_energy.back().ratio_high, 1.5);
  EXPECT_FALSE(by_energy.back().tied);
  EXPECT_EQ(rank(results, "time").front().variant, choice_variant(16));
  EXPECT_EQ(rank(results, "edp").front().variant, choice_variant(32));
  EXPECT_EQ(rank(results, "energy_mj * time_us ** 2").front().variant, choice_variant(16));
}

TEST(RankBy, OfThoseThatTieTheFastestWins) {
  const std::vector<VariantResult> results{with_energy(measured(16, 10.0), {4.07}),
                                           with_energy(measured(32, 14.0), {4.0}),
                                           with_energy(measured(48, 9.0), {4.09})};
  const auto order = rank(results);
  ASSERT_THAT(order, SizeIs(3));
  EXPECT_EQ(order[0].variant, choice_variant(16));
  EXPECT_EQ(order[1].variant, choice_variant(32));
  EXPECT_TRUE(order[0].tied);
  EXPECT_TRUE(order[1].tied);
  EXPECT_FALSE(order[2].tied);
  EXPECT_LT(order[1].ratio, 1.0);
}

TEST(RankBy, LeavesOutWhoseMetricsAreUnknownOrWhoHasNoValue) {
  std::vector<VariantResult> results{measured(16, 10.0), with_energy(measured(32, 14.0), {4.0}),
                                     with_energy(measured(48, 15.0), {4.5})};
  EXPECT_THAT(rank(results), SizeIs(2));
  EXPECT_THAT(rank(results, "1 / (time_us - 14)"), SizeIs(1));
  results.resize(1);
  EXPECT_THAT(rank(results), IsEmpty());
  EXPECT_THAT([&] { rank(results, "1 / (time_us - 10)"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("zero")));
}

TEST(ParetoFront, HasWhomNobodyBeatsInBoth) {
  const std::vector<std::pair<double, double>> points{{10.0, 6.0}, {12.0, 5.0}, {11.0, 7.0},
                                                      {12.0, 5.5}, {14.0, 4.0}, {15.0, 4.0}};
  EXPECT_THAT(pareto_front(points), ElementsAre(0, 1, 4));
  EXPECT_THAT(pareto_front({}), IsEmpty());
}

}  // namespace
}  // namespace swr
