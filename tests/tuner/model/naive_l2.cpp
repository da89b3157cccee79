// SPDX-License-Identifier: MIT
#include "tests/tuner/model/naive_l2.h"

#include <algorithm>
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

  void touch(const Tile& tile, int sectors) {
    const auto found = std::find_if(by_recency.begin(), by_recency.end(),
                                    [&](const auto& entry) { return entry.first == tile; });
    if (found != by_recency.end()) {
      by_recency.splice(by_recency.begin(), by_recency, found);
      return;
    }
    (seen.insert(tile).second ? compulsory : excess) += sectors;
    by_recency.emplace_front(tile, sectors);
    used += sectors;
    while (used > capacity) {
      used -= by_recency.back().second;
      by_recency.pop_back();
    }
  }
};

struct Cta {
  long long index = 0;
  int iteration = 0;
  int step = 0;
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

  void begin(const QTile& tile) {
    const int sectors = sectors_of(tile.index, shape.tile_m, shape.seq_q);
    cache.touch({'Q', tile.head, tile.index}, sectors);
    summary.read_sectors += sectors;
    ++summary.q_tiles;
  }

  void end(const QTile& tile) {
    const int sectors = sectors_of(tile.index, shape.tile_m, shape.seq_q);
    cache.touch({'O', tile.head, tile.index}, sectors);
    summary.write_sectors += sectors;
  }

  void launch(std::optional<Cta>& slot) {
    slot.reset();
    while (launched < shape.ctas && !slot) {
      slot = Cta{launched++};
      if (const auto tile = tile_of(*slot)) {
        begin(*tile);
      } else {
        slot.reset();
      }
    }
  }

  void step_all() {
    std::set<std::pair<int, int>> touched;
    for (auto& slot : slots) {
      if (!slot) {
        continue;
      }
      ++summary.steps;
      const QTile tile = *tile_of(*slot);
      const int count = count_of(tile);
      if (count == 0) {
        continue;
      }
      const bool backward = scans_backward(shape.order, slot->iteration);
      const int kv = kv_tile_at(slot->step, count, backward);
      const int sectors = sectors_of(kv, shape.tile_n, shape.seq_kv);
      summary.read_sectors += 2 * sectors;
      if (touched.insert({kv_head(tile.head), kv}).second) {
        cache.touch({'K', kv_head(tile.head), kv}, sectors);
        cache.touch({'V', kv_head(tile.head), kv}, sectors);
      }
    }
  }

  void advance_all() {
    for (auto& slot : slots) {
      if (!slot || ++slot->step < std::max(1, count_of(*tile_of(*slot)))) {
        continue;
      }
      end(*tile_of(*slot));
      ++slot->iteration;
      slot->step = 0;
      if (const auto tile = tile_of(*slot)) {
        begin(*tile);
      } else {
        launch(slot);
      }
    }
  }

  void run() {
    slots.resize(static_cast<std::size_t>(shape.sm_count) *
                 static_cast<std::size_t>(shape.ctas_per_sm));
    for (auto& slot : slots) {
      launch(slot);
    }
    while (std::any_of(slots.begin(), slots.end(), [](const auto& s) { return s.has_value(); })) {
      step_all();
      advance_all();
      ++summary.makespan_steps;
    }
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
