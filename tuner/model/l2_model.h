// SPDX-License-Identifier: MIT
// The traffic of a schedule through one shared L2: what the SMs demand, what misses for the first
// time and what is fetched again.
#pragma once

#include "tuner/model/reuse_distance.h"
#include "tuner/model/walk.h"

namespace swr {

struct L2Traffic {
  ScheduleSummary schedule;
  long long compulsory_misses = 0;  ///< Sectors of Q, K, V and O touched for the first time.
  long long excess_misses = 0;      ///< Sectors of K and V fetched again.
  /// Share of K and V tile pairs, counted once per step, that were not in L2: how often the CTA
  /// that runs ahead, and all that follow it, wait for memory.
  double front_miss_share = 0.0;

  /// Share of all sectors demanded that L2 serves.
  double hit_rate() const;
};

/// What each partition of an L2 keeps.
struct L2Policy {
  long long effective_bytes = 0;  ///< What data of one head that every SM reads can occupy.
  /// Lines of a set, in each of which the least recently used is replaced; 0 stands for one set of
  /// all lines, where the ways are not known.
  int ways = 0;
};

/// Walks the schedule through an L2 of shape.l2_partitions partitions. One of sets keeps less of
/// several heads that are scanned at once than of one (docs/results/l2_model.md, "Traces").
L2Traffic simulate_l2(const ScheduleShape& shape, const L2Policy& policy);

/// Walks the schedule once for the misses of every cache size, in steps of 1 KiB. One walk for all
/// sizes cannot let CTAs wait for what only some sizes miss: dram_sectors_per_step is ignored. Nor
/// can it keep partitions apart, so it is that of an L2 in which everything is held for all SMs.
MissCurve miss_curve(const ScheduleShape& shape);

}  // namespace swr
