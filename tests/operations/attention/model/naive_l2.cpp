// SPDX-License-Identifier: MIT
#include "tests/operations/attention/model/naive_l2.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace swr {
namespace {

/// 'K', 'V', 'Q' or 'O', or the lower-case letter for a copy; head, tile.
using Tile = std::tuple<char, int, int>;

/// One partition.
struct Cache {
  long long capacity = 0;
  long long used = 0;
  std::list<std::pair<Tile, int>> by_recency{};  // Front is the most recent.

  /// True when the tile was there.
  bool touch(const Tile& tile, int sectors) {
    const auto found = std::find_if(by_recency.begin(), by_recency.end(),
                                    [&](const auto& entry) { return entry.first == tile; });
    if (found != by_recency.end()) {
      by_recency.splice(by_recency.begin(), by_recency, found);
      return true;
    }
    if (sectors > 0) {
      by_recency.emplace_front(tile, sectors);
    }
    used += sectors;
    while (used > capacity) {
      used -= by_recency.back().second;
      by_recency.pop_back();
    }
    return sectors == 0;
  }
};

struct L2 {
  std::vector<Cache> partitions{};
  std::set<std::pair<std::size_t, Tile>> seen{};
  long long compulsory = 0;
  long long excess = 0;

  int home(int sectors, std::size_t partition) const {
    const int count = static_cast<int>(partitions.size());
    return sectors / count + (static_cast<int>(partition) < sectors % count ? 1 : 0);
  }

  /// Sectors fetched because the home in the partition has lost them.
  int touch_home(const Tile& tile, int sectors, std::size_t partition) {
    const int share = home(sectors, partition);
    if (partitions[partition].touch(tile, share)) {
      return 0;
    }
    (seen.insert({partition, tile}).second ? compulsory : excess) += share;
    return share;
  }

  /// An SM of the partition reads K and V tiles, or a Q tile, of so many sectors each.
  int read(const std::vector<Tile>& tiles, int sectors, std::size_t partition) {
    int fetched = 0;
    for (const Tile& tile : tiles) {
      fetched += touch_home(tile, sectors, partition);
    }
    for (const auto& [letter, head, index] : tiles) {
      const Tile copy{static_cast<char>(letter + 'a' - 'A'), head, index};
      if (!partitions[partition].touch(copy, sectors - home(sectors, partition))) {
        for (std::size_t other = 0; other < partitions.size(); ++other) {
          fetched += other == partition ? 0 : touch_home({letter, head, index}, sectors, other);
        }
      }
    }
    return fetched;
  }

  void write(const Tile& tile, int sectors) {
    compulsory += sectors;
    for (auto& partition : partitions) {
      partition.touch(tile, sectors);
    }
  }
};

struct Cta {
  long long index = 0;
  int iteration = 0;
  int step = 0;
  long long free_at = 0;
};

/// A Q tile, or the keys of one that a split scans.
struct Work {
  QTile tile;
  int split = 0;
};

struct Simulator {
  const ScheduleShape& shape;
  L2 l2;
  ScheduleSummary summary;
  SequenceShape sequence{shape.seq_q, shape.seq_kv, shape.causal, shape.packed_heads};
  int q_rows = shape.seq_q * shape.packed_heads;
  int q_tiles = ceil_div(q_rows, shape.tile_m);
  int heads = shape.batch * shape.heads_q / shape.packed_heads;
  long long tiles = static_cast<long long>(heads) * q_tiles;
  long long launched = 0;
  std::vector<std::optional<Cta>> slots{};
  long long now = 0;
  double memory_free_at = 0;
  /// Partition, K and V head and tile.
  using View = std::tuple<std::size_t, int, int>;
  std::map<View, long long> arrives_at{};
  std::vector<long long> sm_steps{};

  std::optional<Work> work_of(const Cta& cta) const {
    const long long number =
        cta_tile(shape.persistence, cta.index, shape.ctas, cta.iteration, tiles * shape.kv_splits);
    if (number < 0) {
      return std::nullopt;
    }
    QTile tile = map_tile(number / shape.kv_splits, q_tiles, heads, shape.section_heads);
    if (shape.longest_first) {
      tile.index = q_tiles - 1 - tile.index;
    }
    return Work{tile, static_cast<int>(number % shape.kv_splits)};
  }

  int kv_head(int head) const {
    const int heads_per_item = shape.heads_q / shape.packed_heads;
    return head / heads_per_item * shape.heads_kv +
           (head % heads_per_item) / (heads_per_item / shape.heads_kv);
  }

  int sectors_of(int tile, int tile_rows, int rows) const {
    return std::min(tile_rows, rows - tile * tile_rows) * shape.row_sectors;
  }

  int first_of(const Work& work, int split) const {
    return kv_tile_count(work.tile.index, shape.tile_m, shape.tile_n, sequence) * split /
           shape.kv_splits;
  }
  int count_of(const Work& work) const {
    return first_of(work, work.split + 1) - first_of(work, work.split);
  }

  int sm_of(std::size_t slot) const {
    return static_cast<int>(slot % static_cast<std::size_t>(shape.sm_count));
  }

  std::size_t partition_of(std::size_t slot) const {
    return static_cast<std::size_t>(
        partition_of_sm(shape.partition_runs, shape.l2_partitions, shape.sm_count, sm_of(slot)));
  }

