// SPDX-License-Identifier: MIT
// Runs the shared schedule (templates/common/attention_schedule.h) in time and reports the tiles it
// touches: the same functions the kernel calls decide which CTA reads which tile when.
//
// Time goes in KV steps: every resident CTA computes one K and V tile pair per step, starts
// its next Q tile or CTA as soon as one ends, and so keeps the causal imbalance. A pair that
// several CTAs read in one step is reported once; the sectors they demand are counted for each.
// Long launches may take several neighbouring pairs at once, which then count as one.
//
// Memory may be given a rate. Then pairs that miss queue for it in order of request and a CTA waits
// until its pair has come, at least the latency that its copies in flight do not hide, while CTAs
// that hit go on: followers close up to the one that runs ahead and travel in its wake.
#pragma once

#include "model/l2/free_queue.h"
#include "model/walk_limits.h"
#include "templates/common/attention_schedule.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/axes.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  int packed_heads = 1;  ///< Query heads that share Q tiles: 1, or those of a K and V head.
  int kv_splits = 1;     ///< CTAs that share the K and V tiles of a Q tile.
  /// The Q tiles of a head with most K and V tiles come first under the mask.
  bool longest_first = false;
  long long ctas = 0;   ///< CTAs launched.
  int sm_count = 0;     ///< Slot s belongs to SM s % sm_count: CTAs are dealt breadth first.
  int ctas_per_sm = 0;  ///< CTAs an SM holds at once; never more than the launch can fill.
  /// Sectors that memory delivers during a KV step; 0 lets no CTA wait for memory.
  int dram_sectors_per_step = 0;
  /// How much longer than others a step takes whose pair must be fetched, in ticks, or less as far
  /// as less of it must be; without effect when memory has no rate.
  int miss_ticks = 0;
  /// Ticks of a step by the CTAs that compute on its SM and its CTA's place among theirs: of one
  /// alone, of the first and the second of two, of the first of three, and so on. Empty:
  /// kTicksPerStep.
  std::vector<int> step_ticks{};
  /// Slowest SM over fastest, in millionths: CTAs of one length drift apart.
  int pace_spread_ppm = 0;
  /// Partitions of L2. SMs are dealt CTAs partition after partition: neighbouring CTAs run on one
  /// GPC after the other, and a GPC belongs to one partition.
  int l2_partitions = 1;
  /// Where known, how many SMs in turn, in the order in which they are dealt CTAs, belong to the
  /// first, the next, .. and again the first partition. Sums to sm_count.
  std::vector<int> partition_runs{};

  auto operator<=>(const ScheduleShape&) const = default;

  SequenceShape sequence() const { return {seq_q, seq_kv, causal, packed_heads}; }
  WorkItems items() const {
    return {batch * heads_q / packed_heads, ceil_div(sequence().q_rows(), tile_m), kv_splits};
  }
};

/// What a CTA computes in one iteration: a Q tile, or a split of it.
struct WorkItem {
  QTile tile;
  int split = 0;
  int q_rows = 0;    ///< Rows of the tile that exist.
  KvTiles kv_tiles;  ///< What it scans.
};

/// Totals of a schedule, independent of any cache.
struct ScheduleSummary {
  long long read_sectors = 0;      ///< Q, K and V sectors demanded, every CTA's own.
  long long write_sectors = 0;     ///< O sectors.
  long long partial_sectors = 0;   ///< What splits leave, and the last to come reads, in sectors.
  long long q_tiles = 0;           ///< Q tiles, or splits of them, computed.
  long long steps = 0;             ///< KV steps of all CTAs together.
  long long makespan_steps = 0;    ///< Steps until the last CTA ends.
  long long busiest_sm_steps = 0;  ///< Steps of the SM with the most work.
  /// Whoever ended a CTA got the one that stands as many further in the launch as are resident.
  bool in_turn = true;
};

/// Requires: ctas_per_sm >= 1, sm_count >= 1.
ScheduleShape make_schedule_shape(const AttentionProblem& problem, const AttentionVariant& variant,
                                  int sm_count, int ctas_per_sm);

/// Number of the work item of a CTA's iteration, or -1 when it is done. Persistence::dynamic draws
/// the items after those dealt first: `drawn` counts them.
long long next_work_item(const ScheduleShape& shape, long long cta, int iteration,
                         long long& drawn);

WorkItem work_item_of(const ScheduleShape& shape, QTile tile, int split);
WorkItem work_item_at(const ScheduleShape& shape, long long number);

