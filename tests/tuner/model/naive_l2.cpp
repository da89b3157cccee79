// SPDX-License-Identifier: MIT
#include "tests/tuner/model/naive_l2.h"

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

/// 'K', 'V', 'Q' or 'O', head, tile.
using Tile = std::tuple<char, int, int>;

struct Cache {
  long long capacity = 0;
  long long used = 0;
  std::list<std::pair<Tile, int>> by_recency{};  // Front is the most recent.
  std::set<Tile> seen{};
  long long compulsory = 0;
  long long excess = 0;

  /// True when the tile was there.
  bool touch(const Tile& tile, int sectors) { return touch(tile, sectors, sectors); }

  /// The tile counts as so many sectors and occupies so much of the capacity.
  bool touch(const Tile& tile, int sectors, int occupied) {
    const auto found = std::find_if(by_recency.begin(), by_recency.end(),
                                    [&](const auto& entry) { return entry.first == tile; });
    if (found != by_recency.end()) {
      by_recency.splice(by_recency.begin(), by_recency, found);
      return true;
    }
    (seen.insert(tile).second ? compulsory : excess) += sectors;
    by_recency.emplace_front(tile, occupied);
    used += occupied;
    while (used > capacity) {
      used -= by_recency.back().second;
      by_recency.pop_back();
    }
    return false;
  }
};

struct Cta {
  long long index = 0;
  int iteration = 0;
  int step = 0;
  long long started_at = 0;
  long long delayed = 0;
  long long free_at = 0;
};

struct Simulator {
  const ScheduleShape& shape;
  Cache cache;
  ScheduleSummary summary;
  SequenceShape sequence{shape.seq_q, shape.seq_kv, shape.causal};
  int q_tiles = ceil_div(shape.seq_q, shape.tile_m);
  int heads = shape.batch * shape.heads_q;
  long long tiles = static_cast<long long>(heads) * q_tiles;
  long long launched = 0;
  std::vector<std::optional<Cta>> slots{};
  long long now = 0;
  double memory_free_at = 0;
  std::map<std::pair<int, int>, long long> arrives_at{};
  std::vector<long long> sm_steps{}, sm_occupied{}, sm_tiles{};

  std::optional<QTile> tile_of(const Cta& cta) const {
    const long long linear =
        cta_tile(shape.persistence, cta.index, shape.ctas, cta.iteration, tiles);
    return linear < 0 ? std::nullopt
                      : std::optional(map_tile(linear, q_tiles, heads, shape.section_heads));
  }

  int kv_head(int head) const {
    return head / shape.heads_q * shape.heads_kv +
           (head % shape.heads_q) / (shape.heads_q / shape.heads_kv);
  }

  int sectors_of(int tile, int tile_rows, int rows) const {
    return std::min(tile_rows, rows - tile * tile_rows) * shape.row_sectors;
  }

  int count_of(const QTile& tile) const {
    return kv_tile_count(tile.index, shape.tile_m, shape.tile_n, sequence);
  }

  void begin(Cta& cta, const QTile& tile) {
    const int sectors = sectors_of(tile.index, shape.tile_m, shape.seq_q);
    cache.touch(
        {'Q', tile.head, tile.index}, sectors,
        sectors * (2 * shape.l2_partitions - 1) / shape.l2_partitions / shape.l2_partitions);
    summary.read_sectors += sectors;
    cta.step = 0;
    cta.started_at = now;
    cta.delayed = 0;
    cta.free_at = now;
  }

  void end(const Cta& cta, const QTile& tile, std::size_t sm) {
    const int sectors = sectors_of(tile.index, shape.tile_m, shape.seq_q);
    cache.touch({'O', tile.head, tile.index}, sectors, sectors / shape.l2_partitions);
    summary.write_sectors += sectors;
    ++summary.q_tiles;
    ++sm_tiles[sm];
    sm_steps[sm] += std::max(1, count_of(tile));
    sm_occupied[sm] += now - cta.started_at - cta.delayed;
  }

