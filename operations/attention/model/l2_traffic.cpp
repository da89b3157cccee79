// SPDX-License-Identifier: MIT
#include "operations/attention/model/l2_traffic.h"

#include "model/l2/partitioned_l2.h"
#include <swr/result.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

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

/// Within the limits of walks an int holds them.
int pairs_of(const ScheduleShape& shape, int tiles_at_once) {
  return static_cast<int>(kv_pair_count(shape, tiles_at_once));
}

long long kv_sectors_of(const ScheduleShape& shape) {
  return 2LL * shape.batch * shape.heads_kv * shape.seq_kv * shape.row_sectors;
}

template <typename Cache>
L2Traffic walk_through(const ScheduleShape& shape, const Cache& empty, int tiles_at_once) {
  PartitionedL2<Cache> l2(empty, shape.l2_partitions, pairs_of(shape, tiles_at_once));
  L2Traffic traffic;
  traffic.schedule = AttentionWalk(shape, l2, tiles_at_once).run();
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

/// How many K and V heads CTAs scan at once when the launch begins: as many equal shares of the
/// CTAs as are as uneven as theirs (inverse Simpson index), so that a few CTAs of a next head
/// hardly count.
double heads_scanned_at_once(const ScheduleShape& shape) {
  const long long places = static_cast<long long>(shape.sm_count) * shape.ctas_per_sm;
  std::vector<double> ctas_of_head(static_cast<std::size_t>(shape.batch * shape.heads_kv));
  double ctas = 0.0;
  long long drawn = 0;
  for (long long cta = 0; cta < std::min(places, shape.ctas); ++cta) {
    const long long number = next_work_item(shape, cta, 0, drawn);
    if (number >= 0) {
      const int head = kv_head_of(shape, work_item_at(shape, number).tile);
      ++ctas_of_head[static_cast<std::size_t>(head)];
      ++ctas;
    }
  }
  const double squares =
      std::inner_product(ctas_of_head.begin(), ctas_of_head.end(), ctas_of_head.begin(), 0.0);
  return squares > 0.0 ? ctas * ctas / squares : 1.0;
}

/// Share of its capacity that an H200's L2 loses each time twice as many heads are scanned at once,
/// and at most, by traces of launches with 1 to 32 of them. That it is less is measured; why it is
/// not known.
constexpr double kLostPerDoubling = 0.02;
constexpr double kMostLost = 0.08;

double kept_share(const ScheduleShape& shape) {
  const double doublings = std::log2(heads_scanned_at_once(shape));
  return 1.0 - std::min(kMostLost, kLostPerDoubling * doublings);
}

}  // namespace

double L2Traffic::hit_rate() const {
  const auto demanded = static_cast<double>(schedule.read_sectors + schedule.write_sectors);
  return 1.0 - static_cast<double>(compulsory_misses + excess_misses) / demanded;
}

/// Every launch that was recorded is walked pair by pair. In longer ones what a CTA takes at once
/// is a fiftieth of the smallest L2 of the profiles at most, and a hundredth of a head: without a
/// mask misses then differ by 2 % at most, under the mask by 2 % in the median, where CTAs drift
/// apart by much more (experiments/l2_model).
int usual_tiles_at_once(const ScheduleShape& shape) {
  constexpr double kMostFineSteps = 18.0 * (1 << 20);
  constexpr double kCoarseSteps = 4.0 * (1 << 20);
  constexpr double kMostBytes = 512.0 * 1024;
  constexpr int kLeastPairsOfHead = 100;
  const double steps = walk_cost(shape).steps;
  if (steps <= kMostFineSteps) {
    return 1;
  }
  const double pair_bytes = 2.0 * shape.tile_n * shape.row_sectors * kSectorBytes;
  const int kv_tiles = ceil_div(shape.seq_kv, shape.tile_n);
  const double most = std::min(kMostBytes / pair_bytes, 1.0 * kv_tiles / kLeastPairsOfHead);
  return std::max(1, static_cast<int>(std::min(std::ceil(steps / kCoarseSteps), most)));
}

L2Traffic least_traffic(const ScheduleShape& shape) {
  L2Traffic traffic{.schedule = totals_of(shape)};
  const long long kv_sectors = kv_sectors_of(shape);
  traffic.compulsory_misses = 2 * traffic.schedule.write_sectors + kv_sectors;
  // As if no CTAs read a pair in the same step.
  const long long touches = traffic.schedule.read_sectors - traffic.schedule.write_sectors;
  traffic.front_miss_share = touches > 0 ? 1.0 * kv_sectors / touches : 0.0;
  return traffic;
}

