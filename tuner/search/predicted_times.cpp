// SPDX-License-Identifier: MIT
#include "tuner/search/predicted_times.h"

#include <algorithm>
#include <numeric>

namespace swr {

void PredictedTimes::refine(const std::vector<std::size_t>& places) {
  std::vector<std::size_t> unknown = places;
  std::erase_if(unknown, [this](std::size_t place) { return is_known(place); });
  refine_unknown(unknown);
}

void PredictedTimes::make_known(const std::vector<std::size_t>& places) {
  while (!std::ranges::all_of(places, [this](std::size_t place) { return is_known(place); })) {
    refine(places);
  }
}

const std::vector<double>& PredictedTimes::all_us() {
  std::vector<std::size_t> places(at_least_us_.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  make_known(places);
  return at_least_us_;
}

}  // namespace swr
