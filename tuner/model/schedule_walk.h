// SPDX-License-Identifier: MIT
// Runs the shared schedule (templates/common/schedule.h) in time and reports the tiles it touches:
// the same functions the kernel calls decide which CTA reads which tile when.
//
// Time is counted in KV steps: every resident CTA computes one K and V tile pair per step, starts
// its next Q tile or CTA as soon as one ends, and so keeps the causal imbalance. A pair that
// several CTAs read in one step is reported once; the sectors they demand are counted for each.
#pragma once

#include "templates/common/schedule.h"
#include <swr/axes.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <vector>

namespace swr {

/// What L2 sees of a launch. Variants that agree here have the same traffic, so this is the key
/// under which a walk is remembered.
struct ScheduleShape {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 0;
  int seq_kv = 0;
  bool causal = false;
  int row_sectors = 0;  ///< 32-byte sectors of one row of Q, K, V or O.
  int tile_m = 0;
  int tile_n = 0;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;
  int section_heads = 1;
  long long ctas = 0;   ///< CTAs launched.
  int sm_count = 0;     ///< Slot s belongs to SM s % sm_count: CTAs are dealt breadth first.
  int ctas_per_sm = 0;  ///< CTAs an SM holds at once; never more than the launch can fill.

  auto operator<=>(const ScheduleShape&) const = default;
};

/// Requires: ctas_per_sm >= 1, sm_count >= 1.
ScheduleShape make_schedule_shape(const AttentionProblem& problem, const Variant& variant,
                                  int sm_count, int ctas_per_sm);

/// Distinct K and V tile pairs: ids run from 0 to this, kv_head * kv_tiles + tile.
int kv_pair_count(const ScheduleShape& shape);

/// Totals of a schedule, independent of any cache.
struct ScheduleSummary {
  long long read_sectors = 0;      ///< Q, K and V sectors demanded, every CTA's own.
  long long write_sectors = 0;     ///< O sectors.
  long long q_tiles = 0;           ///< Q tiles computed.
  long long steps = 0;             ///< KV steps of all CTAs together.
  long long makespan_steps = 0;    ///< Steps until the last CTA ends.
  long long busiest_sm_steps = 0;  ///< Steps of the SM with the most work.
  long long busiest_sm_tiles = 0;  ///< Q tiles of the SM with the most of them.
};

/// Sink needs touch(int pair, int sectors) for a K and V tile pair and touch_once(int sectors) for
/// a Q or O tile, which no one touches again. A K tile and its V tile are always used together, so
/// under LRU both hit or both miss and one object stands for the two exactly.
template <typename Sink>
class ScheduleWalk {
 public:
  ScheduleWalk(const ScheduleShape& shape, Sink& sink);

  /// Walks the whole launch. Call once.
  ScheduleSummary run();

 private:
  /// A place for one resident CTA.
  struct Slot {
    long long cta = 0;
    int sm = 0;
    int iteration = 0;
    int pair = 0;  ///< Next pair.
    int direction = 1;
    int remaining = 0;  ///< Steps left of the Q tile.
    int o_sectors = 0;
    bool reads_kv = true;
  };
  struct Stream {
    int pair = 0;
    int direction = 1;
  };

  bool start_tile(Slot& slot);
  bool start_next(Slot& slot);
  void enter_tile(Slot& slot, QTile tile);
  void finish_tiles(int steps);
  int shortest_remaining() const;
  void collect_streams();
  void stream(int steps);

  ScheduleShape shape_;
  Sink& sink_;
  SequenceShape sequence_;
  int heads_ = 0;
  int q_tiles_per_head_ = 0;
  int kv_tiles_per_head_ = 0;
  long long tiles_ = 0;
  long long next_cta_ = 0;
  long long now_ = 0;
  long long burst_ = 0;
  std::vector<Slot> slots_;
  std::vector<Stream> streams_;
  std::vector<int> pair_sectors_;
  std::vector<long long> touched_at_;  ///< Step of a pair's last touch.
  /// Burst in which a stream at a pair was last collected, forwards and backwards.
  std::vector<long long> collected_in_[2];
  std::vector<long long> sm_steps_;
  std::vector<long long> sm_tiles_;
  ScheduleSummary summary_;
};

template <typename Sink>
ScheduleWalk<Sink>::ScheduleWalk(const ScheduleShape& shape, Sink& sink)
    : shape_(shape),
      sink_(sink),
      sequence_{shape.seq_q, shape.seq_kv, shape.causal},
      heads_(shape.batch * shape.heads_q),
      q_tiles_per_head_(ceil_div(shape.seq_q, shape.tile_m)),
      kv_tiles_per_head_(ceil_div(shape.seq_kv, shape.tile_n)),
      tiles_(static_cast<long long>(heads_) * q_tiles_per_head_) {
  const auto pairs = static_cast<std::size_t>(kv_pair_count(shape));
  pair_sectors_.resize(pairs);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const int first_row = static_cast<int>(pair) % kv_tiles_per_head_ * shape.tile_n;
    const int rows = min_of(shape.tile_n, shape.seq_kv - first_row);
    pair_sectors_[pair] = 2 * rows * shape.row_sectors;
  }
  touched_at_.assign(pairs, -1);
  collected_in_[0].assign(pairs, -1);
  collected_in_[1].assign(pairs, -1);
  sm_steps_.assign(static_cast<std::size_t>(shape.sm_count), 0);
  sm_tiles_.assign(static_cast<std::size_t>(shape.sm_count), 0);
}

