// SPDX-License-Identifier: MIT
#include "tuner/model/walk_limits.h"

#include "core/operation.h"
#include "tuner/model/gemm_time.h"
#include "tuner/model/time_model.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <type_traits>

namespace swr {
namespace {

// Of a walk and a cache, per pair of tiles or block, by the types they keep.
constexpr double kBytes = 8.0;              ///< Once.
constexpr double kBytesPerPartition = 112;  ///< In each partition of L2.
constexpr double kBytesPerGroup = 8.0;      ///< In each group of SMs that GEMM tells apart.

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

std::string text_of(const GemmLaunch& launch) {
  const GemmSchedule& gemm = launch.schedule;
  return "GEMM with batch " + std::to_string(gemm.batch) + ", m " + std::to_string(gemm.m) +
         ", n " + std::to_string(gemm.n) + " and k " + std::to_string(gemm.k) + " in tiles of " +
         std::to_string(gemm.tile_m) + "x" + std::to_string(gemm.tile_n);
}

std::string text_of(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", number);
  return text.data();
}

template <typename Launch>
std::optional<std::string> beyond_limits(const Launch& launch) {
  const WalkCost cost = walk_cost(launch);
  const bool fits = cost.bytes <= kMostWalkBytes && cost.steps <= kMostWalkSteps;
  if (fits) {
    return std::nullopt;
  }
  constexpr double kGibi = 1 << 30;
  return "the model does not walk " + text_of(launch) + ": it would take " +
         text_of(cost.bytes / kGibi) + " GiB and " + text_of(cost.steps) + " steps, and at most " +
         text_of(kMostWalkBytes / kGibi) + " GiB and " + text_of(kMostWalkSteps) +
         " steps are walked; predict a shorter length or a smaller batch, choose larger tiles, or "
         "measure it on the GPU";
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

WalkCost walk_cost(const GemmLaunch& launch) {
  const GemmSchedule& gemm = launch.schedule;
  const double m_tiles = ceil_div(gemm.m, gemm.tile_m);
  const double n_tiles = ceil_div(gemm.n, gemm.tile_n);
  const double blocks = gemm.batch * (m_tiles + n_tiles) * gemm.k_blocks();
  const double groups = ceil_div(launch.sm_count, launch.neighbours);
  // Each CTA tile asks for a block of A and one of B per k-block; clusters for fewer.
  const double steps = 2.0 * gemm.batch * m_tiles * n_tiles * (gemm.k_blocks() + gemm.splits);
  return {.bytes = blocks *
                   (kBytes + kBytesPerGroup * groups + kBytesPerPartition * launch.l2_partitions),
          .steps = steps};
}

std::optional<std::string> beyond_walk_limits(const ScheduleShape& shape) {
  return beyond_limits(shape);
}

std::optional<std::string> beyond_walk_limits(const GemmLaunch& launch) {
  return beyond_limits(launch);
}

std::optional<std::string> beyond_walk_limits(const Problem& problem, const Variant& variant,
                                              int ctas_per_sm, const GpuProfile& profile) {
  return visit_operation(problem, variant, [&](const auto& one, const auto& chosen) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, GemmProblem>) {
      return beyond_limits(gemm_launch_on_gpu(one, chosen, ctas_per_sm, profile));
    } else {
      return beyond_limits(schedule_on_gpu(one, chosen, ctas_per_sm, profile));
    }
  });
}

template <typename Launch>
void require_walkable(const Launch& launch) {
  if (const auto reason = beyond_limits(launch)) {
    throw Error(ErrorCode::invalid_argument, *reason);
  }
}

template <typename Launch>
std::unique_lock<std::mutex> memory_for_walk(const Launch& launch) {
  constexpr double kMuch = kMostWalkBytes / 8.0;
  static std::mutex mutex;
  return walk_cost(launch).bytes > kMuch ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}

template void require_walkable(const ScheduleShape&);
template void require_walkable(const GemmLaunch&);
template std::unique_lock<std::mutex> memory_for_walk(const ScheduleShape&);
template std::unique_lock<std::mutex> memory_for_walk(const GemmLaunch&);

}  // namespace swr
