// SPDX-License-Identifier: MIT
#include "tuner/run/finals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace swr {

std::vector<std::size_t> with_fewest_misses(const Problem& problem,
                                            std::span<const VariantResult> results,
                                            std::vector<std::size_t> tied) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  constexpr double kGapFactor = 1.5;
  const double least_gap = static_cast<double>(compulsory_sectors(problem)) / 4;
  const auto excess = [&](std::size_t place) {
    const auto sectors = excess_miss_sectors(problem, results[place]);
    return sectors ? static_cast<double>(*sectors) : kUnknown;
  };
  std::ranges::stable_sort(tied, {}, excess);
  for (std::size_t i = 1; i < tied.size(); ++i) {
    if (excess(tied[i]) > kGapFactor * excess(tied[i - 1]) + least_gap) {
      tied.resize(i);
    }
  }
  return tied;
}

std::size_t first_of_tied(const Problem& problem, std::span<const VariantResult> results,
                          const std::vector<std::size_t>& tied) {
  const auto best = with_fewest_misses(problem, results, tied);
  return *std::ranges::min_element(best, {}, [&](std::size_t place) {
    return std::pair(results[place].resources.registers_per_thread, to_key(results[place].variant));
  });
}

namespace {

using Places = std::vector<std::size_t>;

/// Races after which it is enough that the winner is behind nobody by more than a tie: who of the
/// tied wins may then differ from run to run.
constexpr int kEnoughRaces = 16;

/// Stands for the time of who was not in a race.
constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

/// What the screening knows of a median: its samples' interval, or the median alone without any.
Interval screened(const VariantResult& result) {
  const Measurement& measurement = *result.measurement();
  if (measurement.samples_us.empty()) {
    return {measurement.median_us, measurement.median_us};
  }
  return screening_interval(measurement.samples_us);
}

/// The times of two in the races that both took part in; at least one.
std::pair<std::vector<double>, std::vector<double>> shared_races(const RaceTimes& races,
                                                                 std::size_t one,
                                                                 std::size_t other) {
  std::pair<std::vector<double>, std::vector<double>> shared;
  for (std::size_t race = 0; race < races[one].size(); ++race) {
    if (!std::isnan(races[one][race]) && !std::isnan(races[other][race])) {
      shared.first.push_back(races[one][race]);
      shared.second.push_back(races[other][race]);
    }
  }
  return shared;
}

std::vector<RatioEstimate> ratios_to(const RaceTimes& races, std::size_t reference) {
  std::vector<RatioEstimate> ratios;
  for (std::size_t place = 0; place < races.size(); ++place) {
    const auto [times, references] = shared_races(races, place, reference);
    ratios.push_back(paired_ratio(times, references));
  }
  return ratios;
}

/// Where the ratio lies beyond doubt.
Interval certain_ratio(const RaceTimes& races, std::size_t place, std::size_t reference,
                       double confidence) {
  const auto [times, references] = shared_races(races, place, reference);
  return ratio_interval(times, references, confidence);
}

/// The smallest mean of those that took part in most races: as long as there is doubt, whoever may
/// be the fastest does in all.
std::size_t fastest(const RaceTimes& races) {
  std::vector<std::pair<std::ptrdiff_t, double>> order;
  for (const std::vector<double>& times : races) {
    std::ptrdiff_t count = 0;
    double total = 0.0;
    for (const double time : times) {
      count += std::isnan(time) ? 0 : 1;
      total += std::isnan(time) ? 0.0 : time;
    }
    order.emplace_back(-count, total / static_cast<double>(count));
  }
  return static_cast<std::size_t>(std::ranges::min_element(order) - order.begin());
}

bool is_tied(const RatioEstimate& estimate, const FinalsOptions& options) {
  return estimate.ratio < 1.0 + options.tie_threshold;
}

/// Those that are tied by the races, without those `slower` holds: what was clear when somebody
/// left stays so, because a fastest that changes only becomes faster.
Places tied_places(const std::vector<RatioEstimate>& ratios, const std::set<std::size_t>& slower,
                   const FinalsOptions& options) {
  Places tied;
  for (std::size_t place = 0; place < ratios.size(); ++place) {
    if (!slower.contains(place) && is_tied(ratios[place], options)) {
      tied.push_back(place);
    }
  }
  return tied;
}

/// The races of all finalists, and who still takes part in them.
class SharedRaces {
 public:
  SharedRaces(const Problem& problem, Evaluator& evaluator, std::vector<Contender> contenders,
              const FinalsOptions& options)
      : problem_(problem),
        evaluator_(evaluator),
        contenders_(std::move(contenders)),
        options_(options),
        seed_(options.seed),
        times_us_(contenders_.size()) {
    outcome_.samples_us.resize(contenders_.size());
    for (std::size_t place = 0; place < contenders_.size(); ++place) {
      active_.push_back(place);
    }
  }

