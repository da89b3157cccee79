// SPDX-License-Identifier: MIT
#include "tuner/run/stages.h"
#include <swr/error.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace swr {

PowerReading idle_power(const Problem& problem, Evaluator& evaluator,
                        const ObjectiveOptions& options) {
  PowerReading idle = evaluator.measure_power(problem, {}).front();
  if (!idle.power_w && options.objective.needs_energy()) {
    throw Error(ErrorCode::no_counters,
                "objective '" + options.objective.text() +
                    "' needs energy, which cannot be measured here: " + idle.missing_because);
  }
  return idle;
}

void measure_energies(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                      Store& store, const TuneOptions& options, const PowerReading& idle,
                      const RowIds& row_ids) {
  report.choice.idle_power_w = idle.power_w;
  report.choice.missing_because = idle.missing_because;
  std::vector<std::size_t> places =
      choose_for_energy(report.results, comparable_times_us(report), options.objective);
  std::erase_if(places, [&](std::size_t place) {
    const Measurement& measurement = *report.results[place].measurement();
    return measurement.energy || !measurement.energy_missing_because.empty();
  });
  if (!idle.power_w || places.empty()) {
    return;
  }
  measure_energy(report.problem, evaluator, kernels, report.results, places, *idle.power_w,
                 options.objective, options.stop_requested);
  for (const std::size_t place : places) {
    const VariantResult& result = report.results[place];
    const Measurement& measurement = *result.measurement();
    if (measurement.energy || !measurement.energy_missing_because.empty()) {
      store.record_energy(row_ids.at(result.variant), measurement);
    }
  }
}

void choose_by_objective(TuneReport& report, Store& store, const TuneOptions& options,
                         const RowIds& row_ids) {
  const Objective& objective = options.objective.objective;
  ObjectiveOutcome& choice = report.choice;
  const double threshold = objective.needs_energy() ? options.objective.energy_tie_threshold
                                                    : options.objective.tie_threshold;
  choice.ranked = rank_by(objective, report.problem, report.device, report.results,
                          comparable_times_us(report), threshold);
  if (choice.ranked.empty()) {
    choice.missing_because = choice.missing_because.empty()
                                 ? "no variant has all metrics of the objective"
                                 : choice.missing_because;
    return;
  }
  choice.tie_threshold = threshold;
  constexpr std::size_t kMostStored = 128;  // As many as finals have; the others are far behind.
  std::vector<RankedResult> ranked;
  for (const RankedVariant& one :
       std::span(choice.ranked).first(std::min(choice.ranked.size(), kMostStored))) {
    ranked.push_back({row_ids.at(one.variant), one.ratio, one.ratio_low, one.ratio_high, one.tied});
  }
  const auto known =
      store.known_decision(options.run_id, report.problem, report.device, objective.text());
  const bool is_known = known && known->finalists.size() == ranked.size() &&
                        known->finalists.front().result.variant == choice.ranked.front().variant;
  if (!is_known) {
    store.record_choice(options.run_id, report.problem, report.device, objective.text(), ranked,
                        threshold);
  }
}

}  // namespace swr
