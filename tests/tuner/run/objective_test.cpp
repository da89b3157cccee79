// SPDX-License-Identifier: MIT
// Objectives other than time: their values, their choices, runs that follow them.

#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/kept_folder.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/test.h"
#include "tuner/run/objective_choice.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/lookup.h>

namespace swr {
namespace {

using test::measured;

const AttentionProblem kObjectiveProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

VariantResult measured() {
  VariantResult result{.variant = AttentionVariant{}};
  result.resources.registers_per_thread = 128;
  result.ctas_per_sm = 2;
  result.outcome = Measurement{.samples_us = {20.0}, .median_us = 20.0, .p95_us = 20.0};
  return result;
}

VariantResult with_energy() {
  VariantResult result = measured();
  std::get<Measurement>(result.outcome).energy =
      Energy{.samples_mj = {4.0, 6.0}, .launch_us = 25.0, .idle_power_w = 80.0};
  return result;
}

std::optional<double> value(const std::string& text, const VariantResult& result) {
  return Objective(text).value(kObjectiveProblem, test::fictional_device(), result, 10.0);
}

std::string refusal(const std::string& text) {
  return message_of(ErrorCode::invalid_argument, [&] { const Objective objective(text); });
}

TEST(Objective, OfTimeIsTheTimeThatRanks) {
  const Objective time;
  EXPECT_TRUE(time.is_time());
  EXPECT_FALSE(time.needs_energy());
  EXPECT_EQ(value("time", measured()), 10.0);
}

TEST(Objective, OfEnergyIsTheMeanOfItsRuns) {
  EXPECT_TRUE(Objective("energy").needs_energy());
  EXPECT_EQ(value("energy", with_energy()), 5.0);
  EXPECT_EQ(value("edp", with_energy()), 50.0);
  EXPECT_DOUBLE_EQ(value("power_w", with_energy()).value(), 200.0);
}

TEST(Objective, IsUnknownWhereAMetricIs) {
  EXPECT_EQ(value("energy", measured()), std::nullopt);
  EXPECT_EQ(value("time_us + l2_misses", measured()), std::nullopt);
}

TEST(Objective, ComputesFromTheMetricsOfReports) {
  EXPECT_EQ(value("time_us * registers", measured()), 1280.0);
  EXPECT_EQ(value("registers_per_thread + ctas_per_sm", measured()), 130.0);
  EXPECT_FALSE(Objective("time_us * registers").needs_energy());
  EXPECT_TRUE(Objective("time_us / gflop_per_j").needs_energy());
  VariantResult counted = measured();
  std::get<Measurement>(counted.outcome).counters =
      Counters{.l2_misses = 7, .dram_read_bytes = 100, .dram_write_bytes = 11};
  EXPECT_EQ(value("l2_misses", counted), 7.0);
  EXPECT_EQ(value("dram_bytes", counted), 111.0);
  const int threads = threads_per_cta(kObjectiveProblem, AttentionVariant{});
  EXPECT_DOUBLE_EQ(value("occupancy", counted).value(), 2.0 * threads / 1536);
}

TEST(Objective, NamesTheNearestOfAMetricThatIsNotKnown) {
  EXPECT_THAT(refusal("energy_nj"), HasSubstr("energy_mj"));
  EXPECT_THAT(refusal("EDP"), HasSubstr("known are time, energy, edp, "));
  EXPECT_THAT(refusal("enrgy"), HasSubstr("did you mean 'energy'?"));
  EXPECT_THAT(refusal("time_us * speed"), HasSubstr("'speed'"));
  EXPECT_THAT(refusal("1 + 2"), HasSubstr("reads no metric"));
  EXPECT_THAT(refusal("time_us +"), HasSubstr("objective 'time_us +'"));
  EXPECT_THAT(refusal(""), HasSubstr("objective ''"));
}

TEST(Objective, RefusesWhatCannotBeComputedBeforeAnythingIsMeasured) {
  EXPECT_THAT(refusal("time_us / (2 - 2)"), HasSubstr("zero"));
  EXPECT_THAT(refusal("[time_us]"), HasSubstr("must be a number"));
  EXPECT_THAT(refusal("time_us + len([0 for a in range(999999) for b in range(9)])"),
              HasSubstr("objective"));
  EXPECT_THAT(refusal("time_us + len([len([1 for b in range(9000)]) for a in range(9000)])"),
              HasSubstr("objective"));
}

TEST(Objective, NeedsValuesThatCanBeComparedByRatio) {
  EXPECT_THAT([] { value("0 - time_us", measured()); },
              ::testing::ThrowsMessage<Error>(HasSubstr("1 / (...)")));
  EXPECT_EQ(value("1 / ctas_per_sm", measured()), 0.5);
}

const AttentionProblem kChoiceProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

AttentionVariant choice_variant(int tile_n) { return {.tile_n = tile_n}; }

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

// Whole runs for objectives beside time: what wins, what is stored, what later runs and questions
// find. Only the GPU is faked.

int stages(const Variant& variant) { return attention(variant).stages; }

/// Stages 1 to 3: the more the slower, and the more frugal.
class TuneFor : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.space.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}};
    options_.space.restrictions = {{"stages", {1LL, 2LL, 3LL}},
                                   {"order", {std::string("cyclic")}},
                                   {"persistence", {std::string("persistent")}}};
    options_.compile_threads = 2;
  }

  TuneReport tune_for(const std::string& objective, bool measures_energy = false) {
    Store store(path_, Store::Mode::read_write);
    const Generator generator({.cache_dir = kept_kernels()});
    options_.objective = {.objective = Objective(objective), .measures_energy = measures_energy};
    options_.run_id = store.begin_run(
        {.command = "test", .l2_state = "warm", .objective = objective, .conditions = "fake"});
    QuietProgress progress;
    gpu_.measured.clear();
    return tune(problem_, gpu_, generator, store, options_, progress);
  }

  Answer ask(const std::string& objective) const {
    LookupOptions options{.objective = objective};
    return Lookup(path_, options).best(problem_, gpu_.device());
  }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
  AttentionProblem problem_{.seq_q = 512, .seq_kv = 512, .head_dim = 16};
  test::EnergyEvaluator gpu_{
      [](const Variant& variant) { return 10.0 + 0.1 * stages(variant); },
      [](const Variant& variant) { return 900.0 / (stages(variant) * stages(variant)); }};
  TuneOptions options_;
};

