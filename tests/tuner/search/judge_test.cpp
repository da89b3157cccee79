// SPDX-License-Identifier: MIT
#include "tuner/search/judge.h"

#include "operations/attention/parts.h"
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tuner/predict/model_ranking.h"
#include "tests/support/test.h"
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

}  // namespace
}  // namespace swr