  /// One race of those that still take part.
  void race() {
    std::vector<Contender> racing;
    for (const std::size_t place : active_) {
      racing.push_back(contenders_[place]);
    }
    RaceResult race =
        evaluator_.race(problem_, racing, {.rounds = options_.rounds_per_race, .seed = seed_++});
    ++races_;
    for (std::vector<double>& times_us : times_us_) {
      times_us.push_back(kAbsent);
    }
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const std::vector<double>& samples_us = race.samples_us[i];
      std::vector<double>& all_us = outcome_.samples_us[active_[i]];
      all_us.insert(all_us.end(), samples_us.begin(), samples_us.end());
      times_us_[active_[i]].back() = capped_mean(samples_us);
      spent_us_ += cost_us(samples_us);
    }
    outcome_.before = races_ == 1 ? race.before : outcome_.before;
    outcome_.after = race.after;
    outcome_.degraded_because = std::move(race.degraded_because);
  }

  /// Races until there are so many, as far as they may go on; two at least on a GPU that is well,
  /// because one tells nothing of how far races differ.
  void race_until(int races) {
    const auto is_needed = [this] { return races_ < 2 && outcome_.degraded_because.empty(); };
    while (races_ < races && (is_needed() || may_go_on())) {
      race();
    }
  }

  /// The others do not take part until they are chosen again.
  void choose(Places places) { active_ = std::move(places); }
  const Places& active() const { return active_; }
  void note_slower(std::size_t place) { slower_.insert(place); }

  bool may_go_on() const {
    return outcome_.degraded_because.empty() &&
           races_ * options_.rounds_per_race < options_.most_rounds &&
           spent_us_ < options_.budget_us;
  }

  const RaceResult& outcome() const { return outcome_; }
  const RaceTimes& times_us() const { return times_us_; }
  /// Those that were beyond doubt slower than tied.
  const std::set<std::size_t>& slower() const { return slower_; }
  int races() const { return races_; }

 private:
  /// Before a sample goes an untimed launch, or a whole untimed sample where it is replayed. A race
  /// begins with one more sample and with warm-up launches; for long kernels with two launches.
  static double cost_us(const std::vector<double>& samples_us) {
    constexpr double kWarmups = 4.0;
    const double launch_us = capped_mean(samples_us);
    if (launch_us >= kWarmUs) {
      const double launches = launch_us >= kLongUs ? 1.0 : 2.0;
      return (2.0 + launches * static_cast<double>(samples_us.size())) * launch_us;
    }
    const double untimed_us = is_replayed(launches_per_sample(launch_us)) ? kSampleUs : launch_us;
    const double sample_us = std::max(kSampleUs, launch_us) + untimed_us;
    return static_cast<double>(samples_us.size()) * sample_us + sample_us + kWarmups * launch_us;
  }

  const Problem& problem_;
  Evaluator& evaluator_;
  std::vector<Contender> contenders_;
  const FinalsOptions& options_;
  unsigned long long seed_;
  Places active_;
  RaceResult outcome_;
  RaceTimes times_us_;
  std::set<std::size_t> slower_;
  int races_ = 0;
  double spent_us_ = 0.0;
};

/// The ratio of each to the fastest, beyond doubt; notes who is slower than tied.
std::vector<Interval> certain_ratios(SharedRaces& shared, const FinalsOptions& options) {
  const RaceTimes& races = shared.times_us();
  const std::size_t reference = fastest(races);
  std::vector<Interval> ratios;
  for (std::size_t place = 0; place < races.size(); ++place) {
    ratios.push_back(certain_ratio(races, place, reference, options.confidence));
    if (ratios.back().low >= 1.0 + options.tie_threshold) {
      shared.note_slower(place);
    }
  }
  return ratios;
}

