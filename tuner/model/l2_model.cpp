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

}  // namespace

double L2Traffic::hit_rate() const {
  const auto demanded = static_cast<double>(schedule.read_sectors + schedule.write_sectors);
  return 1.0 - static_cast<double>(compulsory_misses + excess_misses) / demanded;
}

L2Traffic simulate_l2(const ScheduleShape& shape, long long l2_effective_bytes) {
  PartitionedL2 cache(l2_effective_bytes / kSectorBytes, shape.l2_partitions, kv_pair_count(shape));
  L2Traffic traffic;
  traffic.schedule = ScheduleWalk(shape, cache).run();
  traffic.compulsory_misses = cache.compulsory_misses();
  traffic.excess_misses = cache.excess_misses();
  const long long first_kv_touches =
      traffic.compulsory_misses - 2 * traffic.schedule.write_sectors;  // Without Q and O.
  if (cache.touched_sectors() > 0) {
    traffic.front_miss_share = static_cast<double>(first_kv_touches + traffic.excess_misses) /
                               static_cast<double>(cache.touched_sectors());
  }
  return traffic;
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