/// Number of the K and V head that an item reads, over the batch.
int kv_head_of(const ScheduleShape& shape, QTile tile);

/// Adds what an item reads, writes and computes.
void add_item(const ScheduleShape& shape, const WorkItem& item, ScheduleSummary& summary);

/// Totals that take no walk: all but makespan_steps and in_turn, with busiest_sm_steps as if the
/// SMs shared the steps evenly.
ScheduleSummary totals_of(const ScheduleShape& shape);

/// What an item leaves for the one that combines the splits of its Q tile: fp32 rows of O, a shift
/// and a sum of each.
long long partial_sectors(const ScheduleShape& shape, const WorkItem& item);

/// True when this work item streams K and V from last to first.
bool scans_backward(const ScheduleShape& shape, long long number, int iteration);

/// L2 partition of the SM that is dealt the launch's CTA number `sm`; `runs` as
/// ScheduleShape::partition_runs.
int partition_of_sm(std::span<const int> runs, int partitions, int sm_count, int sm);

/// How many steps more a Q tile of so many steps takes on this SM than on the fastest one, in
/// ticks. SMs' paces lie evenly within the spread, in scattered order.
long long pace_delay_ticks(const ScheduleShape& shape, int sm, int steps);

/// Index into ScheduleShape::step_ticks for the CTA in this place, from 0, of `active` on its SM.
constexpr std::size_t step_ticks_index(int active, int place) {
  return static_cast<std::size_t>(active * (active - 1) / 2 + place);
}

/// The grid launch whose walk is this one's if it turns out to go in turn: persistent CTAs take the
/// same tiles in the same order then. Empty where there is none.
std::optional<ScheduleShape> grid_in_turn(const ScheduleShape& shape);

/// Distinct K and V tile pairs, or groups of so many neighbours of a head: ids run from 0 to this,
/// first those of head 0. More than an int holds for legal problems, which are not walked
/// (walk_limits.h).
long long kv_pair_count(const ScheduleShape& shape, int tiles_at_once = 1);

/// Time of the walk is counted in ticks, because waiting for memory and differences of pace are
/// shorter than a KV step.
inline constexpr int kTicksPerStep = 4096;

/// Sink is told what SMs of a partition read and write: int touch(int pair, int sectors, int
/// partition) for a K and V tile pair, which answers how many sectors must be fetched, and
/// read_once(int sectors, int partition) and write_once(int sectors) for Q and O tiles, which no
/// one touches again. A K tile and its V tile are always used together, so under LRU both hit or
/// both miss and one object stands for the two exactly.
template <typename Sink>
class AttentionWalk {
 public:
  /// `tiles_at_once` is how many pairs of a head a CTA takes before it looks at others again: they
  /// are one pair to the sink. Totals stay exact.
  AttentionWalk(const ScheduleShape& shape, Sink& sink, int tiles_at_once = 1);

  /// Walks the whole launch. Call once.
  ScheduleSummary run();

 private:
  /// Where CTAs stand in K and V. Those at the same place stay together until one ends.
  struct Stream {
    int pair = 0;  ///< Next pair.
    int direction = 1;
    int remaining = 0;   ///< Steps left to start, of the CTA that ends first.
    int tiles_less = 0;  ///< That the item has fewer than all it is yet to take at once.
    int partition = 0;   ///< Of their SMs.
    long long step_ticks = 0;
    long long free_at = 0;  ///< When the step in progress ends.
  };
  struct View;
  /// A place for one resident CTA.
  struct Slot {
    long long cta = 0;
    int sm = 0;
    int iteration = 0;
    int remaining = 0;  ///< Steps of the Q tile left to start.
    int o_sectors = 0;  ///< Of the whole Q tile; 0 for all splits but the last.
    int steps = 0;      ///< Of the Q tile, a pair each.
    Stream place;
    std::size_t stream = 0;  ///< Index of its stream during a burst.
  };

  /// Of a pair as a partition sees it.
  std::size_t index_of(const Stream& stream) const {
    return static_cast<std::size_t>(stream.pair) * partitions_ +
           static_cast<std::size_t>(stream.partition);
  }
  bool start_tile(Slot& slot);
  bool start_next(Slot& slot);
  void enter_item(Slot& slot, const WorkItem& item, bool backward);
  void finish_tile(Slot& slot);
  static bool go_together(const Stream& a, const Stream& b) {
    return a.free_at == b.free_at && a.step_ticks == b.step_ticks && a.tiles_less == b.tiles_less;
  }
  void collect_streams();
  void join_stream(Slot& slot);
  long long queue_streams();
  FreeQueue* next_queue(long long end);
  void put_back(long long free_at, std::size_t stream);
  void run_burst();
  void advance(Stream& stream);
  void touch(const Stream& stream, View& view);
  long long fetch(int sectors, int pair_sectors);
  void leave_streams();
  void set_paces();

