// SPDX-License-Identifier: MIT
#include "tuner/run/robust_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace swr {
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