Places clearly_tied(const std::vector<Interval>& ratios, const SharedRaces& shared,
                    const FinalsOptions& options) {
  Places tied;
  for (std::size_t place = 0; place < ratios.size(); ++place) {
    if (!shared.slower().contains(place) && ratios[place].high < 1.0 + options.tie_threshold) {
      tied.push_back(place);
    }
  }
  return tied;
}

/// Those of which more races may change the winner: who would win if it were tied, which is not
/// clear yet; whoever may be the fastest, to which all are compared; and the winner so far. Empty
/// when the winner is clear.
Places in_doubt(const Problem& problem, std::span<const VariantResult> results, SharedRaces& shared,
                const FinalsOptions& options) {
  const std::vector<Interval> ratios = certain_ratios(shared, options);
  const Places tied = clearly_tied(ratios, shared, options);
  const std::size_t winner = first_of_tied(problem, results, tied);
  const auto is_unclear = [&](std::size_t place) {
    Places with_it = tied;
    with_it.push_back(place);
    return !shared.slower().contains(place) && ratios[place].high >= 1.0 + options.tie_threshold &&
           first_of_tied(problem, results, with_it) != winner;
  };
  bool is_decided = true;
  Places kept;
  for (std::size_t place = 0; place < ratios.size(); ++place) {
    const bool doubtful = is_unclear(place);
    is_decided = is_decided && !doubtful;
    const bool may_be_fastest = ratios[place].low <= 1.0 && !shared.slower().contains(place);
    if (doubtful || place == winner || may_be_fastest) {
      kept.push_back(place);
    }
  }
  return is_decided ? Places{} : kept;
}

/// Whether beyond doubt nobody is faster than who would win now by more than a tie.
bool is_good_enough(const Problem& problem, std::span<const VariantResult> results,
                    const SharedRaces& shared, const FinalsOptions& options) {
  const RaceTimes& races = shared.times_us();
  const std::size_t reference = fastest(races);
  Places open;
  Places tied;
  for (std::size_t place = 0; place < races.size(); ++place) {
    if (!shared.slower().contains(place)) {
      const Interval ratio = certain_ratio(races, place, reference, options.confidence);
      open.push_back(place);
      if ((ratio.low + ratio.high) / 2 < 1.0 + options.tie_threshold) {
        tied.push_back(place);
      }
    }
  }
  const std::size_t winner = first_of_tied(problem, results, tied);
  return std::ranges::all_of(open, [&](std::size_t place) {
    const Interval ratio = certain_ratio(races, place, winner, options.confidence);
    return ratio.low * (1.0 + options.tie_threshold) >= 1.0;
  });
}

/// So many tell by their scatter what two races of one do not; fewer cost little.
constexpr std::size_t kFewestOfField = 8;

/// Who by two and by four races is beyond doubt slower than tied leaves: of most of a field so many
/// tell. Their scatter is told by all.
void drop_clearly_slower(SharedRaces& shared, const FinalsOptions& options) {
  const RaceTimes& races = shared.times_us();
  const std::size_t reference = fastest(races);
  const auto scatter = [&](std::size_t place) {
    const auto [times, references] = shared_races(races, place, reference);
    return Scatter{scatter_of_pairs(times, references), static_cast<double>(times.size()) - 1.0};
  };
  Scatter all;
  for (const std::size_t place : shared.active()) {
    if (place != reference) {
      const Scatter own = scatter(place);
      all = {all.squares + own.squares, all.freedom + own.freedom};
    }
  }
  Places left;
  for (const std::size_t place : shared.active()) {
    if (place == reference) {
      left.push_back(place);
      continue;
    }
    const Scatter own = scatter(place);
    const auto [times, references] = shared_races(races, place, reference);
    const Interval ratio = moderated_ratio_interval(
        times, references, {all.squares - own.squares, all.freedom - own.freedom},
        options.confidence);
    if (ratio.low >= 1.0 + options.tie_threshold) {
      shared.note_slower(place);
    } else {
      left.push_back(place);
    }
  }
  shared.choose(std::move(left));
}

