// SPDX-License-Identifier: MIT

#include "operations/attention/parts.h"
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/fictional.h"
#include "tests/support/test.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/run/tuner.h"
#include "tuner/search/learned_field.h"
#include "tuner/search/replay_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

/// Times grow with the number of stages; the first variant in order is thus the best.
RecordedSpace some_space() {
  RecordedSpace space{.problem = AttentionProblem{.seq_q = 128, .seq_kv = 128, .head_dim = 16},
                      .device = test::fictional_device(),
                      .origin = {},
                      .results = {}};
  for (const int stages : {1, 2, 3, 4}) {
    for (const Order order : {Order::cyclic, Order::sawtooth}) {
      VariantResult result{.variant = AttentionVariant{}};
      attention(result.variant).stages = stages;
      attention(result.variant).order = order;
      result.outcome = Prediction{.time_us = 10.0 * stages};
      space.results.push_back(result);
    }
  }
  return space;
}

PredictTimes no_prediction() {
  return [](const std::vector<Variant>& variants) {
    return std::make_shared<PredictedTimes>(std::vector<double>(variants.size(), 1.0));
  };
}

TEST(SearchRegret, IsZeroForAllOfTheSpace) {
  for (const auto strategy :
       {StrategyKind::exhaustive, StrategyKind::random, StrategyKind::model}) {
    EXPECT_DOUBLE_EQ(
        search_regret(some_space(), {.strategy = strategy, .max_variants = 8}, no_prediction()),
        0.0);
  }
}

TEST(SearchRegret, DoesNotDependOnTheOrderOfTheRows) {
  RecordedSpace turned = some_space();
  std::reverse(turned.results.begin(), turned.results.end());
  const SearchOptions options{.strategy = StrategyKind::random, .max_variants = 2, .seed = 3};
  EXPECT_DOUBLE_EQ(search_regret(turned, options, no_prediction()),
                   search_regret(some_space(), options, no_prediction()));
}

TEST(SearchRegret, ComparesTheBestFoundWithTheBestOfAll) {
  RecordedSpace space = some_space();
  for (VariantResult& result : space.results) {
    result.outcome = Prediction{.time_us = 50.0 - 10.0 * attention(result.variant).stages};
  }
  EXPECT_DOUBLE_EQ(search_regret(space, {.max_variants = 2}, no_prediction()), 3.0);
}

TEST(SearchRegret, ChargesTheSlowestTimeToASearchThatFindsNothing) {
  RecordedSpace space = some_space();
  space.results[0].state = ResultState::runtime;
  EXPECT_DOUBLE_EQ(search_regret(space, {.max_variants = 1}, no_prediction()), 3.0);
}

TEST(JudgeSpace, CoversEveryStrategyAndBudget) {
  const SpaceJudgement judgement =
      judge_space(some_space(), {StrategyKind::random, StrategyKind::model});
  ASSERT_EQ(judgement.judgements.size(), 8U);
  EXPECT_EQ(judgement.judgements[0].max_variants, 8U);
  EXPECT_EQ(judgement.judgements[3].max_variants, 1U);
  EXPECT_DOUBLE_EQ(judgement.judgements[0].regret, 0.0);
  // A single draw of eight variants loses 0, 1, 2 or 3 times the best; the mean over seeds is near.
  EXPECT_NEAR(judgement.judgements[3].regret, 1.5, 0.4);
}

TEST(JudgeSpace, RefusesASpaceWithoutASuccess) {
  RecordedSpace space = some_space();
  for (VariantResult& result : space.results) {
    result.state = ResultState::runtime;
  }
  EXPECT_THROW(judge_space(space, {StrategyKind::random}), Error);
}

TEST(ModelPredictor, GivesTheSameTimesWithOneThreadAndWithMany) {
  const RecordedSpace space = some_space();
  std::vector<Variant> variants;
  for (const VariantResult& result : space.results) {
    variants.push_back(result.variant);
  }
  const auto times = model_predictor(space.problem, space.device, 1)(variants);
  const std::vector<double>& alone = times->all_us();
  EXPECT_EQ(model_predictor(space.problem, space.device, 4)(variants)->all_us(), alone);
  for (const double time_us : alone) {
    EXPECT_GT(time_us, 0.0);
  }
}

TEST(EstimatedResources, GrowWithTheTileAndStayWithinWhatAThreadMayHave) {
  const AttentionProblem problem{.seq_q = 128, .seq_kv = 128, .head_dim = 128};
  const auto registers = [&](int tile_m, int tile_n) {
    return estimated_resources(problem, {.tile_m = tile_m, .tile_n = tile_n}).registers_per_thread;
  };
  EXPECT_LT(registers(64, 32), registers(64, 64));
  EXPECT_LE(registers(256, 256), 255);
}

// A recorded space in the place of a GPU: the tuner as it is, nothing compiled.

const AttentionProblem kProblem{.seq_q = 512, .seq_kv = 512, .head_dim = 16};

VariantResult measured(int stages, double time_us) {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).stages = stages;
  Measurement measurement;
  measurement.median_us = measurement.p95_us = time_us;
  measurement.counters = Counters{.dram_read_bytes = 64LL * stages};
  result.outcome = measurement;
  return result;
}

