// SPDX-License-Identifier: MIT
// The L2 walk of GEMM: runs the shared schedule (templates/common/gemm_schedule.h) in time and
// reports the blocks of A and B that it touches and the tiles of C that it writes.
//
// Time goes in k steps: every resident cluster reads the A and B blocks of one k-block per step and
// starts its next tile as soon as one ends. All tiles need the same steps, so clusters keep in step
// and a block that several of them read in one step is one touch. Inside a cluster the copy engine
// multicasts: a block is asked for once per cluster.
#pragma once

#include "model/walk_limits.h"
#include "operations/attention/model/l2_traffic.h"
#include "templates/common/gemm_schedule.h"
#include <swr/result.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace swr {

/// A launch of GEMM on a GPU: C [m, n] = A [m, k] B [k, n], `batch` times.
struct GemmLaunch {
  GemmSchedule schedule;
  int element_bytes = 2;    ///< Of A and B.
  int c_element_bytes = 2;  ///< Of what a tile writes; every split writes its own.
  int sm_count = 1;
  int ctas_per_sm = 1;
  int workers = 0;  ///< CTAs of a persistent launch; 0 means one per place.
  int l2_partitions = 1;
  std::vector<int> partition_runs{};  ///< As ScheduleShape::partition_runs.
  /// Successive SMs whose equal requests can meet on their way to L2; 1 where none can.
  int neighbours = 1;
  double places_share = 1.0;  ///< Of sm_count * ctas_per_sm places, those that clusters find.

  long long clusters() const {
    return schedule.clusters(workers > 0 ? workers : sm_count * ctas_per_sm);
  }
  /// Clusters that run at once.
  long long resident_clusters() const;
};

/// Some order, so that launches can be keys.
bool operator<(const GemmLaunch& a, const GemmLaunch& b);

/// Of each operand that CTAs read.
struct OperandSectors {
  long long a = 0;
  long long b = 0;
};

/// Blocks of A and of B: a tile's rows or columns and one k-block.
struct GemmBlocks {
  explicit GemmBlocks(const GemmLaunch& launch);

  int count() const { return static_cast<int>(sectors.size()); }
  int a_block(int batch, int m_tile, int k_block) const {
    return (batch * (m_tiles + n_tiles) + m_tile) * k_blocks + k_block;
  }
  int b_block(int batch, int n_tile, int k_block) const {
    return (batch * (m_tiles + n_tiles) + m_tiles + n_tile) * k_blocks + k_block;
  }
  /// All blocks of one item of the batch.
  OperandSectors of_item() const;

  int m_tiles = 0;
  int n_tiles = 0;
  int k_blocks = 0;
  std::vector<int> sectors;  ///< Of each, rounded up to an even number.
};

/// Totals of a launch, independent of any cache.
struct GemmSummary {
  long long read_sectors = 0;  ///< Of A and B, once per cluster that asks for them.
  /// Of these, once per neighbourhood and step: what L2 looks up when all that can meet does.
  long long distinct_sectors = 0;
  long long write_sectors = 0;  ///< Of C.
  long long steps = 0;          ///< k steps of all clusters together.
  long long makespan_steps = 0;
};

struct GemmTraffic {
  GemmSummary summary;
  long long compulsory_misses = 0;  ///< Sectors of A, B and C touched for the first time.
  long long excess_misses = 0;      ///< Sectors of A and B fetched again.
  OperandSectors fetched = {};      ///< Both of the above, without C, which is written once.
};

/// Sink: int touch(int block, int sectors, int partition), the sectors it fetched, and
/// write_once(int sectors), as for AttentionWalk.
template <typename Sink>
class GemmWalk {
 public:
  GemmWalk(const GemmLaunch& launch, Sink& sink);

  /// Walks the whole launch. Call once.
  GemmSummary run();
  /// What the sink fetched.
  OperandSectors fetched() const { return fetched_; }

 private:
  /// A place for one resident cluster.
  struct Slot {
    long long cluster = 0;
    int partition = 0;
    int neighbourhood = 0;
    int iteration = 0;
    int step = 0;
    bool backward = false;
    GemmWork work;
    int steps = 0;  ///< Of the CTAs with the longest part of the slab.
  };

  void advance();
  bool start(Slot& slot);
  void step(const Slot& slot);
  void touch_k_block(const Slot& slot, int k_block);
  int touch(int block, const Slot& slot);
  bool is_first(std::vector<long long>& touched_at, int group, int block) const;
  void finish(const Slot& slot);

  GemmLaunch launch_;
  const GemmSchedule& schedule_;
  Sink& sink_;
  GemmBlocks blocks_;
  long long clusters_ = 0;
  long long next_cluster_ = 0;
  long long now_ = 0;
  std::vector<Slot> slots_;
  std::vector<long long> in_partition_at_;      ///< Last step of a touch, per partition and block.
  std::vector<long long> in_neighbourhood_at_;  ///< Per neighbourhood and block.
  GemmSummary summary_;
  OperandSectors fetched_;
};

/// Walks the launch through an L2. Throws: Error{invalid_argument} beyond the limits of
/// walk_limits.h.
GemmTraffic simulate_gemm_l2(const GemmLaunch& launch, const L2Policy& policy);

/// What a walk would find if no requests met and nothing was fetched again, without one.
GemmTraffic unwalked_gemm_traffic(const GemmLaunch& launch);