template <typename Sink>
ScheduleSummary ScheduleWalk<Sink>::run() {
  const long long places = static_cast<long long>(shape_.sm_count) * shape_.ctas_per_sm;
  const long long residents = std::min(places, shape_.ctas);
  for (long long i = 0; i < residents; ++i) {
    Slot slot;
    slot.sm = static_cast<int>(i % shape_.sm_count);
    if (start_next(slot)) {
      slots_.push_back(slot);
    }
  }
  while (!slots_.empty()) {
    const int steps = shortest_remaining();
    collect_streams();
    stream(steps);
    finish_tiles(steps);
  }
  summary_.makespan_steps = now_;
  summary_.busiest_sm_steps = *std::max_element(sm_steps_.begin(), sm_steps_.end());
  summary_.busiest_sm_tiles = *std::max_element(sm_tiles_.begin(), sm_tiles_.end());
  return summary_;
}

/// Gives the slot the CTA's next Q tile; false when the CTA is done.
template <typename Sink>
bool ScheduleWalk<Sink>::start_tile(Slot& slot) {
  const long long linear =
      cta_tile(shape_.persistence, slot.cta, shape_.ctas, slot.iteration, tiles_);
  if (linear < 0) {
    return false;
  }
  enter_tile(slot, map_tile(linear, q_tiles_per_head_, heads_, shape_.section_heads));
  return true;
}

/// Gives the slot the next CTA of the launch; false when there is none.
template <typename Sink>
bool ScheduleWalk<Sink>::start_next(Slot& slot) {
  while (next_cta_ < shape_.ctas) {
    slot.cta = next_cta_++;
    slot.iteration = 0;
    if (start_tile(slot)) {
      return true;
    }
  }
  return false;
}

template <typename Sink>
void ScheduleWalk<Sink>::enter_tile(Slot& slot, QTile tile) {
  const int count = kv_tile_count(tile.index, shape_.tile_m, shape_.tile_n, sequence_);
  const bool backward = scans_backward(shape_.order, slot.iteration);
  const int heads_per_kv = shape_.heads_q / shape_.heads_kv;
  const int kv_head =
      tile.head / shape_.heads_q * shape_.heads_kv + tile.head % shape_.heads_q / heads_per_kv;
  slot.reads_kv = count > 0;
  slot.remaining = max_of(count, 1);  // A tile that sees no key still occupies its CTA.
  slot.direction = backward ? -1 : 1;
  slot.pair = kv_head * kv_tiles_per_head_ + (count > 0 ? kv_tile_at(0, count, backward) : 0);

  const int q_rows = min_of(shape_.tile_m, shape_.seq_q - tile.index * shape_.tile_m);
  slot.o_sectors = q_rows * shape_.row_sectors;
  sink_.touch_once(slot.o_sectors);  // The Q tile is as large as the O tile.
  const long long kv_rows = std::min(static_cast<long long>(count) * shape_.tile_n,
                                     static_cast<long long>(shape_.seq_kv));
  summary_.read_sectors += slot.o_sectors + 2 * kv_rows * shape_.row_sectors;
  summary_.write_sectors += slot.o_sectors;
  summary_.steps += slot.remaining;
  ++summary_.q_tiles;
  sm_steps_[static_cast<std::size_t>(slot.sm)] += slot.remaining;
  ++sm_tiles_[static_cast<std::size_t>(slot.sm)];
}

template <typename Sink>
int ScheduleWalk<Sink>::shortest_remaining() const {
  return std::min_element(slots_.begin(), slots_.end(),
                          [](const Slot& a, const Slot& b) { return a.remaining < b.remaining; })
      ->remaining;
}

/// CTAs at the same pair that move the same way stay together until one ends: one stream.
template <typename Sink>
void ScheduleWalk<Sink>::collect_streams() {
  streams_.clear();
  ++burst_;
  for (const Slot& slot : slots_) {
    if (!slot.reads_kv) {
      continue;
    }
    long long& collected =
        collected_in_[slot.direction > 0 ? 0 : 1][static_cast<std::size_t>(slot.pair)];
    if (collected != burst_) {
      collected = burst_;
      streams_.push_back({slot.pair, slot.direction});
    }
  }
}

template <typename Sink>
void ScheduleWalk<Sink>::stream(int steps) {
  for (int step = 0; step < steps; ++step) {
    for (Stream& stream : streams_) {
      const auto pair = static_cast<std::size_t>(stream.pair);
      if (touched_at_[pair] != now_) {  // Streams of opposite direction may cross on a pair.
        touched_at_[pair] = now_;
        sink_.touch(stream.pair, pair_sectors_[pair]);
      }
      stream.pair += stream.direction;
    }
    ++now_;
  }
}

template <typename Sink>
void ScheduleWalk<Sink>::finish_tiles(int steps) {
  std::size_t kept = 0;
  for (Slot& slot : slots_) {
    slot.remaining -= steps;
    slot.pair += slot.direction * steps;
    bool busy = slot.remaining > 0;
    if (!busy) {
      sink_.touch_once(slot.o_sectors);
      ++slot.iteration;
      busy = start_tile(slot) || start_next(slot);
    }
    if (busy) {
      slots_[kept++] = slot;
    }
  }
  slots_.resize(kept);
}

}  // namespace swr
