// SPDX-License-Identifier: MIT
#include "tuner/predict/shortlist.h"

#include "core/operation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace swr {
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
