// SPDX-License-Identifier: MIT
// How L2 is built, from what loads and atomics take: the lines of a set, by looking for the
// smallest set of lines that pushes another one out (Vila, Koepf, Morales: Theory and Practice of
// Finding Eviction Sets, 2019), and which SMs belong to which of two partitions. No GPU here: the
// measurements come from CalibrationBench.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace swr {

/// True when a line that was read before these is no longer in L2 after them.
using Evicts = std::function<bool(std::span<const unsigned> lines)>;

/// A smallest part of `lines` that still evicts: any one line less does not. `evicts` is asked
/// about parts of falling size, about 2 * ways * log(lines / ways) times. Empty when all lines
/// together do not evict, or no part of at most `most_lines` does, because L2 does not replace what
/// was least recently used.
std::vector<unsigned> smallest_evicting_set(std::vector<unsigned> lines, int most_lines,
                                            const Evicts& evicts);

/// The size on which more than half of the searches agree; searches that found nothing are 0.
std::optional<int> agreed_ways(std::span<const int> sizes);

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
