// SPDX-License-Identifier: MIT
#include "tuner/finals.h"

#include "tuner/measure/statistics.h"
#include "tuner/tie_order.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace swr {
namespace {

using Places = std::vector<std::size_t>;

/// What the screening knows of a median: its samples' interval, or the median alone without any.
Interval screened(const VariantResult& result) {
  constexpr double kConfidence = 0.95;
  const Measurement& measurement = *result.measurement();
  if (measurement.samples_us.empty()) {
    return {measurement.median_us, measurement.median_us};
  }
  return median_interval(measurement.samples_us, kConfidence);
}

/// The samples of one and of another in the rounds that both took part in.
std::pair<std::span<const double>, std::span<const double>> shared_samples(const Rounds& rounds,
                                                                           std::size_t one,
                                                                           std::size_t other) {
  const std::size_t shared = std::min(rounds[one].size(), rounds[other].size());
  return {std::span(rounds[one]).first(shared), std::span(rounds[other]).first(shared)};
}

std::vector<RatioEstimate> ratios_to(const Rounds& rounds, std::size_t reference) {
  std::vector<RatioEstimate> ratios;
  for (std::size_t place = 0; place < rounds.size(); ++place) {
    const auto [times, references] = shared_samples(rounds, place, reference);
    ratios.push_back(paired_ratio(times, references));
  }
  return ratios;
}

/// Where the ratio lies beyond doubt. Not by bootstrap, whose interval of few rounds is too narrow.
Interval certain_ratio(const Rounds& rounds, std::size_t place, std::size_t reference,
                       double confidence) {
  const auto [times, references] = shared_samples(rounds, place, reference);
  std::vector<double> ratios;
  for (std::size_t round = 0; round < times.size(); ++round) {
    ratios.push_back(times[round] / references[round]);
  }
  return median_interval(ratios, confidence);
}

/// The smallest median of those that stayed to the end.
std::size_t fastest(const Rounds& rounds) {
  const std::size_t most = std::ranges::max(rounds, {}, &std::vector<double>::size).size();
  std::size_t best = rounds.size();
  double best_us = 0.0;
  for (std::size_t place = 0; place < rounds.size(); ++place) {
    if (rounds[place].size() < most) {
      continue;
    }
    const double median_us = median(rounds[place]);
    if (best == rounds.size() || median_us < best_us) {
      best = place;
      best_us = median_us;
    }
  }
  return best;
}

bool is_tied(const RatioEstimate& estimate, const FinalsOptions& options) {
  return estimate.interval.low <= 1.0 || estimate.ratio < 1.0 + options.tie_threshold;
}

/// Whether those that left were tied; nothing for those that stayed, or left undecided.
using Verdicts = std::vector<std::optional<bool>>;

/// A verdict stands, also when somebody else turns out to be the fastest.
Places tied_places(const std::vector<RatioEstimate>& ratios, const Verdicts& verdicts,
                   const FinalsOptions& options) {
  Places tied;
  for (std::size_t place = 0; place < ratios.size(); ++place) {
    if (verdicts[place].value_or(is_tied(ratios[place], options))) {
      tied.push_back(place);
    }
  }
  return tied;
}

/// The rounds of all finalists, and who still takes part in them.
class SharedRounds {
 public:
  SharedRounds(const AttentionProblem& problem, Evaluator& evaluator,
               std::vector<Contender> contenders, const FinalsOptions& options)
      : problem_(problem),
        evaluator_(evaluator),
        contenders_(std::move(contenders)),
        options_(options),
        seed_(options.seed) {
    outcome_.samples_us.resize(contenders_.size());
    verdicts_.resize(contenders_.size());
    for (std::size_t place = 0; place < contenders_.size(); ++place) {
      active_.push_back(place);
    }
  }

  /// One race of those that still take part.
  void race(int rounds) {
    std::vector<Contender> racing;
    for (const std::size_t place : active_) {
      racing.push_back(contenders_[place]);
    }
    RaceResult race = evaluator_.race(problem_, racing, {.rounds = rounds, .seed = seed_++});
    for (std::size_t i = 0; i < active_.size(); ++i) {
      std::vector<double>& samples_us = outcome_.samples_us[active_[i]];
      for (const double sample_us : race.samples_us[i]) {
        samples_us.push_back(sample_us);
        spent_us_ += cost_us(sample_us);
      }
    }
    outcome_.before = rounds_ == 0 ? race.before : outcome_.before;
    outcome_.after = race.after;
    outcome_.degraded_because = std::move(race.degraded_because);
    rounds_ += rounds;
  }

