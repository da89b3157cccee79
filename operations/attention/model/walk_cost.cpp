// SPDX-License-Identifier: MIT
#include "operations/attention/model/walk_cost.h"

#include <algorithm>

namespace swr {
namespace {

// Of a walk and a cache, per pair of tiles or block, by the types they keep.
constexpr double kBytes = 8.0;              ///< Once.
constexpr double kBytesPerPartition = 112;  ///< In each partition of L2.

/// K and V steps of the Q tiles of one head; each split of a tile takes one at least.
double steps_of_head(const ScheduleShape& shape) {
  const WorkItems items = shape.items();
  const SequenceShape sequence = shape.sequence();
  const double all = static_cast<double>(items.q_tiles) * ceil_div(shape.seq_kv, shape.tile_n);
  if (!shape.causal || all * items.heads <= kMostWalkSteps) {
    return all;
  }
  const bool sees_half_at_least = shape.seq_kv >= shape.seq_q;
  if (sees_half_at_least && all * items.heads > 4.0 * kMostWalkSteps) {
    return all / 2.0;  // Beyond the limit by far, so no need to add up.
  }
  double visible = 0.0;
  for (int tile = 0; tile < items.q_tiles; ++tile) {
    visible += kv_tile_count(tile, shape.tile_m, shape.tile_n, sequence);
  }
  return visible;
}

std::string text_of(const ScheduleShape& shape) {
  return "attention with batch " + std::to_string(shape.batch) + ", " +
         std::to_string(shape.heads_q) + "/" + std::to_string(shape.heads_kv) + " heads and " +
         std::to_string(shape.seq_q) + "/" + std::to_string(shape.seq_kv) + " rows in tiles of " +
         std::to_string(shape.tile_m) + "x" + std::to_string(shape.tile_n);
}

}  // namespace

WalkCost walk_cost(const ScheduleShape& shape) {
  const auto items = static_cast<double>(shape.items().count());
  const double places =
      std::min(static_cast<double>(shape.ctas),
               static_cast<double>(shape.sm_count) * std::max(1, shape.ctas_per_sm));
  return {.bytes = static_cast<double>(kv_pair_count(shape)) *
                   (kBytes + kBytesPerPartition * shape.l2_partitions),
          .steps = shape.items().heads * steps_of_head(shape) + items * (1.0 + places)};
}

std::optional<std::string> beyond_walk_limits(const ScheduleShape& launch) {
  return beyond_walk_limits(walk_cost(launch), text_of(launch));
}

void require_walkable(const ScheduleShape& launch) {
  require_walkable(walk_cost(launch), text_of(launch));
}

std::unique_lock<std::mutex> memory_for_walk(const ScheduleShape& launch) {
  return memory_for_walk(walk_cost(launch));
}

}  // namespace swr