TEST_F(TuneFor, EnergyTakesTheFrugalAndTimeStaysAsItIs) {
  const TuneReport report = tune_for("energy");
  EXPECT_EQ(stages(report.best()->variant), 3);
  EXPECT_EQ(report.choice.idle_power_w, 75.0);
  EXPECT_THAT(report.choice.ranked, SizeIs(3));
  EXPECT_EQ(stages(report.finalists.front().result.variant), 1);
  EXPECT_EQ(stages(ask("time").variant), 1);
  EXPECT_EQ(stages(ask("energy").variant), 3);
  EXPECT_EQ(ask("energy").level, MatchLevel::exact);
  EXPECT_NEAR(ask("energy").time_us.value(), 10.3, 1e-9);
}

TEST_F(TuneFor, QuestionsKnowOnlyTheVeryObjective) {
  tune_for("energy");
  const Answer other = ask("edp");
  EXPECT_EQ(other.result_id, 0);
  EXPECT_NE(other.level, MatchLevel::exact);
}

TEST_F(TuneFor, AnotherObjectiveMeasuresNothingAnew) {
  tune_for("time");
  EXPECT_THAT(gpu_.measured, IsEmpty());
  EXPECT_EQ(tune_for("energy").known, 3U);
  EXPECT_THAT(gpu_.measured, SizeIs(9));
  const TuneReport third = tune_for("time_us + energy_mj / 1000000");
  EXPECT_EQ(third.known, 3U);
  EXPECT_THAT(gpu_.measured, IsEmpty());
  EXPECT_EQ(stages(third.best()->variant), 1);
  EXPECT_EQ(stages(tune_for("time").best()->variant), 1);
  EXPECT_EQ(stages(tune_for("energy").best()->variant), 3);
  EXPECT_EQ(stages(ask("energy").variant), 3);
  EXPECT_EQ(stages(ask("time_us + energy_mj / 1000000").variant), 1);
}

TEST_F(TuneFor, EnergyIsOneErrorWhereItIsNotCountedAndNothingIsMeasured) {
  gpu_.missing_because = "no counter of energy";
  const std::string message = message_of(ErrorCode::no_counters, [&] { tune_for("edp"); });
  EXPECT_THAT(message, HasSubstr("objective 'edp'"));
  EXPECT_THAT(message, HasSubstr("no counter of energy"));
  EXPECT_THAT(Store(path_, Store::Mode::read_only).results(problem_, gpu_.device()), IsEmpty());
}

TEST_F(TuneFor, TimeLeavesAnEmptyCellWhereEnergyIsNotCounted) {
  gpu_.missing_because = "no counter of energy";
  const TuneReport report = tune_for("time", true);
  EXPECT_EQ(stages(report.best()->variant), 1);
  EXPECT_EQ(report.choice.missing_because, "no counter of energy");
  EXPECT_FALSE(report.best()->measurement()->energy.has_value());
}

TEST_F(TuneFor, TimeWithEnergyBesideKeepsTheFastest) {
  const TuneReport report = tune_for("time", true);
  EXPECT_EQ(stages(report.best()->variant), 1);
  EXPECT_THAT(report.choice.ranked, IsEmpty());
  EXPECT_NEAR(report.best()->measurement()->energy->mean_mj(), 900.0 * 10.1 / 1e3, 1e-9);
  const Store store(path_, Store::Mode::read_only);
  const Measurement stored = *store.result(ask("time").result_id).result.measurement();
  EXPECT_EQ(stored.energy, report.best()->measurement()->energy);
}

TEST_F(TuneFor, AnExpressionWithoutEnergyRanksEveryVariantAndMeasuresNone) {
  const TuneReport report = tune_for("1 / time_us");
  EXPECT_EQ(stages(report.best()->variant), 3);
  EXPECT_THAT(gpu_.measured, IsEmpty());
  EXPECT_EQ(stages(ask("1 / time_us").variant), 3);
}

TEST_F(TuneFor, AnObjectiveThatNoVariantHasIsOneError) {
  EXPECT_THAT([&] { tune_for("1 / (time_us - time_us)"); },
              ::testing::ThrowsMessage<Error>(Not(IsEmpty())));
}

}  // namespace
}  // namespace swr