  void begin(Cta& cta, const Work& work, std::size_t slot) {
    const int sectors = sectors_of(work.tile.index, shape.tile_m, q_rows);
    if (work.split == 0) {
      l2.read({{'Q', work.tile.head, work.tile.index}}, sectors, partition_of(slot));
    }
    summary.read_sectors += sectors;
    cta.step = 0;
    cta.free_at = now + pace_delay_ticks(shape, sm_of(slot), std::max(1, count_of(work)));
  }

  void end(const Work& work, std::size_t slot) {
    if (work.split == shape.kv_splits - 1) {
      const int sectors = sectors_of(work.tile.index, shape.tile_m, q_rows);
      l2.write({'O', work.tile.head, work.tile.index}, sectors);
      summary.write_sectors += sectors;
    }
    ++summary.q_tiles;
    sm_steps[slot % sm_steps.size()] += std::max(1, count_of(work));
  }

  void launch(std::size_t index) {
    std::optional<Cta>& slot = slots[index];
    slot.reset();
    while (launched < shape.ctas && !slot) {
      slot = Cta{.index = launched++};
      if (const auto work = work_of(*slot)) {
        begin(*slot, *work, index);
      } else {
        slot.reset();
      }
    }
  }

  long long fetch(int sectors, int pair_sectors) {
    if (shape.dram_sectors_per_step == 0) {
      return now;
    }
    memory_free_at = std::max(memory_free_at, double(now)) +
                     kTicksPerStep * double(sectors) / shape.dram_sectors_per_step;
    const auto delivered = static_cast<long long>(std::ceil(memory_free_at));
    const long long delay = static_cast<long long>(shape.miss_ticks) * sectors / pair_sectors;
    return std::max(now + delay, delivered - kTicksPerStep);
  }

  /// Of the CTA in the slot, among those that are on its SM now.
  int step_ticks(std::size_t slot) const {
    if (shape.step_ticks.empty()) {
      return kTicksPerStep;
    }
    int active = 0;
    int place = 0;
    for (std::size_t other = 0; other < slots.size(); ++other) {
      if (slots[other] && sm_of(other) == sm_of(slot)) {
        ++active;
        place += other < slot ? 1 : 0;
      }
    }
    return shape.step_ticks.at(step_ticks_index(active, place));
  }

  /// The CTA computes one K and V tile pair.
  void compute(Cta& cta, const Work& work, std::size_t slot, std::set<View>& touched) {
    const std::size_t partition = partition_of(slot);
    const bool backward = scans_backward(shape.order, cta.iteration);
    const int kv = first_of(work, work.split) + kv_tile_at(cta.step, count_of(work), backward);
    const int sectors = sectors_of(kv, shape.tile_n, shape.seq_kv);
    const int head = kv_head(work.tile.head);
    summary.read_sectors += 2 * sectors;
    long long& arrives = arrives_at[{partition, head, kv}];
    if (touched.insert({partition, head, kv}).second) {
      const int fetched = l2.read({{'K', head, kv}, {'V', head, kv}}, sectors, partition);
      if (fetched > 0) {
        arrives = fetch(fetched, 2 * sectors);
      }
      for (std::size_t other = 0; other < l2.partitions.size(); ++other) {
        arrives = std::max(arrives, arrives_at[{other, head, kv}]);
      }
    }
    cta.free_at = std::max(now, arrives) + step_ticks(slot);
  }

  void step_all() {
    std::set<View> touched;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      auto& slot = slots[i];
      if (!slot || slot->free_at > now) {
        continue;
      }
      const Work work = *work_of(*slot);
      if (count_of(work) == 0) {
        slot->free_at += kTicksPerStep;
      } else {
        compute(*slot, work, i, touched);
      }
      ++slot->step;
      ++summary.steps;
    }
    now = std::numeric_limits<long long>::max();
    for (const auto& slot : slots) {
      now = slot ? std::min(now, slot->free_at) : now;
    }
  }

  void finish_all() {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      auto& slot = slots[i];
      if (!slot || slot->free_at > now || slot->step < std::max(1, count_of(*work_of(*slot)))) {
        continue;
      }
      end(*work_of(*slot), i);
      ++slot->iteration;
      if (const auto work = work_of(*slot)) {
        begin(*slot, *work, i);
      } else {
        launch(i);
      }
    }
  }

  void run() {
    const auto sms = static_cast<std::size_t>(shape.sm_count);
    slots.resize(sms * static_cast<std::size_t>(shape.ctas_per_sm));
    sm_steps.resize(sms);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      launch(i);
    }
    while (std::any_of(slots.begin(), slots.end(), [](const auto& s) { return s.has_value(); })) {
      step_all();
      finish_all();
    }
    summary.makespan_steps = now / kTicksPerStep;
    summary.busiest_sm_steps = *std::max_element(sm_steps.begin(), sm_steps.end());
  }
};

}  // namespace

L2Traffic naive_l2(const ScheduleShape& shape, long long capacity_sectors) {
  Simulator simulator{.shape = shape, .l2 = {}, .summary = {}};
  simulator.l2.partitions.resize(static_cast<std::size_t>(shape.l2_partitions),
                                 {.capacity = capacity_sectors});
  simulator.run();
  return L2Traffic{.schedule = simulator.summary,
                   .compulsory_misses = simulator.l2.compulsory,
                   .excess_misses = simulator.l2.excess};
}

}  // namespace swr
