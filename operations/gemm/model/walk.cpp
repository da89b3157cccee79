// SPDX-License-Identifier: MIT
#include "operations/gemm/model/walk.h"

#include "model/l2/partitioned_l2.h"

#include <numeric>
#include <tuple>

namespace swr {
namespace {

/// An even number of sectors, each row of a block by itself.
int block_sectors(int rows, int k_elements, int element_bytes) {
  const int sectors = rows * ceil_div(k_elements * element_bytes, kSectorBytes);
  return sectors + sectors % 2;
}

auto fields_of(const GemmSchedule& gemm) {
  return std::tie(gemm.m, gemm.n, gemm.k, gemm.batch, gemm.tile_m, gemm.tile_n, gemm.tile_k,
                  gemm.cluster_m, gemm.cluster_n, gemm.cluster_k, gemm.splits, gemm.raster,
                  gemm.raster_group, gemm.swizzle_stride, gemm.persistence, gemm.k_order);
}

/// Sectors of the operand that each block is of, of the homes and then of the copies.
std::vector<long long> footprints(const GemmBlocks& blocks) {
  const auto blocks_of_item =
      static_cast<std::size_t>((blocks.m_tiles + blocks.n_tiles) * blocks.k_blocks);
  const auto blocks_of_a = static_cast<std::size_t>(blocks.m_tiles * blocks.k_blocks);
  const auto [a, b] = blocks.of_item();
  std::vector<long long> all(2 * blocks.sectors.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = i % blocks.sectors.size() % blocks_of_item < blocks_of_a ? a : b;
  }
  return all;
}

template <typename Cache>
GemmTraffic walk_through(const GemmLaunch& launch, const Cache& empty, int blocks) {
  PartitionedL2<Cache> l2(empty, launch.l2_partitions, blocks);
  GemmTraffic traffic;
  GemmWalk walk(launch, l2);
  traffic.summary = walk.run();
  traffic.fetched = walk.fetched();
  traffic.compulsory_misses = l2.compulsory_misses();
  traffic.excess_misses = l2.excess_misses();
  return traffic;
}

}  // namespace

long long GemmLaunch::resident_clusters() const {
  const auto found = static_cast<int>(places_share * sm_count * ctas_per_sm);
  const int places = std::max(1, found / schedule.ctas_per_cluster());
  return std::min<long long>(places, clusters());
}

bool operator<(const GemmLaunch& a, const GemmLaunch& b) {
  const auto order = fields_of(a.schedule) <=> fields_of(b.schedule);
  const auto machine = [](const GemmLaunch& launch) {
    return std::tie(launch.element_bytes, launch.c_element_bytes, launch.sm_count,
                    launch.ctas_per_sm, launch.workers, launch.l2_partitions, launch.partition_runs,
                    launch.neighbours, launch.places_share);
  };
  return order != 0 ? order < 0 : machine(a) < machine(b);
}

GemmBlocks::GemmBlocks(const GemmLaunch& launch)
    : m_tiles(ceil_div(launch.schedule.m, launch.schedule.tile_m)),
      n_tiles(ceil_div(launch.schedule.n, launch.schedule.tile_n)),
      k_blocks(launch.schedule.k_blocks()) {
  const GemmSchedule& gemm = launch.schedule;
  const auto add = [&](int tiles, int tile, int length) {
    for (int i = 0; i < tiles; ++i) {
      for (int block = 0; block < k_blocks; ++block) {
        sectors.push_back(block_sectors(min_of(tile, length - i * tile),
                                        min_of(gemm.tile_k, gemm.k - block * gemm.tile_k),
                                        launch.element_bytes));
      }
    }
  };
  for (int item = 0; item < gemm.batch; ++item) {
    add(m_tiles, gemm.tile_m, gemm.m);
    add(n_tiles, gemm.tile_n, gemm.n);
  }
}

OperandSectors GemmBlocks::of_item() const {
  const auto first = sectors.begin();
  const auto end_of_a = first + static_cast<std::ptrdiff_t>(m_tiles) * k_blocks;
  const auto end_of_b = end_of_a + static_cast<std::ptrdiff_t>(n_tiles) * k_blocks;
  return {.a = std::accumulate(first, end_of_a, 0LL),
          .b = std::accumulate(end_of_a, end_of_b, 0LL)};
}

GemmTraffic simulate_gemm_l2(const GemmLaunch& launch, const L2Policy& policy) {
  require_walkable(launch);
  const auto memory = memory_for_walk(launch);
  const GemmBlocks blocks(launch);
  const long long sectors = policy.effective_bytes / kSectorBytes;
  const int count = blocks.count();
  if (policy.ways == 0) {
    return walk_through(launch, LruCache(sectors, 2 * count), count);
  }
  return walk_through(launch, SetAssociativeCache(sectors, policy.ways, footprints(blocks)), count);
}

GemmTraffic unwalked_gemm_traffic(const GemmLaunch& launch) {
  const GemmSchedule& gemm = launch.schedule;
  const long long line = ceil_div(gemm.k * launch.element_bytes, kSectorBytes);
  const long long a = gemm.m * line;
  const long long b = gemm.n * line;
  const long long c = 1LL * gemm.m * ceil_div(gemm.n * launch.c_element_bytes, kSectorBytes);
  const long long at_once = launch.resident_clusters();
  const long long rounds = (gemm.work_items() + at_once - 1) / at_once;
  GemmTraffic traffic;
  GemmSummary& summary = traffic.summary;
  summary.read_sectors = gemm.batch * (gemm.columns() * a + gemm.rows() * b);
  summary.distinct_sectors = summary.read_sectors;
  summary.write_sectors = gemm.batch * gemm.splits * c;
  summary.makespan_steps = rounds * ceil_div(gemm.k_blocks(), gemm.splits * gemm.cluster_k);
  traffic.fetched = {.a = gemm.batch * a, .b = gemm.batch * b};
  traffic.compulsory_misses = gemm.batch * (a + b) + summary.write_sectors;
  return traffic;
}

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
