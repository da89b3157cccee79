// SPDX-License-Identifier: MIT
// Order statistics of timing samples, and how well they are known.
#pragma once

#include <span>

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

}  // namespace swr