  ScheduleShape shape_;
  std::size_t partitions_;
  Sink& sink_;
  int tiles_at_once_;
  long long usual_ticks_;    ///< Of what a CTA takes at once.
  int pairs_per_head_ = 0;   ///< What it takes at once is a pair from here on.
  long long residents_ = 0;  ///< CTAs at once.
  long long next_cta_ = 0;
  long long drawn_ = 0;  ///< Tiles of Persistence::dynamic beyond the first of each CTA.
  long long now_ = 0;
  long long burst_ = 0;
  double memory_free_at_ = 0.0;  ///< When memory has delivered all it was asked for.
  std::vector<Slot> slots_;
  std::vector<Stream> streams_;
  /// Streams with steps left: those free usual_ticks_ after they began, which come in order of
  /// time, and the others, which wait for memory or have a pace of their own.
  FreeQueue punctual_;
  FreeQueue others_;
  std::vector<int> pair_sectors_;
  /// A K and V tile pair as the SMs of a partition see it.
  struct View {
    long long touched_at = -1;  ///< Last.
    long long arrives_at = 0;   ///< When what it waited for then has come.
  };
  std::vector<View> views_;  ///< Per pair and partition.
  /// The last stream collected at a pair and the burst it belongs to.
  struct Collected {
    long long burst = -1;
    std::size_t stream = 0;
  };
  std::vector<int> active_on_sm_;  ///< CTAs.
  std::vector<int> placed_on_sm_;  ///< Of these, those looked at.
  /// Per pair and partition, forwards and backwards.
  std::vector<Collected> collected_[2];
  std::vector<long long> sm_steps_;
  ScheduleSummary summary_;
};

template <typename Sink>
AttentionWalk<Sink>::AttentionWalk(const ScheduleShape& shape, Sink& sink, int tiles_at_once)
    : shape_(shape),
      partitions_(static_cast<std::size_t>(shape.l2_partitions)),
      sink_(sink),
      tiles_at_once_(tiles_at_once),
      usual_ticks_(1LL * kTicksPerStep * tiles_at_once),
      pairs_per_head_(ceil_div(ceil_div(shape.seq_kv, shape.tile_n), tiles_at_once)) {
  const auto pair_count = static_cast<std::size_t>(kv_pair_count(shape, tiles_at_once));
  const int pair_rows = shape.tile_n * tiles_at_once;
  pair_sectors_.resize(pair_count);
  for (std::size_t pair = 0; pair < pair_count; ++pair) {
    const int first_row = static_cast<int>(pair) % pairs_per_head_ * pair_rows;
    pair_sectors_[pair] = 2 * min_of(pair_rows, shape.seq_kv - first_row) * shape.row_sectors;
  }
  const std::size_t places = pair_count * partitions_;
  views_.resize(places);
  collected_[0].resize(places);
  collected_[1].resize(places);
  sm_steps_.assign(static_cast<std::size_t>(shape.sm_count), 0);
}

template <typename Sink>
ScheduleSummary AttentionWalk<Sink>::run() {
  const long long places = static_cast<long long>(shape_.sm_count) * shape_.ctas_per_sm;
  residents_ = std::min(places, shape_.ctas);
  for (long long i = 0; i < residents_; ++i) {
    Slot slot;
    slot.sm = static_cast<int>(i % shape_.sm_count);
    slot.place.partition =
        partition_of_sm(shape_.partition_runs, shape_.l2_partitions, shape_.sm_count, slot.sm);
    slot.place.step_ticks = usual_ticks_;
    if (start_next(slot)) {
      slots_.push_back(slot);
    }
  }
  set_paces();
  while (!slots_.empty()) {
    collect_streams();
    run_burst();
    leave_streams();
  }
  summary_.makespan_steps = now_ / kTicksPerStep;
  summary_.busiest_sm_steps = *std::max_element(sm_steps_.begin(), sm_steps_.end());
  return summary_;
}

/// Gives the slot the CTA's next Q tile; false when the CTA is done.
template <typename Sink>
bool AttentionWalk<Sink>::start_tile(Slot& slot) {
  const long long number = next_work_item(shape_, slot.cta, slot.iteration, drawn_);
  if (number < 0) {
    return false;
  }
  enter_item(slot, work_item_at(shape_, number), scans_backward(shape_, number, slot.iteration));
  return true;
}