namespace {

/// Of K and V of `footprint_sectors`, of which the launch may be a part.
L2Traffic simulate_part(const ScheduleShape& shape, const L2Policy& policy, int tiles_at_once,
                        long long footprint_sectors) {
  const auto memory = memory_for_walk(shape);
  const long long sectors = policy.effective_bytes / kSectorBytes;
  const int pairs = pairs_of(shape, tiles_at_once);
  if (policy.ways == 0) {
    return walk_through(shape, LruCache(sectors, 2 * pairs), tiles_at_once);
  }
  const auto kept = static_cast<long long>(kept_share(shape) * static_cast<double>(sectors));
  return walk_through(shape, SetAssociativeCache(kept, policy.ways, footprint_sectors, 2 * pairs),
                      tiles_at_once);
}

/// The first of many heads, where sections of heads follow one another under the mask; the launch
/// itself where they are few, or come to an end before the launch is well under way.
ScheduleShape first_sections(const ScheduleShape& shape) {
  constexpr int kSections = 4;
  constexpr int kLeastShare = 4;  ///< Of the heads, one in so many is left at most.
  constexpr int kLeastRounds = 16;
  const int group = shape.heads_q / shape.heads_kv;
  const int queries = group / shape.packed_heads;
  const int section = std::max(1, ceil_div(shape.section_heads, queries));
  const int all = shape.batch * shape.heads_kv;
  const int kept = kSections * section;
  const long long places = 1LL * shape.sm_count * shape.ctas_per_sm;
  ScheduleShape first = shape;
  first.batch = 1;
  first.heads_kv = kept;
  first.heads_q = kept * group;
  if (shape.ctas > places) {
    first.ctas = shape.ctas / all * kept;
  }
  const bool is_whole = shape.section_heads % queries == 0 || shape.section_heads == 1;
  const bool divides = shape.ctas <= places || shape.ctas % all == 0;
  const bool is_long = first.items().count() >= kLeastRounds * places;
  const bool are_many = kLeastShare * kept <= all;
  return shape.causal && is_whole && divides && is_long && are_many ? first : shape;
}

}  // namespace

L2Traffic simulate_l2(const ScheduleShape& shape, const L2Policy& policy) {
  const int tiles_at_once = usual_tiles_at_once(shape);
  const ScheduleShape first = tiles_at_once > 1 ? first_sections(shape) : shape;
  if (first == shape) {
    return simulate_l2(shape, policy, tiles_at_once);
  }
  require_walkable(shape);
  const L2Traffic part = simulate_part(first, policy, tiles_at_once, kv_sectors_of(shape));
  const auto of_all = [&](long long of_part) {
    return of_part * shape.batch * shape.heads_kv / first.heads_kv;
  };
  L2Traffic traffic = least_traffic(shape);
  traffic.schedule.makespan_steps = of_all(part.schedule.makespan_steps);
  traffic.schedule.busiest_sm_steps = of_all(part.schedule.busiest_sm_steps);
  traffic.schedule.in_turn = part.schedule.in_turn;
  traffic.excess_misses = of_all(part.excess_misses);
  traffic.front_miss_share = part.front_miss_share;
  return traffic;
}

L2Traffic simulate_l2(const ScheduleShape& shape, const L2Policy& policy, int tiles_at_once) {
  require_walkable(shape);
  return simulate_part(shape, policy, tiles_at_once, kv_sectors_of(shape));
}

MissCurve miss_curve(const ScheduleShape& shape) {
  require_walkable(shape);
  const auto memory = memory_for_walk(shape);
  ScheduleShape unlimited = shape;
  unlimited.dram_sectors_per_step = 0;
  constexpr int kResolutionSectors = 1024 / kSectorBytes;
  unlimited.l2_partitions = 1;
  const int tiles_at_once = usual_tiles_at_once(shape);
  WholeL2 l2{ReuseDistance(pairs_of(shape, tiles_at_once), kResolutionSectors)};
  AttentionWalk(unlimited, l2, tiles_at_once).run();
  return l2.distances.curve();
}

}  // namespace swr
