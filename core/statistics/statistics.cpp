// SPDX-License-Identifier: MIT
#include "core/statistics/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>

namespace swr {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> copy(samples.begin(), samples.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

/// log(n!). std::lgamma() would write the sign to a global variable, and several threads come here.
double log_factorial(double n) {
  int sign = 0;
  return lgamma_r(n + 1, &sign);
}

/// Samples to leave out at either end: the most for which the interval between the rest still
/// covers the median. A sample lies below the median with probability 1/2, so the number of those
/// that do is binomial.
std::size_t trimmed_at_each_end(std::size_t count, double confidence) {
  const auto n = static_cast<double>(count);
  // Ten standard deviations below the mean nothing is left to sum.
  const double first = std::max(0.0, std::floor(n / 2 - 5 * std::sqrt(n)));
  double exactly = std::exp(log_factorial(n) - log_factorial(first) - log_factorial(n - first) -
                            n * std::log(2.0));
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

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double student_quantile(double freedom, double confidence) {
  return boost::math::quantile(boost::math::students_t(freedom), (1.0 + confidence) / 2.0);
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

double capped_mean(std::span<const double> samples) {
  constexpr double kCap = 1.5;
  const double cap = kCap * median(samples);
  double total = 0.0;
  for (const double sample : samples) {
    total += std::min(sample, cap);
  }
  return total / static_cast<double>(samples.size());
}

RatioEstimate paired_ratio(std::span<const double> times, std::span<const double> references) {
  constexpr std::size_t kResamples = 1000;
  constexpr double kTailPercent = 2.5;
  const std::size_t count = times.size();
  std::mt19937_64 random(count);
  std::vector<double> resampled;
  for (std::size_t resample = 0; resample < kResamples; ++resample) {
    double time = 0.0;
    double reference = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t drawn = random() % count;
      time += times[drawn];
      reference += references[drawn];
    }
    resampled.push_back(time / reference);
  }
  return {sum(times) / sum(references),
          {percentile(resampled, kTailPercent), percentile(resampled, 100.0 - kTailPercent)}};
}

Interval ratio_interval(std::span<const double> times, std::span<const double> references,
                        double confidence) {
  const auto count = static_cast<double>(times.size());
  const double ratio = sum(times) / sum(references);
  if (times.size() < 2) {
    return {0.0, std::numeric_limits<double>::infinity()};
  }
  const double error = std::sqrt(scatter_of_pairs(times, references) / (count - 1) / count);
  const double half_width = student_quantile(count - 1, confidence) * error;
  return {ratio - half_width, ratio + half_width};
}

double scatter_of_pairs(std::span<const double> times, std::span<const double> references) {
  const double ratio = sum(times) / sum(references);
  const double mean = sum(references) / static_cast<double>(references.size());
  double squares = 0.0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double residual = (times[i] - ratio * references[i]) / mean;
    squares += residual * residual;
  }
  return squares;
}

Interval moderated_ratio_interval(std::span<const double> times, std::span<const double> references,
                                  const Scatter& others, double confidence) {
  const auto count = static_cast<double>(times.size());
  const double weight = std::min(2.0, others.freedom);
  const double usual = weight > 0.0 ? weight * others.squares / others.freedom : 0.0;
  const double freedom = weight + count - 1;
  const double variance = (usual + scatter_of_pairs(times, references)) / freedom;
  const double ratio = sum(times) / sum(references);
  const double half_width = student_quantile(freedom, confidence) * std::sqrt(variance / count);
  return {ratio - half_width, ratio + half_width};
}

double expected_improvement(double below_by, double deviation) {
  if (deviation <= 1e-9) {
    return std::max(0.0, below_by);
  }
  const double z = below_by / deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
  const double share = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  return below_by * share + deviation * density;
}

StoppingRule::StoppingRule(const StoppingOptions& options) : options_(options) {
  options_.fewest = std::min(options_.fewest, options_.most);
}

void StoppingRule::add(double sample_us, double cost_us) {
  samples_us_.push_back(sample_us);
  spent_us_ += cost_us;
}

bool StoppingRule::is_finished() const {
  constexpr int kWhateverTheBudget = 5;
  constexpr double kConfidence = 0.95;
  const int taken = static_cast<int>(samples_us_.size());
  if (taken >= options_.most) {
    return true;
  }
  if (taken >= kWhateverTheBudget && (spent_us_ >= options_.budget_us ||
                                      *std::ranges::min_element(samples_us_) > options_.slow_us)) {
    return true;
  }
  if (taken < options_.fewest) {
    return false;
  }
  const Interval interval = median_interval(samples_us_, kConfidence);
  return interval.high - interval.low <= options_.relative_width * median(samples_us_);
}

}  // namespace swr
