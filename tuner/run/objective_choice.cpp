// SPDX-License-Identifier: MIT
#include "tuner/run/objective_choice.h"

#include "report/explain/analysis.h"
#include "tuner/statistics/statistics.h"
#include <swr/error.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace swr {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

template <typename Number>
double or_unknown(const std::optional<Number>& value) {
  return value ? static_cast<double>(*value) : kUnknown;
}

bool is_measured(const VariantResult& result) {
  return result.state == ResultState::ok && result.measurement() != nullptr;
}

/// How far the runs lie apart, as a share of their mean.
double spread(const std::vector<double>& runs) {
  const auto [low, high] = std::ranges::minmax(runs);
  return (high - low) * static_cast<double>(runs.size()) /
         std::accumulate(runs.begin(), runs.end(), 0.0);
}

/// The runs of one variant as they come.
struct EnergyRuns {
  std::size_t place = 0;
  CompiledKernel kernel;
  std::vector<double> samples_mj;
  std::vector<double> launch_us;
  std::string missing_because;

  void add(const PowerReading& reading) {
    constexpr double kMicrojoulesPerMillijoule = 1e3;
    if (!reading.power_w) {
      missing_because = reading.missing_because;
      return;
    }
    samples_mj.push_back(*reading.power_w * reading.launch_us / kMicrojoulesPerMillijoule);
    launch_us.push_back(reading.launch_us);
  }

  void store(VariantResult& result, double idle_power_w) const {
    Measurement& measurement = std::get<Measurement>(result.outcome);
    measurement.energy_missing_because = missing_because;
    if (missing_because.empty() && !samples_mj.empty()) {
      measurement.energy = Energy{
          .samples_mj = samples_mj, .launch_us = mean(launch_us), .idle_power_w = idle_power_w};
    }
  }

  static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
};

/// One run of each, in a drawn order.
void run_round(const Problem& problem, Evaluator& evaluator,
               const std::vector<VariantResult>& results, std::vector<EnergyRuns>& all,
               std::mt19937_64& random) {
  std::vector<EnergyRuns*> order;
  for (EnergyRuns& runs : all) {
    if (runs.missing_because.empty()) {
      order.push_back(&runs);
    }
  }
  std::ranges::shuffle(order, random);
  for (EnergyRuns* const runs : order) {
    const Contender contender{results[runs->place].variant, &runs->kernel};
    runs->add(evaluator.measure_power(problem, {&contender, 1}).front());
  }
}

bool are_repeatable(const std::vector<EnergyRuns>& all, const ObjectiveOptions& options) {
  return std::ranges::all_of(all, [&](const EnergyRuns& runs) {
    return !runs.missing_because.empty() || spread(runs.samples_mj) <= options.repeatability;
  });
}

/// A result with its value by an objective.
struct Valued {
  const VariantResult* result = nullptr;
  double time_us = 0.0;
  double value = 0.0;
};

std::vector<Valued> valued(const Objective& objective, const Problem& problem,
                           const DeviceInfo& device, std::span<const VariantResult> results,
                           const TimesByVariant& times_us) {
  constexpr int kMostFailures = 8;  // Each may take the most steps that an expression may.
  std::vector<Valued> all;
  std::optional<Error> failure;
  int failures = 0;
  for (const VariantResult& result : results) {
    if (!is_measured(result) || (all.empty() && failures == kMostFailures)) {
      continue;
    }
    try {
      const double time_us = times_us.at(result.variant);
      if (const auto value = objective.value(problem, device, result, time_us)) {
        all.push_back({&result, time_us, *value});
      }
    } catch (const Error& error) {
      ++failures;
      failure = error;
    }
  }
  if (all.empty() && failure) {
    throw Error(*failure);
  }
  return all;
}

/// By runs where both have them, else by the values alone.
RankedVariant ranked(const Valued& one, const Valued& best) {
  RankedVariant entry{.variant = one.result->variant,
                      .value = one.value,
                      .ratio = one.value / best.value,
                      .ratio_low = one.value / best.value,
                      .ratio_high = one.value / best.value};
  const auto& runs = one.result->measurement()->energy;
  const auto& best_runs = best.result->measurement()->energy;
  if (runs && best_runs && one.result != best.result) {
    const std::size_t count = std::min(runs->samples_mj.size(), best_runs->samples_mj.size());
    const RatioEstimate estimate = paired_ratio(std::span(runs->samples_mj).first(count),
                                                std::span(best_runs->samples_mj).first(count));
    entry.ratio_low = entry.ratio * estimate.interval.low / estimate.ratio;
    entry.ratio_high = entry.ratio * estimate.interval.high / estimate.ratio;
  }
  return entry;
}

}  // namespace

