// SPDX-License-Identifier: MIT
// When the CTAs of a launch end: every SM shares its units among the CTAs it holds, older ones
// first, and takes the next CTA when one ends. Waves, tails, causal imbalance and static
// (persistent) distribution follow from it.
#pragma once

#include "operations/attention/model/walk.h"

#include <vector>

namespace swr {

struct TimelineCosts {
  /// [k - 1]: clocks of a KV step of each CTA while k CTAs of the SM compute. Not empty.
  std::vector<double> step_clocks;
  /// A masked step costs so many steps more.
  double masked_extra_steps = 0.0;
  /// From the start of a Q tile to its first step; the SM's other CTAs compute meanwhile.
  double tile_delay_clocks = 0.0;
  /// Share of the issue slots that a CTA gets, of what the next older one gets: warp schedulers
  /// prefer the oldest warp. 1 shares evenly.
  double younger_share = 1.0;
};

struct Timeline {
  double clocks = 0.0;             ///< Until the last CTA ends.
  long long busiest_sm_steps = 0;  ///< KV steps of the SM that computes most.
};

/// Where the CTAs of a launch land decides which SMs have most work, and differs from launch to
/// launch (experiments/measuring). A launch with several CTAs to an SM takes the mean of two
/// deals: breadth first, and, for two launches of five under the mask and four of five without it,
/// all places of half of the SMs before the rest.
/// Requires: costs.step_clocks holds a value for each number of CTAs up to shape.ctas_per_sm.
Timeline run_timeline(const ScheduleShape& shape, const TimelineCosts& costs);

}  // namespace swr
