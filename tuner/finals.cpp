// SPDX-License-Identifier: MIT
#include "tuner/finals.h"

#include "tuner/measure/statistics.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace swr {
namespace {

using Rounds = std::vector<std::vector<double>>;

/// The margin, or three times the uncertainty of the best median where that is more.
double margin_around(const VariantResult& best, const FinalsOptions& options) {
  constexpr double kConfidence = 0.95;
  const Measurement& measurement = *best.measurement();
  if (measurement.samples_us.empty()) {
    return options.margin;
  }
  const Interval interval = median_interval(measurement.samples_us, kConfidence);
  return std::max(options.margin, 3 * (interval.high - interval.low) / measurement.median_us);
}

std::vector<RatioEstimate> ratios_to(const Rounds& samples_us, std::size_t reference,
                                     const FinalsOptions& options) {
  std::vector<RatioEstimate> ratios;
  for (const std::vector<double>& samples : samples_us) {
    ratios.push_back(paired_ratio(samples, samples_us[reference], options.seed));
  }
  return ratios;
}

std::size_t smallest_median(const Rounds& samples_us) {
  std::vector<double> medians;
  for (const std::vector<double>& samples : samples_us) {
    medians.push_back(median(samples));
  }
  return static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) -
                                  medians.begin());
}

bool is_tied(const RatioEstimate& estimate, const FinalsOptions& options) {
  return estimate.interval.low <= 1.0 || estimate.ratio < 1.0 + options.matters;
}

bool is_settled(const RatioEstimate& estimate, const FinalsOptions& options) {
  const Interval& interval = estimate.interval;
  return interval.low > 1.0 + options.matters ||
         interval.high - interval.low <= options.interval_width;
}

/// Tied places, without those whose excess misses exceed the fewest by more than a tenth and more
/// than a twentieth of the compulsory sectors: counts of equal kernels differ by less. An unknown
/// count is left out where others are known.
std::vector<std::size_t> with_fewest_misses(const AttentionProblem& problem,
                                            std::span<const VariantResult> results,
                                            const std::vector<std::size_t>& tied) {
  constexpr long long kUnknown = std::numeric_limits<long long>::max();
  const auto excess = [&](std::size_t place) {
    return excess_miss_sectors(problem, results[place]).value_or(kUnknown);
  };
  long long fewest = kUnknown;
  for (const std::size_t place : tied) {
    fewest = std::min(fewest, excess(place));
  }
  if (fewest == kUnknown) {
    return tied;
  }
  const long long jitter = std::max(fewest / 10, compulsory_sectors(problem) / 20);
  std::vector<std::size_t> kept;
  std::copy_if(tied.begin(), tied.end(), std::back_inserter(kept),
               [&](std::size_t place) { return excess(place) <= fewest + jitter; });
  return kept;
}

/// Takes rounds until every comparison is settled.
RaceResult run_rounds(const AttentionProblem& problem, Evaluator& evaluator,
                      std::span<const Contender> contenders, const FinalsOptions& options) {
  RaceOptions step{.rounds = options.rounds_per_step, .seed = options.seed};
  RaceResult all = evaluator.race(problem, contenders, step);
  const auto is_undecided = [&] {
    const auto ratios = ratios_to(all.samples_us, smallest_median(all.samples_us), options);
    return !std::all_of(ratios.begin(), ratios.end(), [&](const RatioEstimate& estimate) {
      return is_settled(estimate, options);
    });
  };
  int rounds = step.rounds;
  while (all.degraded_because.empty() && rounds < options.most_rounds && is_undecided()) {
    ++step.seed;
    RaceResult more = evaluator.race(problem, contenders, step);
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      std::copy(more.samples_us[i].begin(), more.samples_us[i].end(),
                std::back_inserter(all.samples_us[i]));
    }
    all.degraded_because = std::move(more.degraded_because);
    all.after = more.after;
    rounds += step.rounds;
  }
  return all;
}

