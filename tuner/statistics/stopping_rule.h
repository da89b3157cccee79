// SPDX-License-Identifier: MIT
// When a variant has been sampled enough: once its median is known well enough, or the budget ends.
#pragma once

#include <algorithm>
#include <cmath>
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

/// A sample takes at least so long, because events resolve about half a microsecond and the gap
/// between launches shows otherwise.
inline constexpr double kSampleUs = 200.0;

/// Launches per sample for a kernel of this duration: as many as fill kSampleUs.
inline int launches_per_sample(double launch_us) {
  constexpr double kMaxLaunches = 1000.0;
  const double duration_us = std::max(launch_us, 1e-3);
  return static_cast<int>(std::clamp(std::ceil(kSampleUs / duration_us), 1.0, kMaxLaunches));
}

/// True for samples of so many launches that they are replayed from a graph: fewer take longer to
/// record than the graph saves.
inline bool is_replayed(int launches) {
  constexpr int kGraphFromLaunches = 4;
  return launches >= kGraphFromLaunches;
}

}  // namespace swr
