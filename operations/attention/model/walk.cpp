// SPDX-License-Identifier: MIT
#include "operations/attention/model/walk.h"

#include <swr/kernel.h>
#include <swr/result.h>

namespace swr {

ScheduleShape make_schedule_shape(const AttentionProblem& problem, const AttentionVariant& variant,
                                  int sm_count, int ctas_per_sm) {
  const LaunchGeometry launch = launch_geometry(problem, variant, sm_count, ctas_per_sm);
  const bool one_iteration = variant.persistence == Persistence::grid;
  return {.batch = problem.batch,
          .heads_q = problem.heads_q,
          .heads_kv = problem.heads_kv,
          .seq_q = problem.seq_q,
          .seq_kv = problem.seq_kv,
          .causal = problem.causal,
          .row_sectors = problem.head_dim * element_bytes(problem.dtype) / kSectorBytes,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .order = one_iteration ? Order::cyclic : variant.order,
          .persistence = variant.persistence,
          .section_heads = launch.section_heads,
          .packed_heads = variant.pack_gqa ? problem.heads_q / problem.heads_kv : 1,
          .kv_splits = variant.kv_splits,
          .longest_first =
              problem.causal && (variant.longest_first || variant.family == Family::hopper),
          .ctas = launch.grid_x,
          .sm_count = sm_count,
          .ctas_per_sm = min_of(ctas_per_sm, ceil_div(launch.grid_x, sm_count)),
          .dram_sectors_per_step = 0,
          .miss_ticks = 0,
          .pace_spread_ppm = 0,
          .l2_partitions = 1,
          .partition_runs = {}};
}

long long next_work_item(const ScheduleShape& shape, long long cta, int iteration,
                         long long& drawn) {
  const long long items = shape.items().count();
  if (shape.persistence != Persistence::dynamic || iteration == 0) {
    return cta_tile(shape.persistence, cta, shape.ctas, iteration, items);
  }
  const long long number = shape.ctas + drawn++;
  return number < items ? number : -1;
}

WorkItem work_item_of(const ScheduleShape& shape, QTile tile, int split) {
  const SequenceShape sequence = shape.sequence();
  return {.tile = tile,
          .split = split,
          .q_rows = min_of(shape.tile_m, sequence.q_rows() - tile.index * shape.tile_m),
          .kv_tiles = kv_part(kv_tile_count(tile.index, shape.tile_m, shape.tile_n, sequence),
                              split, shape.kv_splits)};
}

WorkItem work_item_at(const ScheduleShape& shape, long long number) {
  const WorkItems items = shape.items();
  const QTile tile = longest_first(
      map_tile(number / items.splits, items.q_tiles, items.heads, shape.section_heads),
      items.q_tiles, shape.longest_first);
  return work_item_of(shape, tile, static_cast<int>(number % items.splits));
}

int kv_head_of(const ScheduleShape& shape, QTile tile) {
  const int heads = shape.heads_q / shape.packed_heads;
  return tile.head / heads * shape.heads_kv + tile.head % heads / (heads / shape.heads_kv);
}

long long partial_sectors(const ScheduleShape& shape, const WorkItem& item) {
  constexpr int kElementsPerSector = 16;
  constexpr int kFloatsPerSector = 8;
  constexpr int kShiftAndSum = 2;
  const long long row_floats = shape.row_sectors * kElementsPerSector + kShiftAndSum;
  return shape.kv_splits == 1 ? 0 : item.q_rows * row_floats / kFloatsPerSector;
}

void add_item(const ScheduleShape& shape, const WorkItem& item, ScheduleSummary& summary) {
  const long long q_sectors = 1LL * item.q_rows * shape.row_sectors;
  const long long first_row = 1LL * item.kv_tiles.first * shape.tile_n;
  const long long kv_rows =
      std::min(1LL * item.kv_tiles.count * shape.tile_n, shape.seq_kv - first_row);
  summary.read_sectors += q_sectors + 2 * kv_rows * shape.row_sectors;
  summary.write_sectors += item.split == shape.kv_splits - 1 ? q_sectors : 0;
  summary.partial_sectors += partial_sectors(shape, item);
  summary.steps += max_of(item.kv_tiles.count, 1);  // One that sees no key still takes its CTA.
  ++summary.q_tiles;
}

ScheduleSummary totals_of(const ScheduleShape& shape) {
  const WorkItems items = shape.items();
  ScheduleSummary of_head;
  for (int index = 0; index < items.q_tiles; ++index) {
    for (int split = 0; split < items.splits; ++split) {
      add_item(shape, work_item_of(shape, {0, index}, split), of_head);
    }
  }
  const long long steps = items.heads * of_head.steps;
  return {.read_sectors = items.heads * of_head.read_sectors,
          .write_sectors = items.heads * of_head.write_sectors,
          .partial_sectors = items.heads * of_head.partial_sectors,
          .q_tiles = items.heads * of_head.q_tiles,
          .steps = steps,
          .busiest_sm_steps = (steps + shape.sm_count - 1) / shape.sm_count};
}

bool scans_backward(const ScheduleShape& shape, long long number, int iteration) {
  // As in the kernel's work list: a drawn tile takes the direction that a deal would give it.
  const bool drawn = shape.persistence == Persistence::dynamic;
  return scans_backward(shape.order, drawn ? static_cast<int>(number / shape.ctas) : iteration);
}

int partition_of_sm(std::span<const int> runs, int partitions, int sm_count, int sm) {
  int partition = 0;
  int end = 0;
  for (const int run : runs) {
    end += run;
    if (sm < end) {
      return partition;
    }
    partition = (partition + 1) % partitions;
  }
  return sm * partitions / sm_count;
}

long long pace_delay_ticks(const ScheduleShape& shape, int sm, int steps) {
  // Multiples of the golden ratio spread any number of SMs evenly (Weyl).
  constexpr unsigned kGoldenRatio = 0x9e3779b9U;
  const unsigned place = (static_cast<unsigned>(sm) * kGoldenRatio) >> 22;  // 0 to 1023.
  return static_cast<long long>(steps) * kTicksPerStep * shape.pace_spread_ppm / 1'000'000 * place /
         1023;
}

std::optional<ScheduleShape> grid_in_turn(const ScheduleShape& shape) {
  const long long items = shape.items().count();
  const long long places = static_cast<long long>(shape.sm_count) * shape.ctas_per_sm;
  const bool takes_tiles_in_turn = shape.persistence == Persistence::persistent &&
                                   shape.order == Order::cyclic &&
                                   shape.ctas == std::min(places, items);
  if (!takes_tiles_in_turn) {
    return std::nullopt;
  }
  ScheduleShape grid = shape;
  grid.persistence = Persistence::grid;
  grid.ctas = items;
  return grid;
}

long long kv_pair_count(const ScheduleShape& shape, int tiles_at_once) {
  return static_cast<long long>(shape.batch) * shape.heads_kv *
         ceil_div(ceil_div(shape.seq_kv, shape.tile_n), tiles_at_once);
}

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
