// SPDX-License-Identifier: MIT
#include "tuner/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace swr {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> copy(samples.begin(), samples.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

/// Samples to leave out at either end: the most for which the interval between the rest still
/// covers the median. A sample lies below the median with probability 1/2, so the number of those
/// that do is binomial.
std::size_t trimmed_at_each_end(std::size_t count, double confidence) {
  const auto n = static_cast<double>(count);
  // Ten standard deviations below the mean nothing is left to sum.
  const double first = std::max(0.0, std::floor(n / 2 - 5 * std::sqrt(n)));
  double exactly = std::exp(std::lgamma(n + 1) - std::lgamma(first + 1) -
                            std::lgamma(n - first + 1) - n * std::log(2.0));
  double at_most = exactly;
  auto trimmed = static_cast<std::size_t>(first);
  while (trimmed + 1 < count / 2) {
    const auto k = static_cast<double>(trimmed + 1);
    exactly *= (n - k + 1) / k;
    at_most += exactly;
    if (2 * at_most > 1 - confidence) {
      break;
    }
    ++trimmed;
  }
  return trimmed;
}

std::vector<double> ratios(std::span<const double> times, std::span<const double> references) {
  std::vector<double> result(times.size());
  std::transform(times.begin(), times.end(), references.begin(), result.begin(),
                 [](double time, double reference) { return time / reference; });
  return result;
}

double resampled_median(const std::vector<double>& values, std::vector<double>& drawn,
                        std::mt19937_64& random) {
  for (double& value : drawn) {
    value = values[random() % values.size()];
  }
  const auto middle = drawn.begin() + static_cast<std::ptrdiff_t>(drawn.size() / 2);
  std::nth_element(drawn.begin(), middle, drawn.end());
  if (drawn.size() % 2 == 1) {
    return *middle;
  }
  return (*std::max_element(drawn.begin(), middle) + *middle) / 2;
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

Interval median_interval(std::span<const double> samples, double confidence) {
  const std::vector<double> ordered = sorted(samples);
  const std::size_t trimmed = trimmed_at_each_end(ordered.size(), confidence);
  return {ordered[trimmed], ordered[ordered.size() - 1 - trimmed]};
}

RatioEstimate paired_ratio(std::span<const double> times, std::span<const double> references,
                           unsigned long long seed) {
  constexpr std::size_t kResamples = 1000;
  const std::vector<double> observed = ratios(times, references);
  std::mt19937_64 random(seed);
  std::vector<double> drawn(observed.size());
  std::vector<double> medians(kResamples);
  for (double& value : medians) {
    value = resampled_median(observed, drawn, random);
  }
  return {median(observed), {percentile(medians, 2.5), percentile(medians, 97.5)}};
}

}  // namespace swr
