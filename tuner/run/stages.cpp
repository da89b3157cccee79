// SPDX-License-Identifier: MIT
#include "tuner/run/stages.h"

#include "db/problem_key.h"
#include <swr/error.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace swr {
namespace {

/// Of every result, by variant; the same for all that an objective has not ranked.
std::map<Variant, std::size_t> places_in_choice(const TuneReport& report) {
  std::map<Variant, std::size_t> places;
  for (const VariantResult& result : report.results) {
    places[result.variant] = report.choice.ranked.size();
  }
  for (std::size_t i = 0; i < report.choice.ranked.size(); ++i) {
    places[report.choice.ranked[i].variant] = i;
  }
  return places;
}

}  // namespace

bool is_decided(const TuneReport& report) {
  return report.known == report.results.size() &&
         std::ranges::any_of(report.results, [](const VariantResult& result) {
           const Measurement* measurement = result.measurement();
           return measurement != nullptr && measurement->sampling == Sampling::finals;
         });
}

void take_known_decision(TuneReport& report, const Store& store, long long run_id) {
  auto known = store.known_decision(run_id, report.problem, report.device);
  if (!known) {
    return;
  }
  for (std::size_t i = 0; i < known->finalists.size(); ++i) {
    if (known->screening_us[i]) {
      report.screening_us[known->finalists[i].result.variant] = *known->screening_us[i];
    }
  }
  report.finalists = std::move(known->finalists);
  report.tie_threshold = known->tie_threshold;
  report.decided_before = true;
}

void rank_results(TuneReport& report) {
  const auto failures = std::stable_partition(
      report.results.begin(), report.results.end(),
      [](const VariantResult& result) { return result.state == ResultState::ok; });
  const auto times_us = comparable_times_us(report);
  const auto places = places_in_choice(report);
  std::stable_sort(report.results.begin(), failures,
                   [&](const VariantResult& a, const VariantResult& b) {
                     if (places.at(a.variant) != places.at(b.variant)) {
                       return places.at(a.variant) < places.at(b.variant);
                     }
                     const double a_us = times_us.at(a.variant);
                     const double b_us = times_us.at(b.variant);
                     return a_us != b_us ? a_us < b_us : is_better(report.problem, a, b);
                   });
  if (!report.finalists.empty() && report.choice.ranked.empty()) {
    const Variant& decided = report.finalists.front().result.variant;
    const auto winner = std::find_if(report.results.begin(), failures,
                                     [&](const auto& result) { return result.variant == decided; });
    if (winner != failures) {
      std::rotate(report.results.begin(), winner, winner + 1);
    }
  }
}

void hold_finals(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                 Store& store, const TuneOptions& options, RowIds& row_ids) {
  const PhaseTimer timer(report.times.finals_s);
  const auto chosen = choose_finalists(
      report.results, default_variant(report.problem, report.device), *options.finals);
  FinalsOutcome outcome = run_finals(report.problem, evaluator, kernels, chosen, *options.finals);
  report.undecided_because = std::move(outcome.undecided_because);
  if (outcome.finalists.empty()) {
    return;
  }
  const std::vector<long long> finalist_ids =
      store.record_decision(options.run_id, report.problem, report.device, outcome.finalists,
                            options.finals->tie_threshold);
  for (std::size_t i = 0; i < finalist_ids.size(); ++i) {
    row_ids[outcome.finalists[i].result.variant] = finalist_ids[i];
  }
  for (const Finalist& finalist : outcome.finalists) {
    const auto screened = std::find_if(
        report.results.begin(), report.results.end(),
        [&](const VariantResult& result) { return result.variant == finalist.result.variant; });
    report.screening_us[finalist.result.variant] = screened->time_us();
    *screened = finalist.result;
  }
  report.finalists = std::move(outcome.finalists);
  report.tie_threshold = options.finals->tie_threshold;
}

void prefer_robust(TuneReport& report, Store& store, const TuneOptions& options) {
  report.robust = choose_robust(report.results);
  if (report.robust) {
    const auto robust = report.results.begin() + static_cast<std::ptrdiff_t>(report.robust->place);
    std::rotate(report.results.begin(), robust, robust + 1);
    report.robust->place = 0;
  }
  const VariantResult* const best = report.best();
  const auto other =
      best == nullptr ? std::nullopt : store.exact(report.problem, report.device, options.setting);
  if (!other || other->result.provenance() != Provenance::predicted ||
      other->result.variant == best->variant) {
    return;
  }
  // The store answers with it unless the other is faster by more than a tie.
  const double ratio = other->result.time_us() / best->time_us();
  store.record_decision(
      options.run_id, report.problem, report.device,
      std::vector<Finalist>{
          {.result = *best, .tied = true},
          {.result = other->result, .ratio = ratio, .ratio_low = ratio, .ratio_high = ratio}},
      kModelTie);
}