  /// The others leave, with what is clear about them by now.
  void keep(Places places, const Verdicts& clear) {
    for (const std::size_t place : active_) {
      if (std::ranges::find(places, place) == places.end()) {
        verdicts_[place] = clear[place];
      }
    }
    active_ = std::move(places);
  }

  bool may_go_on() const {
    return outcome_.degraded_because.empty() && rounds_ < options_.most_rounds &&
           spent_us_ < options_.budget_us;
  }

  const RaceResult& outcome() const { return outcome_; }
  const Verdicts& verdicts() const { return verdicts_; }
  int rounds() const { return rounds_; }

 private:
  /// An untimed launch goes before each sample, and a sample spans 200 microseconds at least.
  static double cost_us(double sample_us) { return std::max(200.0, sample_us) + sample_us; }

  const AttentionProblem& problem_;
  Evaluator& evaluator_;
  std::vector<Contender> contenders_;
  const FinalsOptions& options_;
  unsigned long long seed_;
  Places active_;
  RaceResult outcome_;
  Verdicts verdicts_;
  int rounds_ = 0;
  double spent_us_ = 0.0;
};

/// What the rounds so far say.
struct Look {
  std::vector<Interval> ratios;  ///< To the fastest, beyond doubt.
  Verdicts clear;
  /// Those of which more rounds may change the winner: who would win if it were tied, which is not
  /// clear yet, and whoever may be the fastest, to which all are compared. Empty when the winner
  /// is clear.
  Places in_doubt;
};

Look look_at(const AttentionProblem& problem, std::span<const VariantResult> results,
             const SharedRounds& shared, const FinalsOptions& options) {
  const double threshold = 1.0 + options.tie_threshold;
  const Rounds& rounds = shared.outcome().samples_us;
  const std::size_t reference = fastest(rounds);
  Look look{.ratios = {}, .clear = shared.verdicts(), .in_doubt = {}};
  Places clearly_tied;
  for (std::size_t place = 0; place < rounds.size(); ++place) {
    const Interval& ratio =
        look.ratios.emplace_back(certain_ratio(rounds, place, reference, options.confidence));
    const bool takes_part = rounds[place].size() == rounds[reference].size();
    if (takes_part && (ratio.high < threshold || ratio.low >= threshold)) {
      look.clear[place] = ratio.high < threshold;
    }
    if (look.clear[place].value_or(false)) {
      clearly_tied.push_back(place);
    }
  }
  const std::size_t winner = first_of_tied(problem, results, clearly_tied);
  bool is_decided = true;
  for (std::size_t place = 0; place < rounds.size(); ++place) {
    if (rounds[place].size() < rounds[reference].size()) {
      continue;
    }
    Places with_it = clearly_tied;
    with_it.push_back(place);
    const bool is_unclear =
        !look.clear[place] && first_of_tied(problem, results, with_it) != winner;
    is_decided = is_decided && !is_unclear;
    if (is_unclear || look.ratios[place].low <= 1.0) {
      look.in_doubt.push_back(place);
    }
  }
  if (is_decided) {
    look.in_doubt.clear();
  }
  return look;
}

/// Takes rounds until nothing is in doubt, looking after 1, 2, 4, ... races: every look is a
/// chance to err.
void run_rounds(const AttentionProblem& problem, std::span<const VariantResult> finalists,
                SharedRounds& shared, const FinalsOptions& options) {
  shared.race(options.rounds_per_race);
  while (shared.may_go_on()) {
    Look look = look_at(problem, finalists, shared, options);
    if (look.in_doubt.empty()) {
      return;
    }
    shared.keep(std::move(look.in_doubt), look.clear);
    const int until = 2 * shared.rounds();
    while (shared.rounds() < until && shared.may_go_on()) {
      shared.race(options.rounds_per_race);
    }
  }
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
                             std::span<const VariantResult> results, const SharedRounds& shared,
                             const FinalsOptions& options) {
  const RaceResult& race = shared.outcome();
  const Rounds& rounds = race.samples_us;
  const std::size_t reference = fastest(rounds);
  const auto to_fastest = ratios_to(rounds, reference);
  const Places tied = tied_places(to_fastest, shared.verdicts(), options);
  const std::size_t winner = first_of_tied(problem, results, tied);
  const auto to_winner = winner == reference ? to_fastest : ratios_to(rounds, winner);
  std::vector<Finalist> finalists;
  for (std::size_t i = 0; i < results.size(); ++i) {
    finalists.push_back({.result = with_rounds(results[i], race, rounds[i]),
                         .ratio = to_winner[i].ratio,
                         .ratio_low = to_winner[i].interval.low,
                         .ratio_high = to_winner[i].interval.high,
                         .tied = std::ranges::find(tied, i) != tied.end()});
  }
  std::swap(finalists.front(), finalists[winner]);
  std::stable_sort(finalists.begin() + 1, finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.ratio < b.ratio; });
  return finalists;
}

