// SPDX-License-Identifier: MIT
// When a variant has been sampled enough: once its median is known well enough, or the budget ends.
#pragma once

#include <vector>

namespace swr {

struct StoppingOptions {
  /// Samples before the first look at their spread; the interval of fewer says little.
  int fewest = 10;
  int most = 50;
  /// Wanted width of the median's 95 percent interval, as a share of the median.
  double relative_width = 0.005;
  /// GPU time that all samples together may take; 5 samples (or `most`) are taken whatever it says.
  double budget_us = 10e6;
};

class StoppingRule {
 public:
  explicit StoppingRule(const StoppingOptions& options);

  /// Adds a sample and the GPU time that taking it cost.
  void add(double sample_us, double cost_us);
  bool is_finished() const;

  /// In the order added.
  const std::vector<double>& samples_us() const { return samples_us_; }

 private:
  StoppingOptions options_;
  std::vector<double> samples_us_;
  double spent_us_ = 0.0;
};

}  // namespace swr