std::vector<std::size_t> choose_for_energy(std::span<const VariantResult> results,
                                           const TimesByVariant& times_us,
                                           const ObjectiveOptions& options) {
  const auto time_us = [&](std::size_t place) { return times_us.at(results[place].variant); };
  std::vector<std::size_t> within;
  for (std::size_t place = 0; place < results.size(); ++place) {
    if (is_measured(results[place])) {
      within.push_back(place);
    }
  }
  std::ranges::stable_sort(within, {}, time_us);
  std::erase_if(within,
                [&, fastest = within.empty() ? 0.0 : time_us(within.front())](std::size_t place) {
                  return time_us(place) > options.reach * fastest;
                });
  std::vector<std::size_t> of_dram = within;
  std::ranges::stable_sort(
      of_dram, {}, [&](std::size_t place) { return or_unknown(dram_bytes(results[place])); });
  std::vector<std::size_t> of_l2 = within;
  std::ranges::stable_sort(
      of_l2, {}, [&](std::size_t place) { return or_unknown(l2_sectors(results[place])); });
  const std::size_t most = std::min(options.most_measured, within.size());
  std::set<std::size_t> chosen(within.begin(),
                               within.begin() + static_cast<std::ptrdiff_t>((most + 1) / 2));
  for (std::size_t i = 0; chosen.size() < most; ++i) {
    chosen.insert(of_dram[i]);
    if (chosen.size() < most) {
      chosen.insert(of_l2[i]);
    }
  }
  std::erase_if(within, [&](std::size_t place) { return !chosen.contains(place); });
  return within;
}

void measure_energy(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                    std::vector<VariantResult>& results, std::span<const std::size_t> places,
                    double idle_power_w, const ObjectiveOptions& options,
                    const std::function<bool()>& stop) {
  std::vector<EnergyRuns> all;
  for (const std::size_t place : places) {
    all.push_back({.place = place, .kernel = kernels(results[place].variant)});
  }
  std::mt19937_64 random(options.seed);
  for (int run = 0; run < options.most_runs; ++run) {
    const bool is_enough = run >= options.first_runs && are_repeatable(all, options);
    if (is_enough || stop()) {
      break;
    }
    run_round(problem, evaluator, results, all, random);
  }
  for (const EnergyRuns& runs : all) {
    runs.store(results[runs.place], idle_power_w);
  }
}

std::vector<RankedVariant> rank_by(const Objective& objective, const Problem& problem,
                                   const DeviceInfo& device, std::span<const VariantResult> results,
                                   const TimesByVariant& times_us, double tie_threshold) {
  std::vector<Valued> all = valued(objective, problem, device, results, times_us);
  if (all.empty()) {
    return {};
  }
  std::ranges::stable_sort(all, {}, &Valued::value);
  const double smallest = all.front().value;
  const auto first_apart = std::ranges::find_if(
      all, [&](const Valued& one) { return one.value >= smallest * (1.0 + tie_threshold); });
  const auto winner =
      std::min_element(all.begin(), first_apart, [](const Valued& a, const Valued& b) {
        return std::pair(a.time_us, to_key(a.result->variant)) <
               std::pair(b.time_us, to_key(b.result->variant));
      });
  const auto tied = first_apart - all.begin();
  std::rotate(all.begin(), winner, winner + 1);
  std::vector<RankedVariant> order;
  for (const Valued& one : all) {
    order.push_back(ranked(one, all.front()));
    order.back().tied = std::ssize(order) <= tied;
  }
  return order;
}

std::vector<std::size_t> pareto_front(std::span<const std::pair<double, double>> points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t place) { return points[place]; });
  std::vector<std::size_t> front;
  double least = kUnknown;
  for (const std::size_t place : order) {
    if (points[place].second < least) {
      least = points[place].second;
      front.push_back(place);
    }
  }
  return front;
}

}  // namespace swr
