// SPDX-License-Identifier: MIT
#include "tuner/model/schedule_walk.h"

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
          .longest_first = problem.causal && variant.family == Family::hopper,
          .ctas = launch.grid_x,
          .sm_count = sm_count,
          .ctas_per_sm = min_of(ctas_per_sm, ceil_div(launch.grid_x, sm_count)),
          .dram_sectors_per_step = 0,
          .miss_ticks = 0,
          .pace_spread_ppm = 0,
          .l2_partitions = 1,
          .partition_runs = {}};
}

long long next_linear_tile(const ScheduleShape& shape, long long cta, int iteration,
                           long long tiles, long long& drawn) {
  if (shape.persistence != Persistence::dynamic || iteration == 0) {
    return cta_tile(shape.persistence, cta, shape.ctas, iteration, tiles);
  }
  const long long linear = shape.ctas + drawn++;
  return linear < tiles ? linear : -1;
}

QTile q_tile_at(const ScheduleShape& shape, long long linear, int q_tiles) {
  const QTile tile = map_tile(linear, q_tiles, shape.batch * shape.heads_q, shape.section_heads);
  return longest_first(tile, q_tiles, shape.longest_first);
}

bool scans_backward(const ScheduleShape& shape, long long linear, int iteration) {
  // As in the kernel's work list: a drawn tile takes the direction that a deal would give it.
  const bool drawn = shape.persistence == Persistence::dynamic;
  return scans_backward(shape.order, drawn ? static_cast<int>(linear / shape.ctas) : iteration);
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

int kv_pair_count(const ScheduleShape& shape) {
  return shape.batch * shape.heads_kv * ceil_div(shape.seq_kv, shape.tile_n);
}

}  // namespace swr
