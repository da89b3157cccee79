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

/// Probability that at least `wanted` of `count` draws fall below, each with probability `share`.
double at_least(std::size_t wanted, std::size_t count, double share) {
  if (share >= 1.0) {
    return 1.0;
  }
  constexpr double kNegligible = 1e-12;
  const auto n = static_cast<double>(count);
  auto k = static_cast<double>(wanted);
  double term = std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                         k * std::log(share) + (n - k) * std::log1p(-share));
  double sum = 0.0;
  const double odds = share / (1.0 - share);
  while (k <= n && (term > kNegligible || k < n * share)) {
    sum += term;
    term *= (n - k) / (k + 1) * odds;
    k += 1;
  }
  return sum;
}

/// The smallest of the ordered values below which the median of a resample lies with at least this
/// probability, when that median is the resample's value number `middle`. A resample draws each
/// value with equal probability, so how many of its values are among the first k is binomial.
double median_quantile(const std::vector<double>& ordered, std::size_t middle, double probability) {
  const std::size_t count = ordered.size();
  std::size_t below = 0;  // Too few.
  std::size_t enough = count;
  while (enough - below > 1) {
    const std::size_t k = (below + enough) / 2;
    const double share = static_cast<double>(k) / static_cast<double>(count);
    (at_least(middle, count, share) >= probability ? enough : below) = k;
  }
  return ordered[enough - 1];
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

RatioEstimate paired_ratio(std::span<const double> times, std::span<const double> references) {
  constexpr double kTail = 0.025;
  const std::vector<double> ordered = sorted(ratios(times, references));
  const std::size_t count = ordered.size();
  // An even resample's median lies between two of its values: the outer one bounds it.
  return {median(ordered),
          {median_quantile(ordered, (count + 1) / 2, kTail),
           median_quantile(ordered, count / 2 + 1, 1.0 - kTail)}};
}

}  // namespace swr
