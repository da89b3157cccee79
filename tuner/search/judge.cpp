// SPDX-License-Identifier: MIT
#include "tuner/search/judge.h"

#include "tuner/predict/model_ranking.h"
#include "tuner/run/compile_queue.h"
#include <swr/error.h>

#include <algorithm>
#include <map>
#include <memory>

namespace swr {
namespace {

/// The variants without any trace of their results: recorded rows stand in order of their times.
std::vector<Variant> unordered_variants(const RecordedSpace& space) {
  std::vector<Variant> variants;
  for (const VariantResult& result : space.results) {
    variants.push_back(result.variant);
  }
  std::ranges::sort(variants);
  return variants;
}

double slowest_us(const RecordedSpace& space) {
  double slowest_us = 0.0;
  for (const VariantResult& result : space.results) {
    slowest_us =
        result.state == ResultState::ok ? std::max(slowest_us, result.time_us()) : slowest_us;
  }
  return slowest_us;
}

double mean_regret(const RecordedSpace& space, SearchOptions options, const PredictTimes& predict) {
  const int seeds = options.strategy == StrategyKind::random ? kRandomSeeds : 1;
  double sum = 0.0;
  for (int seed = 1; seed <= seeds; ++seed) {
    options.seed = static_cast<unsigned long long>(seed);
    sum += search_regret(space, options, predict);
  }
  return sum / seeds;
}

}  // namespace

double search_regret(const RecordedSpace& space, const SearchOptions& options,
                     const PredictTimes& predict) {
  std::map<Variant, const VariantResult*> recorded;
  for (const VariantResult& result : space.results) {
    recorded.emplace(result.variant, &result);
  }
  const auto strategy = make_strategy(options, unordered_variants(space), predict);
  double found_us = slowest_us(space);
  for (auto batch = strategy->propose(); !batch.empty(); batch = strategy->propose()) {
    for (const Variant& variant : batch) {
      const VariantResult& result = *recorded.at(variant);
      strategy->tell(result);
      found_us = result.state == ResultState::ok ? std::min(found_us, result.time_us()) : found_us;
    }
  }
  return found_us / space.best_us() - 1.0;
}

SpaceJudgement judge_space(const RecordedSpace& space,
                           const std::vector<StrategyKind>& strategies) {
  if (!(space.best_us() > 0.0)) {
    throw Error(ErrorCode::nothing_stored, "no variant of " + to_string(space.problem) + " on " +
                                               space.device.name +
                                               " succeeded; judge a space that was measured");
  }
  SpaceJudgement judgement{.problem = space.problem,
                           .device = space.device,
                           .variants = space.results.size(),
                           .best_us = space.best_us(),
                           .judgements = {}};
  // Predicted once for all budgets.
  std::shared_ptr<PredictedTimes> times;
  const PredictTimes predict = [&](const std::vector<Variant>& variants) {
    if (!times) {
      times = model_predictor(space.problem, space.device, thread_count(0))(variants);
    }
    return times;
  };
  const std::size_t tenth = std::max<std::size_t>(1, space.results.size() / 10);
  for (const StrategyKind strategy : strategies) {
    for (const std::size_t max_variants :
         {std::size_t{8}, std::size_t{16}, std::size_t{32}, tenth}) {
      const SearchOptions options{.strategy = strategy, .max_variants = max_variants};
      judgement.judgements.push_back(
          {strategy, max_variants, mean_regret(space, options, predict)});
    }
  }
  return judgement;
}

}  // namespace swr
