// SPDX-License-Identifier: MIT
#include "operations/gemm/model/walk_cost.h"

namespace swr {
namespace {

// Of a walk and a cache, per pair of tiles or block, by the types they keep.
constexpr double kBytes = 8.0;              ///< Once.
constexpr double kBytesPerPartition = 112;  ///< In each partition of L2.
constexpr double kBytesPerGroup = 8.0;      ///< In each group of SMs that are told apart.

std::string text_of(const GemmLaunch& launch) {
  const GemmSchedule& gemm = launch.schedule;
  return "GEMM with batch " + std::to_string(gemm.batch) + ", m " + std::to_string(gemm.m) +
         ", n " + std::to_string(gemm.n) + " and k " + std::to_string(gemm.k) + " in tiles of " +
         std::to_string(gemm.tile_m) + "x" + std::to_string(gemm.tile_n);
}

}  // namespace

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

std::optional<std::string> beyond_walk_limits(const GemmLaunch& launch) {
  return beyond_walk_limits(walk_cost(launch), text_of(launch));
}

void require_walkable(const GemmLaunch& launch) {
  require_walkable(walk_cost(launch), text_of(launch));
}

std::unique_lock<std::mutex> memory_for_walk(const GemmLaunch& launch) {
  return memory_for_walk(walk_cost(launch));
}

}  // namespace swr