std::map<Variant, double> comparable_times_us(const TuneReport& report) {
  std::map<Variant, double> times_us;
  for (const VariantResult& result : report.results) {
    times_us[result.variant] = result.time_us();
  }
  if (report.finalists.empty()) {
    return times_us;
  }
  const VariantResult& winner = report.finalists.front().result;
  const auto screened = report.screening_us.find(winner.variant);
  const double winner_us =
      screened != report.screening_us.end() ? screened->second : winner.time_us();
  for (const Finalist& finalist : report.finalists) {
    times_us[finalist.result.variant] = finalist.ratio * winner_us;
  }
  return times_us;
}

namespace {

/// Places among the results whose accesses are worth counting: the best, and a few finalists in
/// their order while their launches together take less than beginning a pass over them does.
/// Those that were tried before are left out. Requires: the report is ranked.
std::vector<std::size_t> uncounted_accesses(const TuneReport& report) {
  constexpr std::size_t kMost = 8;
  constexpr double kLaunchesUs = 20e3;
  std::vector<std::size_t> places;
  std::size_t chosen = 0;
  double launches_us = 0.0;
  for (std::size_t place = 0; place < report.results.size() && chosen < kMost; ++place) {
    const VariantResult& result = report.results[place];
    const Measurement* measurement = result.measurement();
    if (measurement == nullptr || result.state != ResultState::ok) {
      continue;
    }
    const bool is_cheap = measurement->sampling == Sampling::finals &&
                          launches_us + measurement->median_us < kLaunchesUs;
    if (&result != report.best() && !is_cheap) {
      continue;
    }
    ++chosen;
    launches_us += measurement->median_us;
    if (!measurement->accesses && measurement->accesses_missing_because.empty()) {
      places.push_back(place);
    }
  }
  return places;
}

/// Whatever fails becomes the reason why nothing is known: what has been decided stands without.
std::vector<AccessReading> try_count_accesses(const TuneReport& report, Evaluator& evaluator,
                                              const KernelSource& kernels,
                                              const std::vector<std::size_t>& places) {
  try {
    std::vector<CompiledKernel> ready;
    std::vector<Contender> contenders;
    ready.reserve(places.size());
    for (const std::size_t place : places) {
      const Variant& variant = report.results[place].variant;
      ready.push_back(kernels(variant));
      contenders.push_back({variant, &ready.back()});
    }
    return evaluator.count_accesses(report.problem, contenders);
  } catch (const Error& error) {
    return {places.size(),
            AccessReading{std::nullopt, std::string("counting failed: ") + error.what()}};
  }
}

}  // namespace

void count_accesses_of_best(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                            Store& store, const RowIds& row_ids) {
  const std::vector<std::size_t> places = uncounted_accesses(report);
  if (places.empty()) {
    return;
  }
  const PhaseTimer timer(report.times.count_s);
  std::vector<AccessReading> readings = try_count_accesses(report, evaluator, kernels, places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    VariantResult& result = report.results[places[i]];
    Measurement& measurement = std::get<Measurement>(result.outcome);
    measurement.accesses = readings[i].accesses;
    measurement.accesses_missing_because = std::move(readings[i].missing_because);
    store.record_accesses(row_ids.at(result.variant), measurement);
  }
}

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

namespace {

constexpr std::string_view kNotCountedYet = "not counted yet";

}  // namespace

void CounterBacklog::mark(Measurement& measurement) {
  measurement.counters_missing_because = kNotCountedYet;
}

bool CounterBacklog::lacks(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr && result.state == ResultState::ok &&
         measurement->counters_missing_because == kNotCountedYet;
}

void CounterBacklog::add(std::size_t place, long long row_id,
                         std::shared_ptr<const CompiledKernel> kernel) {
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kCountEvery{20};
  if (uncounted_.empty()) {
    waiting_since_ = steady_clock::now();
  }
  uncounted_.push_back({place, row_id, std::move(kernel)});
  if (steady_clock::now() - waiting_since_ >= kCountEvery) {
    count();
  }
}

void CounterBacklog::count() {
  const PhaseTimer timer(report_.times.count_s);
  const std::vector<Uncounted> waiting = std::exchange(uncounted_, {});
  std::vector<Contender> contenders;
  for (const Uncounted& one : waiting) {
    contenders.push_back({report_.results[one.place].variant, one.kernel.get()});
  }
  if (contenders.empty()) {
    return;
  }
  progress_.phase("counting L2 misses of " + std::to_string(contenders.size()) + " variants");
  std::vector<CounterReading> readings = evaluator_.count(report_.problem, contenders);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    Measurement& measurement = std::get<Measurement>(report_.results[waiting[i].place].outcome);
    measurement.counters = readings[i].counters;
    measurement.counters_missing_because = std::move(readings[i].missing_because);
  }
  record(waiting);
}

void CounterBacklog::record(const std::vector<Uncounted>& counted) {
  const PhaseTimer timer(report_.times.record_s);
  for (const Uncounted& one : counted) {
    store_.record_counters(one.row_id, *report_.results[one.place].measurement());
  }
}

}  // namespace swr