/// Gives the slot the next CTA of the launch; false when there is none.
template <typename Sink>
bool AttentionWalk<Sink>::start_next(Slot& slot) {
  while (next_cta_ < shape_.ctas) {
    summary_.in_turn &= next_cta_ < residents_ || next_cta_ == slot.cta + residents_;
    slot.cta = next_cta_++;
    slot.iteration = 0;
    if (start_tile(slot)) {
      return true;
    }
  }
  return false;
}

template <typename Sink>
void AttentionWalk<Sink>::enter_item(Slot& slot, const WorkItem& item, bool backward) {
  const int count = item.kv_tiles.count;
  const int lowest = min_of(item.kv_tiles.first / tiles_at_once_, pairs_per_head_ - 1);
  const int pairs = ceil_div(item.kv_tiles.first + count, tiles_at_once_) - lowest;
  const int kv_head = kv_head_of(shape_, item.tile);
  slot.steps = max_of(count, 1);  // An item that sees no key still occupies its CTA.
  slot.remaining = count > 0 ? pairs : 0;
  slot.place.pair = kv_head * pairs_per_head_ + lowest +
                    (count > 0 ? kv_tile_at(0, slot.remaining, backward) : 0);
  slot.place.direction = backward ? -1 : 1;
  slot.place.tiles_less =
      slot.remaining * tiles_at_once_ - count;  // So that the item takes its time.
  slot.place.free_at = now_ + pace_delay_ticks(shape_, slot.sm, slot.steps);
  slot.place.free_at += count > 0 ? 0 : kTicksPerStep;

  const int q_sectors = item.q_rows * shape_.row_sectors;
  if (item.split == 0) {  // The other splits find Q in L2.
    sink_.read_once(q_sectors, slot.place.partition);
  }
  slot.o_sectors = item.split == shape_.kv_splits - 1 ? q_sectors : 0;
  add_item(shape_, item, summary_);
}

template <typename Sink>
void AttentionWalk<Sink>::finish_tile(Slot& slot) {
  if (slot.o_sectors > 0) {
    sink_.write_once(slot.o_sectors);
  }
  ++slot.iteration;
  sm_steps_[static_cast<std::size_t>(slot.sm)] += slot.steps;
}

template <typename Sink>
void AttentionWalk<Sink>::collect_streams() {
  streams_.clear();
  ++burst_;
  for (Slot& slot : slots_) {
    join_stream(slot);
  }
}

/// Puts the slot into the stream at its place, or begins one.
template <typename Sink>
void AttentionWalk<Sink>::join_stream(Slot& slot) {
  Stream& place = slot.place;
  place.remaining = slot.remaining;
  if (slot.remaining > 0) {
    Collected& collected = collected_[place.direction > 0 ? 0 : 1][index_of(place)];
    if (collected.burst == burst_ && go_together(streams_[collected.stream], place)) {
      slot.stream = collected.stream;
      Stream& stream = streams_[slot.stream];
      stream.remaining = min_of(stream.remaining, slot.remaining);
      return;
    }
    collected = {burst_, streams_.size()};
  }
  slot.stream = streams_.size();
  streams_.push_back(place);
}

/// Queues all streams with steps left; the time when the first of the others is done.
template <typename Sink>
long long AttentionWalk<Sink>::queue_streams() {
  long long end = std::numeric_limits<long long>::max();
  punctual_.clear();
  others_.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Free free{streams_[i].free_at, i};
    if (streams_[i].remaining == 0) {
      end = std::min(end, free.first);
    } else {
      (free.first <= now_ + usual_ticks_ ? punctual_ : others_).append(free);
    }
  }
  punctual_.sort();
  others_.sort();
  return end;
}

/// The queue of the stream that is free next; null when none is before `end`.
template <typename Sink>
FreeQueue* AttentionWalk<Sink>::next_queue(long long end) {
  const bool from_others =
      punctual_.empty() || (!others_.empty() && others_.front() < punctual_.front());
  FreeQueue& queue = from_others ? others_ : punctual_;
  return queue.empty() || queue.front().first >= end ? nullptr : &queue;
}

/// Puts a stream back that has begun a step.
template <typename Sink>
void AttentionWalk<Sink>::put_back(long long free_at, std::size_t stream) {
  (free_at == now_ + usual_ticks_ ? punctual_ : others_).push({free_at, stream});
}

