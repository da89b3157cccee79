// SPDX-License-Identifier: MIT
// How long a timed sample is, in launches: said once for who times and for who counts what timing
// costs.
#pragma once

#include <algorithm>
#include <cmath>

namespace swr {

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
