// SPDX-License-Identifier: MIT
// Which SMs belong to which of L2's two partitions, from what atomics take. No GPU here: the
// measurements come from CalibrationBench.
#pragma once

#include <vector>

namespace swr {

/// Clocks of atomics from SMs to lines.
struct AtomicLatencies {
  std::vector<unsigned> sms;  ///< The SM of each CTA, in the order of the CTAs.
  int lines = 0;
  std::vector<int> clocks;  ///< [CTA][line]
};

/// Lengths of the runs of neighbouring CTAs that share an L2 partition, as
/// ScheduleShape::partition_runs has them. Atomics are done in the partition that a line has its
/// home in, so the latencies of SMs of one partition go up and down together, against those of the
/// other: the sign of the first principal component tells them apart. Empty when the SMs do not
/// fall into two clear groups, or two CTAs shared an SM.
std::vector<int> partition_runs(const AtomicLatencies& latencies);

}  // namespace swr