std::vector<CompiledKernel> compiled(const KernelSource& kernels,
                                     std::span<const Variant> variants) {
  std::vector<CompiledKernel> all;
  std::ranges::transform(variants, std::back_inserter(all), kernels);
  return all;
}

std::vector<Contender> contenders_of(std::span<const Variant> variants,
                                     const std::vector<CompiledKernel>& kernels) {
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    contenders.push_back({variants[i], &kernels[i]});
  }
  return contenders;
}

}  // namespace

std::vector<VariantResult> choose_finalists(std::span<const VariantResult> results,
                                            const Variant& default_variant,
                                            const FinalsOptions& options) {
  std::vector<VariantResult> chosen;
  std::ranges::copy_if(results, std::back_inserter(chosen), [](const VariantResult& result) {
    return result.state == ResultState::ok && result.measurement() != nullptr;
  });
  std::ranges::stable_sort(chosen, {}, &VariantResult::time_us);
  if (chosen.empty()) {
    return chosen;
  }
  const double slowest_us = screened(chosen.front()).high * (1.0 + options.drift);
  std::size_t taken = 0;
  std::erase_if(chosen, [&](const VariantResult& result) {
    const bool may_win = taken < options.most_finalists && screened(result).low <= slowest_us;
    taken += may_win ? 1 : 0;
    return !may_win && result.variant != default_variant;
  });
  return chosen;
}

std::size_t choose_winner(const AttentionProblem& problem, std::span<const VariantResult> results,
                          const Rounds& samples_us, const FinalsOptions& options) {
  const auto ratios = ratios_to(samples_us, fastest(samples_us));
  return first_of_tied(problem, results, tied_places(ratios, Verdicts(ratios.size()), options));
}

FinalsOutcome run_finals(const AttentionProblem& problem, Evaluator& evaluator,
                         const KernelSource& kernels, std::span<const VariantResult> finalists,
                         const FinalsOptions& options) {
  if (finalists.size() < 2) {
    return {{}, "fewer than two variants to compare"};
  }
  std::vector<Variant> variants;
  std::ranges::transform(finalists, std::back_inserter(variants), &VariantResult::variant);
  const std::vector<CompiledKernel> ready = compiled(kernels, variants);
  SharedRounds shared(problem, evaluator, contenders_of(variants, ready), options);
  run_rounds(problem, finalists, shared, options);
  if (!shared.outcome().degraded_because.empty()) {
    return {{}, shared.outcome().degraded_because};
  }
  return {decide(problem, finalists, shared, options), {}};
}

std::vector<double> slowdowns_in_rounds(const AttentionProblem& problem, Evaluator& evaluator,
                                        const KernelSource& kernels,
                                        std::span<const Variant> variants, int rounds,
                                        const FinalsOptions& options) {
  const std::vector<CompiledKernel> ready = compiled(kernels, variants);
  SharedRounds shared(problem, evaluator, contenders_of(variants, ready), options);
  while (shared.rounds() < rounds && shared.may_go_on()) {
    shared.race(options.rounds_per_race);
  }
  if (!shared.outcome().degraded_because.empty()) {
    return {};
  }
  const Rounds& samples_us = shared.outcome().samples_us;
  std::vector<double> slowdowns;
  for (const RatioEstimate& estimate : ratios_to(samples_us, fastest(samples_us))) {
    slowdowns.push_back(std::max(0.0, estimate.ratio - 1.0));
  }
  return slowdowns;
}

}  // namespace swr
