// SPDX-License-Identifier: MIT
// The traffic of a schedule through one shared L2: what the SMs demand, what misses for the first
// time and what is fetched again.
#pragma once

#include "model/l2/l2_policy.h"
#include "model/l2/reuse_distance.h"
#include "operations/attention/model/walk.h"
#include <swr/attention_problem.h>
#include <swr/problem.h>

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

/// Walks the schedule through an L2 of shape.l2_partitions partitions. One of sets keeps less of
/// several heads that are scanned at once than of one (experiments/l2_model, "Traces").
/// Throws: Error{invalid_argument} beyond the limits of walk_cost.h; so does miss_curve().
L2Traffic simulate_l2(const ScheduleShape& shape, const L2Policy& policy);
/// No more than a walk finds, and without one: K and V are read from memory once.
L2Traffic least_traffic(const ScheduleShape& shape);
/// As simulate_l2() with so many K and V tile pairs at once, where the other takes
/// usual_tiles_at_once().
L2Traffic simulate_l2(const ScheduleShape& shape, const L2Policy& policy, int tiles_at_once);

/// K and V tile pairs that CTAs take at once in the walk of a launch: 1 unless there are so many
/// steps that walks of a few hundred variants would take minutes.
int usual_tiles_at_once(const ScheduleShape& shape);

/// Walks the schedule once for the misses of every cache size, in steps of 1 KiB. One walk for all
/// sizes cannot let CTAs wait for what only some sizes miss: dram_sectors_per_step is ignored. Nor
/// can it keep partitions apart, so it is that of an L2 in which everything is held for all SMs.
MissCurve miss_curve(const ScheduleShape& shape);

}  // namespace swr
