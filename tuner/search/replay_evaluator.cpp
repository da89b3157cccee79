// SPDX-License-Identifier: MIT
#include "tuner/search/replay_evaluator.h"

#include <swr/error.h>

#include <utility>

namespace swr {

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

}  // namespace swr
