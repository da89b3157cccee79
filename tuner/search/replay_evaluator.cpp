// SPDX-License-Identifier: MIT
#include "tuner/search/replay_evaluator.h"

#include "tuner/predict/model_ranking.h"
#include "tuner/run/compile_queue.h"
#include <swr/error.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

namespace swr {
namespace {

RecordedSpace space_of(const Store& store, const StoredResult& winner, const Setting& setting) {
  const RunInfo run = store.run_of(winner.id);
  RecordedSpace space{.problem = winner.problem,
                      .device = winner.device,
                      .origin = {.swr_version = run.swr_version,
                                 .templates_digest = run.templates_digest,
                                 .overlay_digest = run.overlay_digest,
                                 .nvrtc_version = run.nvrtc_version,
                                 .driver_version = run.driver_version,
                                 .l2_state = run.l2_state},
                      .results = {}};
  for (StoredResult& stored : store.results(winner.problem, winner.device, setting)) {
    if (stored.result.provenance() == winner.result.provenance()) {
      space.results.push_back(std::move(stored.result));
    }
  }
  return space;
}

}  // namespace

std::vector<RecordedSpace> stored_spaces(const Store& store) {
  std::vector<RecordedSpace> spaces;
  std::set<long long> seen;  // A prediction belongs to both L2 states.
  for (const Setting& setting : store.settings()) {
    for (const StoredResult& winner : store.winners(setting)) {
      if (seen.insert(winner.id).second) {
        spaces.push_back(space_of(store, winner, setting));
      }
    }
  }
  return spaces;
}

std::vector<RecordedSpace> load_spaces(const std::filesystem::path& path) {
  if (path.extension() == ".json" || path.extension() == kRecordedSpacesExtension) {
    return read_recorded_spaces(path);
  }
  auto spaces = stored_spaces(Store(path, Store::Mode::read_only));
  if (spaces.empty()) {
    throw Error(ErrorCode::nothing_stored,
                "database " + path.string() + " holds no successful result; tune a problem first");
  }
  return spaces;
}

ReplayEvaluator::ReplayEvaluator(RecordedSpace space) : space_(std::move(space)) {
  if (!(space_.best_us() > 0.0)) {
    throw Error(ErrorCode::nothing_stored, "no variant of " + to_string(space_.problem) + " on " +
                                               space_.device.name +
                                               " succeeded; replay a space that was measured");
  }
  for (std::size_t place = 0; place < space_.results.size(); ++place) {
    place_of_.emplace(space_.results[place].variant, place);
  }
}

std::vector<Variant> ReplayEvaluator::variants() const {
  std::vector<Variant> variants;
  for (const auto& [variant, place] : place_of_) {
    variants.push_back(variant);
  }
  return variants;
}

const VariantResult& ReplayEvaluator::recorded(const Problem& problem,
                                               const Variant& variant) const {
  const auto place = place_of_.find(variant);
  if (problem != space_.problem || place == place_of_.end()) {
    throw Error(ErrorCode::invalid_argument, "the recording of " + to_string(space_.problem) +
                                                 " does not hold " + to_key(variant) + " for " +
                                                 to_string(problem));
  }
  return space_.results[place->second];
}

VariantResult ReplayEvaluator::evaluate(const Problem& problem, const Variant& variant,
                                        const CompiledKernel& /*kernel*/) {
  VariantResult result = recorded(problem, variant);
  auto* const measurement = std::get_if<Measurement>(&result.outcome);
  if (measurement != nullptr && result.state == ResultState::ok) {
    measurement->counters.reset();
    measurement->counters_missing_because = "not counted";
  }
  return result;
}

std::vector<CounterReading> ReplayEvaluator::count(const Problem& problem,
                                                   std::span<const Contender> contenders) {
  std::vector<CounterReading> readings;
  for (const Contender& contender : contenders) {
    const Measurement& measurement = *recorded(problem, contender.variant).measurement();
    readings.push_back({measurement.counters, measurement.counters_missing_because});
  }
  return readings;
}

RaceResult ReplayEvaluator::race(const Problem& problem, std::span<const Contender> contenders,
                                 const RaceOptions& options) {
  RaceResult result;
  for (const Contender& contender : contenders) {
    const double time_us = recorded(problem, contender.variant).time_us();
    result.samples_us.emplace_back(static_cast<std::size_t>(options.rounds), time_us);
  }
  return result;
}

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
      const SearchOptions options{
          .strategy = strategy, .max_variants = max_variants, .spends_all = true};
      judgement.judgements.push_back(
          {strategy, max_variants, mean_regret(space, options, predict)});
    }
  }
  return judgement;
}

}  // namespace swr