/// The fastest has 3 stages; 4 stages were dropped by a constraint.
RecordedSpace space() {
  VariantResult dropped = measured(4, 0.0);
  dropped.state = ResultState::constraint;
  dropped.outcome = Measurement{};
  return {.problem = kProblem,
          .device = test::fictional_hopper(),
          .origin = {.l2_state = "warm"},
          .results = {measured(3, 10.0), measured(1, 11.0), measured(2, 12.0), dropped}};
}

TuneReport replay(ReplayEvaluator& recording, const SearchOptions& search) {
  TuneOptions options{.search = search, .variants = recording.variants(), .replays = true};
  Store store = Store::in_memory();
  options.run_id = store.begin_run({});
  QuietProgress progress;
  const KernelSource no_kernels = [](const Variant&) { return CompiledKernel{}; };
  return tune(kProblem, recording, no_kernels, store, options, progress);
}

TEST(Replay, FindsTheRecordedBestWithItsCountersAndHoldsFinals) {
  ReplayEvaluator recording(space());
  const TuneReport report = replay(recording, {});
  EXPECT_TRUE(report.replayed);
  ASSERT_THAT(report.results, SizeIs(4));
  EXPECT_EQ(attention(report.best()->variant).stages, 3);
  EXPECT_EQ(report.results[1].measurement()->counters->dram_read_bytes, 64);
  EXPECT_EQ(report.results.back().state, ResultState::constraint);
  EXPECT_FALSE(report.finalists.empty());
}

TEST(Replay, EveryStrategyKeepsItsBudget) {
  for (const StrategyKind strategy :
       {StrategyKind::exhaustive, StrategyKind::random, StrategyKind::model}) {
    ReplayEvaluator recording(space());
    const TuneReport report = replay(recording, {.strategy = strategy, .max_variants = 1});
    const auto reached = std::ranges::count_if(report.results, reached_device);
    EXPECT_EQ(reached, 1) << to_string(strategy);
  }
}

TEST(Replay, TellsNothingOfTheTimesByTheOrderOfTheVariants) {
  const ReplayEvaluator recording(space());
  const auto variants = recording.variants();
  EXPECT_TRUE(std::ranges::is_sorted(variants));
  EXPECT_THAT(variants, SizeIs(4));
}

TEST(Replay, RejectsWhatIsNotRecordedAndASpaceWithoutASuccess) {
  ReplayEvaluator recording(space());
  AttentionVariant unknown{.tile_m = 16, .stages = 1};
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { recording.evaluate(kProblem, unknown, {}); }),
      HasSubstr(to_key(unknown)));
  RecordedSpace failed = space();
  failed.results.erase(failed.results.begin(), failed.results.begin() + 3);
  message_of(ErrorCode::nothing_stored, [&] { ReplayEvaluator nothing(std::move(failed)); });
}

const std::vector<Variant> kSpace{
    AttentionVariant{.stages = 1}, AttentionVariant{.stages = 2},
    AttentionVariant{.order = Order::sawtooth},
    AttentionVariant{.tile_m = 128, .stages = 4, .order = Order::sawtooth},
    AttentionVariant{.tile_m = 128, .stages = 4}};

ResidualField field_with(const std::vector<std::size_t>& places) {
  ResidualField field(kSpace);
  for (const std::size_t place : places) {
    field.add(place);
  }
  return field;
}

TEST(ResidualField, ExpectsNothingAndKnowsNothingWithoutMeasurements) {
  EXPECT_EQ(field_with({}).expected({}), std::vector<double>(5, 0.0));
  EXPECT_EQ(field_with({}).deviation(0), 1.0);
}

TEST(ResidualField, CarriesOneResidualToEveryVariant) {
  for (const double expected : field_with({0}).expected({0.5})) {
    EXPECT_DOUBLE_EQ(expected, 0.5);
  }
}

TEST(ResidualField, SaysNothingOfAFamilyOfWhichNoneWasMeasured) {
  std::vector<Variant> space = kSpace;
  space.push_back(AttentionVariant{.family = Family::hopper});
  ResidualField field(space);
  field.add(0);
  field.add(1);
  const std::vector<double> expected = field.expected({1.0, 1.1});
  EXPECT_NEAR(expected[2], 1.05, 0.06);
  EXPECT_EQ(expected[5], 0.0);
  EXPECT_EQ(field.deviation(5), 1.0);
}

TEST(ResidualField, ComesCloseToWhatItWasTold) {
  const std::vector<double> expected = field_with({0, 1, 2}).expected({0.4, -0.2, 0.1});
  EXPECT_NEAR(expected[0], 0.4, 0.06);
  EXPECT_NEAR(expected[1], -0.2, 0.06);
}

TEST(ResidualField, TrustsTheNearerOfTwo) {
  const std::vector<double> expected = field_with({0, 3}).expected({1.0, -1.0});
  EXPECT_GT(expected[1], 0.0);
  EXPECT_LT(expected[4], 0.0);
}

TEST(ResidualField, KnowsLessOfAVariantTheLessItHasInCommonWithThoseMeasured) {
  const ResidualField field = field_with({0});
  EXPECT_LT(field.deviation(0), 0.25);
  EXPECT_LT(field.deviation(0), field.deviation(1));
  EXPECT_LT(field.deviation(1), field.deviation(3));
  EXPECT_LT(field.deviation(3), 1.0);
}

TEST(ResidualField, ResidualsStillAwaitedDoNotChangeWhatIsExpected) {
  const std::vector<double> before = field_with({0}).expected({0.5});
  EXPECT_EQ(field_with({0, 3}).expected({0.5}), before);
}

}  // namespace
}  // namespace swr
