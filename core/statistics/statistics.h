// SPDX-License-Identifier: MIT
// Order statistics of timing samples, and how well they are known.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace swr {

/// Middle value, or the mean of the two middle ones. Requires: not empty.
double median(std::span<const double> samples);

/// Nearest-rank percentile: the smallest sample that at least `percent` percent of all samples do
/// not exceed. Requires: not empty, 0 < percent <= 100.
double percentile(std::span<const double> samples, double percent);

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

/// Interval that holds the true median with at least this confidence, whatever the distribution:
/// the narrowest symmetric pair of order statistics. Fewer than 6 samples cannot give 95 percent;
/// then it is the samples' range. Requires: not empty, 0 < confidence < 1.
Interval median_interval(std::span<const double> samples, double confidence);

/// Mean of what is left when samples above one and a half times the median count as that much: a
/// hiccup of the machine does not move it, several levels of one kernel all count. Requires: not
/// empty.
double capped_mean(std::span<const double> samples);

/// How a ratio of paired times is known.
struct RatioEstimate {
  double ratio = 1.0;  ///< Of the means.
  /// 95 percent bootstrap interval of it (percentile method, pairs drawn with a fixed seed).
  Interval interval;
};

/// Ratio of `times` to `references`, where equal indices were measured together.
/// Requires: equally many of both, at least one.
RatioEstimate paired_ratio(std::span<const double> times, std::span<const double> references);

/// Interval that holds the true ratio with this confidence, by Student's t distribution of the
/// ratio's linearised error: wider than the bootstrap's for few pairs, which is too narrow then.
/// Without end for a single pair. Requires: as paired_ratio; 0 < confidence < 1.
Interval ratio_interval(std::span<const double> times, std::span<const double> references,
                        double confidence);

/// How far other pairs scatter around their ratios: squares of shares, and degrees of freedom.
struct Scatter {
  double squares = 0.0;
  double freedom = 0.0;
};

/// The same where others tell how far a pair scatters: a few pairs say little of that by
/// themselves. What others do counts as two pairs more, or as many as they are worth.
/// Requires: as paired_ratio, at least two pairs; 0 < confidence < 1.
Interval moderated_ratio_interval(std::span<const double> times, std::span<const double> references,
                                  const Scatter& others, double confidence);

/// Sum of squares that pairs scatter by around their ratio, as shares of the references' mean.
double scatter_of_pairs(std::span<const double> times, std::span<const double> references);

/// By how much a normal variable is expected to fall below a bound, where it does.
double expected_improvement(double below_by, double deviation);

// When a variant has been sampled enough: once its median is known well enough, or the budget ends.

struct StoppingOptions {
  /// Samples before the first look at their spread; the interval of fewer says little.
  int fewest = 10;
  int most = 50;
  /// Wanted width of the median's 95 percent interval, as a share of the median.
  double relative_width = 0.01;
  /// GPU time that all samples together may take; 5 samples (or `most`) are taken whatever it says.
  double budget_us = 100e3;
  /// Nothing depends on how slow a variant is whose samples all lie above: 5 of it suffice.
  double slow_us = std::numeric_limits<double>::infinity();
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

/// Two launches of a kernel that takes so long have warmed up what three shorter ones would.
inline constexpr double kWarmUs = 5 * kSampleUs;

/// A difference below this share does not matter: such variants tie.
inline constexpr double kTieThreshold = 0.005;

/// What the host takes to enqueue and an L2 to fill, about 20 us, is 0.2 % of this.
inline constexpr double kLongUs = 50 * kSampleUs;

/// How much the medians of two kernels, measured one after the other, may err beyond what their
/// samples show, as a share: each errs by 2.3 % one time in a hundred (docs/measuring.md).
inline constexpr double kScreeningDrift = 0.06;

/// What the screening knows of a median beside drift.
inline Interval screening_interval(std::span<const double> samples_us) {
  constexpr double kConfidence = 0.95;
  return median_interval(samples_us, kConfidence);
}

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
