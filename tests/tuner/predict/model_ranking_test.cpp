// SPDX-License-Identifier: MIT
// Ranking the space of attention: bounds hold, and what they spare changes no choice.
#include "tuner/predict/model_ranking.h"

#include "core/operation.h"
#include "model/predictor.h"
#include "tuner/predict/predicting_evaluator.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/generator.h>

namespace swr {
namespace {

constexpr std::array kProblems{
    AttentionProblem{.heads_q = 16, .heads_kv = 4, .seq_q = 1500, .seq_kv = 1500, .causal = true},
    AttentionProblem{.heads_q = 8, .heads_kv = 8, .seq_q = 777, .seq_kv = 2000, .head_dim = 128},
    AttentionProblem{.heads_q = 32, .heads_kv = 8, .seq_q = 1, .seq_kv = 9000, .head_dim = 128}};

std::vector<Variant> space_of(const AttentionProblem& problem) {
  return enumerate_space(problem, load_profile("h100").device, {}).variants;
}

TEST(Ranking, TheFirstAreThoseOfAllWalkedAndMostAreNotWalked) {
  std::size_t known = 0;
  std::size_t all = 0;
  for (const AttentionProblem& problem : kProblems) {
    const std::vector<Variant> space = space_of(problem);
    const PredictTimes predict = model_predictor(problem, load_profile("h100").device, 2);
    const auto times = predict(space);
    const std::vector<std::size_t> first = first_of_shortlist(space, *times, 8);
    std::vector<std::size_t> expected = shortlist(space, predict(space)->all_us());
    expected.resize(8);
    EXPECT_EQ(first, expected) << to_string(Problem(problem));
    for (std::size_t place = 0; place < space.size(); ++place) {
      known += times->is_known(place) ? 1 : 0;
    }
    all += space.size();
  }
  EXPECT_LT(2 * known, all);
}

TEST(Ranking, NoTimeIsBelowItsBounds) {
  PredictingEvaluator model(load_profile("h100"));
  for (const AttentionProblem& problem : kProblems) {
    const std::vector<Variant> space = space_of(problem);
    for (std::size_t place = 0; place < space.size(); place += 7) {
      CompiledKernel kernel;
      kernel.resources = model.predictor(problem).estimated_resources(problem, space[place]);
      const VariantResult result = model.evaluate(problem, space[place], kernel);
      if (result.state != ResultState::ok) {
        continue;
      }
      for (const BoundBy by : {BoundBy::sums, BoundBy::timeline}) {
        const double bound_us = model.bound_us(problem, space[place], kernel, by);
        EXPECT_LE(bound_us, 1.001 * result.time_us()) << to_key(space[place]);
        EXPECT_GE(bound_us, 0.3 * result.time_us()) << to_key(space[place]);
      }
    }
  }
}

}  // namespace
}  // namespace swr