/// Advances the streams, in order of time, until a CTA has computed the last step of its Q tile.
template <typename Sink>
void AttentionWalk<Sink>::run_burst() {
  long long end = queue_streams();
  while (FreeQueue* const queue = next_queue(end)) {
    const Free next = queue->take();
    now_ = next.first;
    Stream& stream = streams_[next.second];
    advance(stream);
    if (stream.remaining == 0) {
      end = std::min(end, stream.free_at);
    } else {
      put_back(stream.free_at, next.second);
    }
  }
  now_ = end;
}

/// Starts a step: the pair is touched and, when it must be fetched, waited for.
template <typename Sink>
void AttentionWalk<Sink>::advance(Stream& stream) {
  View& view = views_[index_of(stream)];
  if (view.touched_at != now_) {  // Streams of opposite direction may cross on a pair.
    view.touched_at = now_;
    touch(stream, view);
  }
  const int less = min_of(stream.tiles_less, tiles_at_once_ - 1);
  stream.free_at = std::max(now_, view.arrives_at) +
                   stream.step_ticks * (tiles_at_once_ - less) / tiles_at_once_;
  stream.tiles_less -= less;
  stream.pair += stream.direction;
  --stream.remaining;
}

/// The partition asks for the pair; what another one has asked for and not got yet is waited for
/// too.
template <typename Sink>
void AttentionWalk<Sink>::touch(const Stream& stream, View& view) {
  const auto pair = static_cast<std::size_t>(stream.pair);
  const int sectors = pair_sectors_[pair];
  const int fetched = sink_.touch(stream.pair, sectors, stream.partition);
  if (fetched > 0) {
    view.arrives_at = fetch(fetched, sectors);
  }
  const View* const views = &views_[pair * partitions_];
  for (std::size_t i = 0; i < partitions_; ++i) {
    view.arrives_at = std::max(view.arrives_at, views[i].arrives_at);
  }
}

/// Queues for memory for some sectors of a pair; when the last of them has come.
template <typename Sink>
long long AttentionWalk<Sink>::fetch(int sectors, int pair_sectors) {
  if (shape_.dram_sectors_per_step == 0) {
    return now_;
  }
  memory_free_at_ = std::max(memory_free_at_, static_cast<double>(now_)) +
                    kTicksPerStep * static_cast<double>(sectors) / shape_.dram_sectors_per_step;
  const long long delay = 1LL * shape_.miss_ticks * tiles_at_once_ * sectors / pair_sectors;
  return std::max(now_ + delay, static_cast<long long>(std::ceil(memory_free_at_)) - usual_ticks_);
}

/// Moves the slots to where their streams have come and gives new work to those that are done.
template <typename Sink>
void AttentionWalk<Sink>::leave_streams() {
  std::size_t kept = 0;
  for (Slot& slot : slots_) {
    const Stream& stream = streams_[slot.stream];
    slot.remaining -= std::abs(stream.pair - slot.place.pair);
    slot.place = stream;
    bool busy = slot.remaining > 0 || stream.free_at > now_;
    if (!busy) {
      finish_tile(slot);
      busy = start_tile(slot) || start_next(slot);
    }
    if (busy) {
      slots_[kept++] = slot;
    }
  }
  const bool any_ended = kept < slots_.size();
  slots_.resize(kept);
  if (any_ended) {
    set_paces();
  }
}

/// How long steps take with the CTAs that now share each SM.
template <typename Sink>
void AttentionWalk<Sink>::set_paces() {
  if (shape_.step_ticks.empty()) {
    return;
  }
  active_on_sm_.assign(sm_steps_.size(), 0);
  placed_on_sm_.assign(sm_steps_.size(), 0);
  for (const Slot& slot : slots_) {
    ++active_on_sm_[static_cast<std::size_t>(slot.sm)];
  }
  for (Slot& slot : slots_) {
    const auto sm = static_cast<std::size_t>(slot.sm);
    slot.place.step_ticks =
        1LL * tiles_at_once_ *
        shape_.step_ticks[step_ticks_index(active_on_sm_[sm], placed_on_sm_[sm]++)];
  }
}

WalkCost walk_cost(const ScheduleShape& launch);
/// As of their cost (model/walk_limits.h).
std::optional<std::string> beyond_walk_limits(const ScheduleShape& launch);
void require_walkable(const ScheduleShape& launch);
std::unique_lock<std::mutex> memory_for_walk(const ScheduleShape& launch);

}  // namespace swr
