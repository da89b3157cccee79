// SPDX-License-Identifier: MIT
#include "tuner/run/tie_order.h"

#include <algorithm>
#include <limits>
#include <string>
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

}  // namespace swr