/// Races until nothing is in doubt, looking each time their number has doubled: every look is a
/// chance to err.
void run_races(const Problem& problem, std::span<const VariantResult> finalists,
               SharedRaces& shared, const FinalsOptions& options) {
  const bool is_field = shared.active().size() >= kFewestOfField;
  for (int races = 2; is_field && races < options.first_races; races *= 2) {
    shared.race_until(races);
    if (!shared.outcome().degraded_because.empty()) {
      return;
    }
    drop_clearly_slower(shared, options);
    if (shared.active().size() == 1) {
      return;
    }
  }
  shared.race_until(options.first_races);
  while (shared.may_go_on()) {
    Places doubtful = in_doubt(problem, finalists, shared, options);
    const bool may_end =
        shared.races() >= kEnoughRaces && is_good_enough(problem, finalists, shared, options);
    if (doubtful.empty() || may_end) {
      return;
    }
    shared.choose(std::move(doubtful));
    shared.race_until(2 * shared.races());
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

std::vector<Finalist> decide(const Problem& problem, std::span<const VariantResult> results,
                             const SharedRaces& shared, const FinalsOptions& options) {
  const RaceResult& race = shared.outcome();
  const RaceTimes& races = shared.times_us();
  const std::size_t reference = fastest(races);
  const auto to_fastest = ratios_to(races, reference);
  const Places tied = tied_places(to_fastest, shared.slower(), options);
  const std::size_t winner = first_of_tied(problem, results, tied);
  const auto to_winner = winner == reference ? to_fastest : ratios_to(races, winner);
  std::vector<Finalist> finalists;
  for (std::size_t i = 0; i < results.size(); ++i) {
    finalists.push_back({.result = with_rounds(results[i], race, race.samples_us[i]),
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

/// To take a kernel through warm-up costs as much as a round of a long one, so that more places
/// tell more of it than more rounds.
FinalsOptions fitted(FinalsOptions options, double fastest_us) {
  if (fastest_us >= kWarmUs) {
    options.rounds_per_race = std::max(1, options.rounds_per_race / 2);
    options.most_rounds = std::max(1, options.most_rounds / 2);
  }
  return options;
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

/// Those that race without a failure; none where the GPU itself fails.
std::vector<VariantResult> racing_alone(const Problem& problem, Evaluator& evaluator,
                                        std::span<const Contender> contenders,
                                        std::span<const VariantResult> finalists) {
  std::vector<VariantResult> sound;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    try {
      evaluator.race(problem, contenders.subspan(i, 1), {});
      sound.push_back(finalists[i]);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::driver_failed) {
        throw;
      }
    }
  }
  return sound;
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

std::size_t choose_winner(const Problem& problem, std::span<const VariantResult> results,
                          const RaceTimes& times_us, const FinalsOptions& options) {
  const auto ratios = ratios_to(times_us, fastest(times_us));
  return first_of_tied(problem, results, tied_places(ratios, {}, options));
}

FinalsOutcome run_finals(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                         std::span<const VariantResult> finalists, const FinalsOptions& wanted) {
  if (finalists.size() < 2) {
    return {{}, "fewer than two variants to compare"};
  }
  const FinalsOptions options = fitted(wanted, finalists.front().time_us());
  std::vector<Variant> variants;
  std::ranges::transform(finalists, std::back_inserter(variants), &VariantResult::variant);
  const std::vector<CompiledKernel> ready = compiled(kernels, variants);
  SharedRaces shared(problem, evaluator, contenders_of(variants, ready), options);
  try {
    run_races(problem, finalists, shared, options);
  } catch (const Error&) {  // A finalist that ends the process every time ends no run.
    const auto sound = racing_alone(problem, evaluator, contenders_of(variants, ready), finalists);
    if (sound.empty() || sound.size() == finalists.size()) {
      throw;
    }
    return run_finals(problem, evaluator, kernels, sound, wanted);
  }
  if (!shared.outcome().degraded_because.empty()) {
    return {{}, shared.outcome().degraded_because};
  }
  return {decide(problem, finalists, shared, options), {}};
}

std::vector<double> slowdowns_in_rounds(const Problem& problem, Evaluator& evaluator,
                                        const KernelSource& kernels,
                                        std::span<const Variant> variants, int races,
                                        const FinalsOptions& options) {
  const std::vector<CompiledKernel> ready = compiled(kernels, variants);
  SharedRaces shared(problem, evaluator, contenders_of(variants, ready), options);
  shared.race_until(races);
  if (!shared.outcome().degraded_because.empty()) {
    return {};
  }
  std::vector<double> slowdowns;
  const RaceTimes& times_us = shared.times_us();
  for (const RatioEstimate& estimate : ratios_to(times_us, fastest(times_us))) {
    slowdowns.push_back(std::max(0.0, estimate.ratio - 1.0));
  }
  return slowdowns;
}

}  // namespace swr