template <typename Sink>
GemmWalk<Sink>::GemmWalk(const GemmLaunch& launch, Sink& sink)
    : launch_(launch),
      schedule_(launch_.schedule),
      sink_(sink),
      blocks_(launch),
      clusters_(launch.clusters()),
      in_partition_at_(static_cast<std::size_t>(launch.l2_partitions) * blocks_.sectors.size(), -1),
      in_neighbourhood_at_(static_cast<std::size_t>(ceil_div(launch.sm_count, launch.neighbours)) *
                               blocks_.sectors.size(),
                           -1) {}

template <typename Sink>
GemmSummary GemmWalk<Sink>::run() {
  const int cluster_ctas = schedule_.ctas_per_cluster();
  for (long long i = 0; i < launch_.resident_clusters(); ++i) {
    Slot slot;
    const auto sm = static_cast<int>(i * cluster_ctas % launch_.sm_count);
    slot.partition =
        partition_of_sm(launch_.partition_runs, launch_.l2_partitions, launch_.sm_count, sm);
    slot.neighbourhood = sm / launch_.neighbours;
    slot.cluster = next_cluster_++;
    if (start(slot)) {
      slots_.push_back(slot);
    }
  }
  while (!slots_.empty()) {
    for (const Slot& slot : slots_) {
      step(slot);
    }
    ++now_;
    advance();
  }
  summary_.makespan_steps = now_;
  return summary_;
}

/// Gives new work to the slots whose tile is done.
template <typename Sink>
void GemmWalk<Sink>::advance() {
  std::size_t kept = 0;
  for (Slot& slot : slots_) {
    bool busy = ++slot.step < slot.steps;
    if (!busy) {
      finish(slot);
      busy = start(slot);
    }
    if (busy) {
      slots_[kept++] = slot;
    }
  }
  slots_.resize(kept);
}

/// Gives the slot its cluster's next work, or that of the next cluster; false when there is none.
template <typename Sink>
bool GemmWalk<Sink>::start(Slot& slot) {
  int linear = schedule_.work_at(slot.cluster, clusters_, slot.iteration);
  while (linear < 0 && next_cluster_ < clusters_) {
    slot.cluster = next_cluster_++;
    slot.iteration = 0;
    linear = schedule_.work_at(slot.cluster, clusters_, slot.iteration);
  }
  if (linear < 0) {
    return false;
  }
  slot.work = schedule_.work(linear);
  slot.steps = 0;
  for (int part = 0; part < schedule_.cluster_k; ++part) {
    slot.steps = max_of(slot.steps, schedule_.slab(slot.work.split, part).count);
  }
  slot.backward = schedule_.walks_backward(slot.iteration);
  slot.step = 0;
  ++slot.iteration;
  return true;
}

/// The cluster asks for its rows of A and its columns of B, of one k-block of each part.
template <typename Sink>
void GemmWalk<Sink>::step(const Slot& slot) {
  for (int part = 0; part < schedule_.cluster_k; ++part) {
    const KSlab slab = schedule_.slab(slot.work.split, part);
    if (slot.step < slab.count) {
      touch_k_block(slot, k_block_at(slot.step, slab, slot.backward));
    }
  }
  ++summary_.steps;
}

template <typename Sink>
void GemmWalk<Sink>::touch_k_block(const Slot& slot, int k_block) {
  const GemmTile first = schedule_.cta_tile_of(slot.work.tile, 0);
  for (int m = first.m; m < min_of(first.m + schedule_.cluster_m, blocks_.m_tiles); ++m) {
    fetched_.a += touch(blocks_.a_block(slot.work.batch, m, k_block), slot);
  }
  for (int n = first.n; n < min_of(first.n + schedule_.cluster_n, blocks_.n_tiles); ++n) {
    fetched_.b += touch(blocks_.b_block(slot.work.batch, n, k_block), slot);
  }
}

template <typename Sink>
int GemmWalk<Sink>::touch(int block, const Slot& slot) {
  const int sectors = blocks_.sectors[static_cast<std::size_t>(block)];
  summary_.read_sectors += sectors;
  if (is_first(in_neighbourhood_at_, slot.neighbourhood, block)) {
    summary_.distinct_sectors += sectors;
  }
  return is_first(in_partition_at_, slot.partition, block)
             ? sink_.touch(block, sectors, slot.partition)
             : 0;
}

/// True for the first touch of the block by the group in this step.
template <typename Sink>
bool GemmWalk<Sink>::is_first(std::vector<long long>& touched_at, int group, int block) const {
  const auto place =
      static_cast<std::size_t>(group) * blocks_.sectors.size() + static_cast<std::size_t>(block);
  return std::exchange(touched_at[place], now_) != now_;
}

template <typename Sink>
void GemmWalk<Sink>::finish(const Slot& slot) {
  const GemmTile first = schedule_.cta_tile_of(slot.work.tile, 0);
  const int m0 = first.m * schedule_.tile_m;
  const int n0 = first.n * schedule_.tile_n;
  const int rows = min_of(schedule_.cluster_m * schedule_.tile_m, schedule_.m - m0);
  const int columns = min_of(schedule_.cluster_n * schedule_.tile_n, schedule_.n - n0);
  const int sectors = rows * ceil_div(columns * launch_.c_element_bytes, kSectorBytes);
  summary_.write_sectors += sectors;
  sink_.write_once(sectors);
}

WalkCost walk_cost(const GemmLaunch& launch);
/// As of their cost (model/walk_limits.h).
std::optional<std::string> beyond_walk_limits(const GemmLaunch& launch);
void require_walkable(const GemmLaunch& launch);
std::unique_lock<std::mutex> memory_for_walk(const GemmLaunch& launch);

}  // namespace swr
