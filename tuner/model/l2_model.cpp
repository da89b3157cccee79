// SPDX-License-Identifier: MIT
#include "tuner/model/l2_model.h"

#include "tuner/model/partitioned_l2.h"
#include <swr/result.h>

namespace swr {

namespace {

/// Reuse distances in an L2 of one partition.
struct WholeL2 {
  ReuseDistance distances;

  int touch(int pair, int sectors, int /*partition*/) {
    return distances.touch(pair, sectors) ? 0 : sectors;
  }
  void read_once(int sectors, int /*partition*/) { distances.touch_once(sectors); }
  void write_once(int sectors) { distances.touch_once(sectors); }
};

template <typename Cache>
L2Traffic walk_through(const ScheduleShape& shape, const Cache& empty) {
  PartitionedL2<Cache> l2(empty, shape.l2_partitions, kv_pair_count(shape));
  L2Traffic traffic;
  traffic.schedule = ScheduleWalk(shape, l2).run();
  traffic.compulsory_misses = l2.compulsory_misses();
  traffic.excess_misses = l2.excess_misses();
  const long long first_kv_touches =
      traffic.compulsory_misses - 2 * traffic.schedule.write_sectors;  // Without Q and O.
  if (l2.touched_sectors() > 0) {
    traffic.front_miss_share = static_cast<double>(first_kv_touches + traffic.excess_misses) /
                               static_cast<double>(l2.touched_sectors());
  }
  return traffic;
}

}  // namespace

double L2Traffic::hit_rate() const {
  const auto demanded = static_cast<double>(schedule.read_sectors + schedule.write_sectors);
  return 1.0 - static_cast<double>(compulsory_misses + excess_misses) / demanded;
}

L2Traffic simulate_l2(const ScheduleShape& shape, const L2Policy& policy) {
  const long long sectors = policy.effective_bytes / kSectorBytes;
  const int pairs = kv_pair_count(shape);
  if (policy.ways == 0) {
    return walk_through(shape, LruCache(sectors, 2 * pairs));
  }
  const long long kv_sectors =
      2LL * shape.batch * shape.heads_kv * shape.seq_kv * shape.row_sectors;
  return walk_through(shape, SetAssociativeCache(sectors, policy.ways, kv_sectors, 2 * pairs));
}

MissCurve miss_curve(const ScheduleShape& shape) {
  ScheduleShape unlimited = shape;
  unlimited.dram_sectors_per_step = 0;
  constexpr int kResolutionSectors = 1024 / kSectorBytes;
  unlimited.l2_partitions = 1;
  WholeL2 l2{ReuseDistance(kv_pair_count(shape), kResolutionSectors)};
  ScheduleWalk(unlimited, l2).run();
  return l2.distances.curve();
}

}  // namespace swr
