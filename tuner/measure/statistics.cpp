// SPDX-License-Identifier: MIT
#include "tuner/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace swr {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> copy(samples.begin(), samples.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

}  // namespace

double median(std::span<const double> samples) {
  const std::vector<double> ordered = sorted(samples);
  const std::size_t middle = ordered.size() / 2;
  return ordered.size() % 2 == 1 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}

double percentile(std::span<const double> samples, double percent) {
  const std::vector<double> ordered = sorted(samples);
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(ordered.size()));
  return ordered[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

}  // namespace swr
