// SPDX-License-Identifier: MIT
// Order statistics of timing samples.
#pragma once

#include <span>

namespace swr {

/// Middle value, or the mean of the two middle ones. Requires: not empty.
double median(std::span<const double> samples);

/// Nearest-rank percentile: the smallest sample that at least `percent` percent of all samples do
/// not exceed. Requires: not empty, 0 < percent <= 100.
double percentile(std::span<const double> samples, double percent);

}  // namespace swr
