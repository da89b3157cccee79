// SPDX-License-Identifier: MIT
#include "db/problem_key.h"
#include "tuner/run/stages.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

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

}  // namespace swr