VariantResult with_rounds(VariantResult result, const RaceResult& race,
                          const std::vector<double>& samples_us) {
  Measurement& measurement = std::get<Measurement>(result.outcome);
  measurement.samples_us = samples_us;
  measurement.median_us = median(samples_us);
  measurement.p95_us = percentile(samples_us, 95.0);
  measurement.sampling = Sampling::finals;
  measurement.before = race.before;
  measurement.after = race.after;
  return result;
}

std::vector<Finalist> decide(const AttentionProblem& problem,
                             std::span<const VariantResult> results, const RaceResult& race,
                             const FinalsOptions& options) {
  const Rounds& samples_us = race.samples_us;
  const std::size_t winner = choose_winner(problem, results, samples_us, options);
  const auto to_fastest = ratios_to(samples_us, smallest_median(samples_us), options);
  const auto to_winner = ratios_to(samples_us, winner, options);
  std::vector<Finalist> finalists;
  for (std::size_t i = 0; i < results.size(); ++i) {
    finalists.push_back({.result = with_rounds(results[i], race, samples_us[i]),
                         .ratio = to_winner[i].ratio,
                         .ratio_low = to_winner[i].interval.low,
                         .ratio_high = to_winner[i].interval.high,
                         .tied = is_tied(to_fastest[i], options)});
  }
  std::swap(finalists.front(), finalists[winner]);
  std::stable_sort(finalists.begin() + 1, finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.ratio < b.ratio; });
  return finalists;
}

}  // namespace

std::vector<VariantResult> choose_finalists(std::span<const VariantResult> results,
                                            const Variant& default_variant,
                                            const FinalsOptions& options) {
  std::vector<VariantResult> chosen;
  std::copy_if(results.begin(), results.end(), std::back_inserter(chosen),
               [](const VariantResult& result) {
                 return result.state == ResultState::ok && result.measurement() != nullptr;
               });
  std::stable_sort(
      chosen.begin(), chosen.end(),
      [](const VariantResult& a, const VariantResult& b) { return a.time_us() < b.time_us(); });
  if (chosen.empty()) {
    return chosen;
  }
  const double slowest_us =
      chosen.front().time_us() * (1.0 + margin_around(chosen.front(), options));
  std::size_t place = 0;
  std::erase_if(chosen, [&](const VariantResult& result) {
    const bool is_fast = place++ < options.most_finalists && result.time_us() <= slowest_us;
    return !is_fast && result.variant != default_variant;
  });
  return chosen;
}

std::size_t choose_winner(const AttentionProblem& problem, std::span<const VariantResult> results,
                          const std::vector<std::vector<double>>& samples_us,
                          const FinalsOptions& options) {
  const auto ratios = ratios_to(samples_us, smallest_median(samples_us), options);
  std::vector<std::size_t> tied;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (is_tied(ratios[i], options)) {
      tied.push_back(i);
    }
  }
  const auto best = with_fewest_misses(problem, results, tied);
  return *std::min_element(best.begin(), best.end(), [&](std::size_t a, std::size_t b) {
    const auto order = [&](std::size_t place) {
      return std::tuple(results[place].resources.registers_per_thread,
                        to_key(results[place].variant));
    };
    return order(a) < order(b);
  });
}

FinalsOutcome run_finals(const AttentionProblem& problem, Evaluator& evaluator,
                         const KernelSource& kernels, std::span<const VariantResult> finalists,
                         const FinalsOptions& options) {
  if (finalists.size() < 2) {
    return {{}, "fewer than two variants to compare"};
  }
  std::vector<CompiledKernel> compiled;
  for (const VariantResult& finalist : finalists) {
    compiled.push_back(kernels(finalist.variant));
  }
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    contenders.push_back({finalists[i].variant, &compiled[i]});
  }
  const RaceResult race = run_rounds(problem, evaluator, contenders, options);
  if (!race.degraded_because.empty()) {
    return {{}, race.degraded_because};
  }
  return {decide(problem, finalists, race, options), {}};
}

}  // namespace swr
