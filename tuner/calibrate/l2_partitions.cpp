// SPDX-License-Identifier: MIT
#include "tuner/calibrate/calibration_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace swr {
namespace {

using Matrix = std::vector<std::vector<double>>;  ///< [CTA][line]

/// What is left when the mean of each SM and of each line is taken away: the distance of an SM from
/// everything, and of a line from all SMs, say nothing about partitions.
Matrix centered(const AtomicLatencies& latencies) {
  const auto lines = static_cast<std::size_t>(latencies.lines);
  Matrix rows(latencies.sms.size());
  std::vector<double> line_mean(lines, 0.0);
  for (std::size_t cta = 0; cta < rows.size(); ++cta) {
    const auto begin = latencies.clocks.begin() + static_cast<std::ptrdiff_t>(cta * lines);
    rows[cta].assign(begin, begin + latencies.lines);
    const double mean =
        std::accumulate(rows[cta].begin(), rows[cta].end(), 0.0) / static_cast<double>(lines);
    for (std::size_t line = 0; line < lines; ++line) {
      rows[cta][line] -= mean;
      line_mean[line] += rows[cta][line] / static_cast<double>(rows.size());
    }
  }
  for (auto& row : rows) {
    std::transform(row.begin(), row.end(), line_mean.begin(), row.begin(), std::minus<>());
  }
  return rows;
}

void normalize(std::vector<double>& vector) {
  const double length =
      std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
  for (double& value : vector) {
    value = length > 0.0 ? value / length : 0.0;
  }
}

/// The first principal component over the SMs, by power iteration.
std::vector<double> principal_component(const Matrix& rows) {
  constexpr int kIterations = 100;
  std::vector<double> component(rows.size());
  // A start that is symmetric to nothing.
  for (std::size_t cta = 0; cta < rows.size(); ++cta) {
    component[cta] = 1.0 + std::sin(static_cast<double>(cta * cta));
  }
  for (int i = 0; i < kIterations; ++i) {
    std::vector<double> weights(rows.front().size(), 0.0);
    for (std::size_t cta = 0; cta < rows.size(); ++cta) {
      for (std::size_t line = 0; line < weights.size(); ++line) {
        weights[line] += component[cta] * rows[cta][line];
      }
    }
    for (std::size_t cta = 0; cta < rows.size(); ++cta) {
      component[cta] = std::inner_product(weights.begin(), weights.end(), rows[cta].begin(), 0.0);
    }
    normalize(component);
  }
  return component;
}

/// Two groups give every SM about the same magnitude; noise and distance do not.
bool is_two_groups(const std::vector<double>& component) {
  constexpr double kLeast = 0.5;  ///< Of the magnitude that all have when all are equal.
  const double even = 1.0 / std::sqrt(static_cast<double>(component.size()));
  return std::all_of(component.begin(), component.end(),
                     [&](double value) { return std::abs(value) > kLeast * even; });
}

}  // namespace

std::vector<int> partition_runs(const AtomicLatencies& latencies) {
  const std::set<unsigned> sms(latencies.sms.begin(), latencies.sms.end());
  if (sms.size() < latencies.sms.size() || sms.size() < 2) {
    return {};
  }
  const std::vector<double> component = principal_component(centered(latencies));
  if (!is_two_groups(component)) {
    return {};
  }
  std::vector<int> runs;
  for (std::size_t cta = 0; cta < component.size(); ++cta) {
    if (cta == 0 || (component[cta] > 0) != (component[cta - 1] > 0)) {
      runs.push_back(0);
    }
    ++runs.back();
  }
  return runs;
}

}  // namespace swr