  void launch(std::optional<Cta>& slot) {
    slot.reset();
    while (launched < shape.ctas && !slot) {
      slot = Cta{.index = launched++};
      if (const auto tile = tile_of(*slot)) {
        begin(*slot, *tile);
      } else {
        slot.reset();
      }
    }
  }

  long long fetch(int sectors) {
    if (shape.dram_sectors_per_step == 0) {
      return now;
    }
    memory_free_at = std::max(memory_free_at, double(now)) +
                     kTicksPerStep * double(sectors) / shape.dram_sectors_per_step;
    const auto delivered = static_cast<long long>(std::ceil(memory_free_at));
    return std::max(now + shape.miss_ticks, delivered - kTicksPerStep);
  }

  /// The CTA computes one K and V tile pair.
  void compute(Cta& cta, const QTile& tile, std::set<std::pair<int, int>>& touched) {
    const bool backward = scans_backward(shape.order, cta.iteration);
    const int kv = kv_tile_at(cta.step, count_of(tile), backward);
    const int sectors = sectors_of(kv, shape.tile_n, shape.seq_kv);
    const std::pair pair{kv_head(tile.head), kv};
    summary.read_sectors += 2 * sectors;
    if (touched.insert(pair).second) {
      const bool k_hit = cache.touch({'K', pair.first, kv}, sectors);
      const bool v_hit = cache.touch({'V', pair.first, kv}, sectors);
      if (!k_hit || !v_hit) {
        arrives_at[pair] = fetch(2 * sectors);
      }
    }
    const long long waited = std::max(0LL, arrives_at[pair] - now);
    cta.delayed += std::min<long long>(waited, shape.miss_ticks);
    cta.free_at = now + waited + kTicksPerStep;
  }

  void step_all() {
    std::set<std::pair<int, int>> touched;
    for (auto& slot : slots) {
      if (!slot || slot->free_at > now) {
        continue;
      }
      const QTile tile = *tile_of(*slot);
      if (count_of(tile) == 0) {
        slot->free_at = now + kTicksPerStep;
      } else {
        compute(*slot, tile, touched);
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
      if (!slot || slot->free_at > now || slot->step < std::max(1, count_of(*tile_of(*slot)))) {
        continue;
      }
      end(*slot, *tile_of(*slot), i % static_cast<std::size_t>(shape.sm_count));
      ++slot->iteration;
      if (const auto tile = tile_of(*slot)) {
        begin(*slot, *tile);
      } else {
        launch(slot);
      }
    }
  }

  void run() {
    const auto sms = static_cast<std::size_t>(shape.sm_count);
    slots.resize(sms * static_cast<std::size_t>(shape.ctas_per_sm));
    sm_steps.resize(sms);
    sm_occupied.resize(sms);
    sm_tiles.resize(sms);
    for (auto& slot : slots) {
      launch(slot);
    }
    while (std::any_of(slots.begin(), slots.end(), [](const auto& s) { return s.has_value(); })) {
      step_all();
      finish_all();
    }
    summary.makespan_steps = now / kTicksPerStep;
    summary.busiest_sm_steps = *std::max_element(sm_steps.begin(), sm_steps.end());
    summary.busiest_sm_occupied_steps =
        *std::max_element(sm_occupied.begin(), sm_occupied.end()) / kTicksPerStep;
    summary.busiest_sm_tiles = *std::max_element(sm_tiles.begin(), sm_tiles.end());
  }
};

}  // namespace

L2Traffic naive_l2(const ScheduleShape& shape, long long capacity_sectors) {
  Simulator simulator{.shape = shape, .cache = {.capacity = capacity_sectors}, .summary = {}};
  simulator.run();
  L2Traffic traffic;
  traffic.schedule = simulator.summary;
  traffic.compulsory_misses = simulator.cache.compulsory;
  traffic.excess_misses = simulator.cache.excess;
  return traffic;
}

}  // namespace swr
