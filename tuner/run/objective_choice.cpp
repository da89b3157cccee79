// SPDX-License-Identifier: MIT
#include "tuner/run/objective_choice.h"

#include "core/metrics.h"
#include "core/number_text.h"
#include "core/statistics/statistics.h"
#include "kernel_spec/spec/spec_object.h"
#include "report/explain/analysis.h"
#include <swr/error.h>
#include <swr/kernel.h>
#include <swr/store.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

namespace swr {
namespace {

using kernel_spec::Value;

/// What an objective is about.
struct Subject {
  const Problem& problem;
  const DeviceInfo& device;
  const VariantResult& result;
};

/// Metrics beside those of reports, and other names of some.
struct FurtherMetric {
  std::string_view name;
  std::optional<double> (*value)(const Subject&);
};

std::optional<double> declared(const Subject& subject, std::string_view key) {
  const auto metric = std::ranges::find(metrics(), key, &Metric::key);
  const auto value = metric->value(subject.problem, subject.result);
  return value ? std::optional(
                     std::visit([](auto number) { return static_cast<double>(number); }, *value))
               : std::nullopt;
}

double occupancy_of(const Subject& subject) {
  return static_cast<double>(subject.result.ctas_per_sm) *
         threads_per_cta(subject.problem, subject.result.variant) /
         std::max(1, subject.device.max_threads_per_sm);
}

constexpr std::array kFurther{
    FurtherMetric{"registers",
                  [](const Subject& subject) { return declared(subject, "registers_per_thread"); }},
    FurtherMetric{"l2_misses",
                  [](const Subject& subject) { return declared(subject, "l2_misses_sectors"); }},
    FurtherMetric{"dram_bytes",
                  [](const Subject& subject) {
                    const auto bytes = dram_bytes(subject.result);
                    return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
                  }},
    FurtherMetric{"occupancy",
                  [](const Subject& subject) { return std::optional(occupancy_of(subject)); }}};

static_assert(std::ranges::equal(kFurther, kFurtherMetricNames, {}, &FurtherMetric::name),
              "core/metrics.h names every further metric, in this order");

constexpr std::string_view kTimeMetric = "time_us";

std::optional<double> metric_at(std::size_t place, const Subject& subject, double time_us) {
  const auto declared_metrics = metrics();
  if (place >= declared_metrics.size()) {
    return kFurther[place - declared_metrics.size()].value(subject);
  }
  const std::string_view key = declared_metrics[place].key;
  return key == kTimeMetric ? std::optional(time_us) : declared(subject, key);
}

}  // namespace

Objective::Objective(std::string text)
    : text_(std::move(text)), expression_(kernel_spec::bound_objective(text_)) {}

bool Objective::is_time() const { return text_ == kTimeObjective; }

bool Objective::needs_energy() const {
  const auto declared_metrics = metrics();
  return std::ranges::any_of(expression_.places(), [&](std::size_t place) {
    return place < declared_metrics.size() && declared_metrics[place].is_of_energy;
  });
}

std::optional<double> Objective::value(const Problem& problem, const DeviceInfo& device,
                                       const VariantResult& result, double time_us) const {
  const Subject subject{problem, device, result};
  std::vector<Value> table(metric_names().size());
  for (const std::size_t place : expression_.places()) {
    const auto metric = metric_at(place, subject, time_us);
    if (!metric) {
      return std::nullopt;
    }
    table[place] = Value::of(*metric);
  }
  const double value = kernel_spec::objective_value(text_, expression_, table);
  if (!(value > 0) || !std::isfinite(value)) {
    throw Error(ErrorCode::invalid_argument,
                "objective '" + text_ + "' is " + significant_text(value, 4) + " for " +
                    to_key(result.variant) +
                    ", and only values above 0 can be compared by their ratio; where more is "
                    "better, write 1 / (...)");
  }
  return value;
}

std::vector<std::string> Objective::metric_names() { return kernel_spec::objective_names(); }

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

namespace {

/// How many times as long each of the five takes.
struct World {
  double matrix = 1.0;
  double exponentials = 1.0;
  double l2 = 1.0;
  double dram = 1.0;
  double latency = 1.0;
};

constexpr double kSlower = 1.0 + kChipDoubt;
constexpr std::array kWorlds{World{},
                             World{.matrix = kSlower},
                             World{.exponentials = kSlower},
                             World{.l2 = kSlower},
                             World{.dram = kSlower},
                             World{.latency = kSlower}};

/// The time of a prediction's terms, which overlap as the models say (docs/model.md, "The time").
double time_us(const Prediction& terms, const World& world) {
  const double compute = world.matrix * terms.matrix_us + world.exponentials * terms.softmax_us;
  const double overlapped = std::pow(std::pow(compute, 4) + std::pow(world.l2 * terms.l2_us, 4) +
                                         std::pow(world.dram * terms.dram_us, 4),
                                     0.25);
  return world.latency * terms.latency_us + overlapped;
}

bool has_known_error(const VariantResult& result) {
  return result.state == ResultState::ok && result.prediction() != nullptr &&
         result.prediction()->relative_error > 0;
}

/// Places of the predictions within kModelTie of the fastest, fastest first.
std::vector<std::size_t> tied_places(std::span<const VariantResult> results) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (has_known_error(results[i])) {
      places.push_back(i);
    }
  }
  const auto time = [&](std::size_t place) { return results[place].time_us(); };
  std::ranges::stable_sort(places, {}, time);
  std::erase_if(places, [&, fastest = places.empty() ? 0.0 : time(places.front())](auto place) {
    return time(place) > (1 + kModelTie) * fastest;
  });
  return places;
}

/// RobustChoice::slowdown of each of them.
std::vector<double> worst_slowdowns(std::span<const VariantResult> results,
                                    const std::vector<std::size_t>& places) {
  std::vector<double> worst(places.size(), 0.0);
  for (const World& world : kWorlds) {
    const auto time = [&](std::size_t place) {
      return time_us(*results[place].prediction(), world);
    };
    const double best_us = time(*std::ranges::min_element(places, {}, time));
    for (std::size_t i = 0; i < places.size(); ++i) {
      worst[i] = std::max(worst[i], time(places[i]) / best_us - 1);
    }
  }
  return worst;
}

}  // namespace

std::optional<RobustChoice> choose_robust(std::span<const VariantResult> results) {
  const std::vector<std::size_t> places = tied_places(results);
  if (places.size() < 2) {
    return std::nullopt;
  }
  const std::vector<double> slowdowns = worst_slowdowns(results, places);
  const auto least = std::ranges::min_element(slowdowns) - slowdowns.begin();
  const auto chosen = static_cast<std::size_t>(least);
  return RobustChoice{.place = places[chosen],
                      .tied = places.size(),
                      .slowdown = slowdowns[chosen],
                      .fastest_slowdown = slowdowns.front()};
}

}  // namespace swr
