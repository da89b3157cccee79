// SPDX-License-Identifier: MIT
#include "tuner/predict/model_ranking.h"

#include "core/operation.h"
#include "model/predictor.h"
#include "tuner/predict/predicting_evaluator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace swr {
namespace {

/// Variants of a space with floors whose schedules are walked to rank it.
constexpr std::size_t kMostWalked = 96;

/// Times by the model of kernels of the resources estimated; infinity for one that cannot run.
std::vector<double> predicted_us(PredictingEvaluator& model, const Problem& problem,
                                 const std::vector<Variant>& variants) {
  std::vector<CompiledKernel> kernels(variants.size());
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    kernels[i].resources = model.predictor(problem).estimated_resources(problem, variants[i]);
    contenders.push_back({variants[i], &kernels[i]});
  }
  model.expect(problem, contenders);
  std::vector<double> times_us;
  for (const auto& [variant, kernel] : contenders) {
    const VariantResult result = model.evaluate(problem, variant, *kernel);
    times_us.push_back(result.state == ResultState::ok ? result.time_us()
                                                       : std::numeric_limits<double>::infinity());
  }
  return times_us;
}

/// Empty where the operation has none.
std::vector<double> floors_us(PredictingEvaluator& model, const Problem& problem,
                              const std::vector<Variant>& variants) {
  std::vector<double> floors;
  for (const Variant& variant : variants) {
    const auto floor_us = model.predictor(problem).floor_us(problem, variant);
    if (!floor_us) {
      return {};
    }
    floors.push_back(*floor_us);
  }
  return floors;
}

/// Places of the lowest floors.
std::vector<std::size_t> lowest(const std::vector<double>& floors_us, std::size_t count) {
  std::vector<std::size_t> places(floors_us.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t place) { return floors_us[place]; });
  places.resize(std::min(count, places.size()));
  return places;
}

/// How much longer than their floors variants take by the model, in the median.
double median_excess(const std::vector<std::size_t>& places, const std::vector<double>& floors_us,
                     const std::vector<double>& predicted_us) {
  std::vector<double> ratios;
  for (const std::size_t place : places) {
    ratios.push_back(predicted_us[place] / floors_us[place]);
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

/// Only what the floors put first is walked. The others keep their floors, raised as much as the
/// walk raised those.
std::vector<double> ranking_by_floors_us(PredictingEvaluator& model, const Problem& problem,
                                         const std::vector<Variant>& variants,
                                         std::vector<double> times_us) {
  const std::vector<std::size_t> walked = lowest(times_us, kMostWalked);
  std::vector<Variant> chosen;
  for (const std::size_t place : walked) {
    chosen.push_back(variants[place]);
  }
  const std::vector<double> walked_us = predicted_us(model, problem, chosen);
  std::vector<double> predicted = times_us;
  for (std::size_t i = 0; i < walked.size(); ++i) {
    predicted[walked[i]] = walked_us[i];
  }
  const double excess = median_excess(walked, times_us, predicted);
  for (double& time_us : times_us) {
    time_us *= excess;
  }
  for (const std::size_t place : walked) {
    times_us[place] = predicted[place];
  }
  return times_us;
}

}  // namespace

PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads) {
  return [problem, device, threads](const std::vector<Variant>& variants) {
    PredictingEvaluator model(profile_for_device(device), threads);
    std::vector<double> floors = floors_us(model, problem, variants);
    return floors.empty() ? predicted_us(model, problem, variants)
                          : ranking_by_floors_us(model, problem, variants, std::move(floors));
  };
}

namespace {

/// The variants without their orders of tiles, and how long the fastest of each takes.
struct Alike {
  std::vector<Variant> plain;
  std::map<Variant, double> fastest_us;

  Alike(std::span<const Variant> variants, std::span<const double> predicted_us) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      plain.push_back(variants[i].operation().without_tile_order(variants[i]));
      const auto entry = fastest_us.try_emplace(plain[i], predicted_us[i]).first;
      entry->second = std::min(entry->second, predicted_us[i]);
    }
  }
};

}  // namespace

std::vector<std::size_t> shortlist(std::span<const Variant> variants,
                                   std::span<const double> predicted_us) {
  constexpr double kIndistinguishable = 0.002;
  constexpr double kTwinHandicap = 1.02;
  const Alike alike(variants, predicted_us);
  const auto fastest_us = [&](std::size_t i) { return alike.fastest_us.at(alike.plain[i]); };
  std::vector<double> time_us;  // The same for those that cannot be told apart.
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool is_slower = predicted_us[i] > fastest_us(i) * (1 + kIndistinguishable);
    time_us.push_back(is_slower ? predicted_us[i] : fastest_us(i));
  }
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(time_us[a], variants[a]) < std::tie(time_us[b], variants[b]);
  });
  std::set<Variant> named;
  for (const std::size_t i : order) {
    const bool is_named = !named.insert(alike.plain[i]).second;
    time_us[i] *= is_named && time_us[i] <= fastest_us(i) ? kTwinHandicap : 1.0;
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return time_us[i]; });
  return order;
}

}  // namespace swr
