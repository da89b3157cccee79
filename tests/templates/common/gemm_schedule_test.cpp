// SPDX-License-Identifier: MIT
// Proves GEMM's schedule: over randomised shapes every k-block of every tile of C is visited
// exactly once, for every raster, swizzle stride, persistence, k order, split and cluster.
#include "templates/common/gemm_schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <ostream>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace swr {

/// How GoogleTest shows a schedule.
[[maybe_unused]] static std::ostream& operator<<(std::ostream& out, const GemmSchedule& s) {
  return out << s.m << "x" << s.n << "x" << s.k << " batch " << s.batch << " tile " << s.tile_m
             << "x" << s.tile_n << "x" << s.tile_k << " cluster " << s.cluster_m << "x"
             << s.cluster_n << "x" << s.cluster_k << " splits " << s.splits << " raster "
             << static_cast<int>(s.raster) << " group " << s.raster_group << " stride "
             << s.swizzle_stride << " persistence " << static_cast<int>(s.persistence) << " order "
             << static_cast<int>(s.k_order);
}

namespace {

constexpr std::array kRasters{Raster::along_n, Raster::along_m, Raster::grouped, Raster::serpentine,
                              Raster::hilbert};

/// (batch, m tile, n tile, k-block).
using Visit = std::tuple<int, int, int, int>;

/// Walks the schedule exactly as a kernel does.
std::vector<Visit> walk(const GemmSchedule& schedule, int workers) {
  std::vector<Visit> visits;
  const long long clusters = schedule.clusters(workers);
  for (long long cluster = 0; cluster < clusters; ++cluster) {
    for (int iteration = 0;; ++iteration) {
      const int linear = schedule.work_at(cluster, clusters, iteration);
      if (linear < 0) {
        break;
      }
      const GemmWork work = schedule.work(linear);
      for (int rank = 0; rank < schedule.ctas_per_cluster(); ++rank) {
        const GemmTile tile = schedule.cta_tile_of(work.tile, rank);
        const KSlab slab = schedule.slab(work.split, schedule.k_part(rank));
        for (int step = 0; step < slab.count; ++step) {
          visits.emplace_back(work.batch, tile.m, tile.n,
                              k_block_at(step, slab, schedule.walks_backward(iteration)));
        }
      }
    }
  }
  return visits;
}

void expect_each_once(const GemmSchedule& schedule, int workers) {
  const std::vector<Visit> visits = walk(schedule, workers);
  const std::set<Visit> distinct(visits.begin(), visits.end());
  EXPECT_EQ(distinct.size(), visits.size()) << "visited twice: " << schedule;
  const int m_tiles = ceil_div(schedule.m, schedule.tile_m);
  const int n_tiles = ceil_div(schedule.n, schedule.tile_n);
  std::size_t inside = 0;
  for (const auto& [batch, m, n, k_block] : distinct) {
    EXPECT_LT(m, schedule.rows() * schedule.cluster_m) << schedule;
    EXPECT_LT(n, schedule.columns() * schedule.cluster_n) << schedule;
    inside += batch >= 0 && batch < schedule.batch && m >= 0 && m < m_tiles && n >= 0 &&
                      n < n_tiles && k_block >= 0 && k_block < schedule.k_blocks()
                  ? 1
                  : 0;
  }
  EXPECT_EQ(inside, static_cast<std::size_t>(schedule.batch) * static_cast<std::size_t>(m_tiles) *
                        static_cast<std::size_t>(n_tiles) *
                        static_cast<std::size_t>(schedule.k_blocks()))
      << schedule;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(engine_); }
  template <typename Values>
  auto of(const Values& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
};

GemmSchedule random_schedule(Draw& draw) {
  GemmSchedule schedule{.m = draw.between(1, 900),
                        .n = draw.between(1, 900),
                        .k = draw.between(1, 300),
                        .batch = draw.between(1, 3),
                        .tile_m = draw.of(std::array{16, 64, 128}),
                        .tile_n = draw.of(std::array{16, 48, 96, 128}),
                        .tile_k = draw.of(std::array{16, 32, 64}),
                        .raster_group = draw.between(1, 9),
                        .swizzle_stride = draw.of(std::array{0, 0, 32, 100, 256, 512, 8192}),
                        .persistence = draw.of(std::array{
                            Persistence::grid, Persistence::persistent, Persistence::snake}),
                        .k_order = draw.of(std::array{Order::cyclic, Order::sawtooth})};
  const auto cluster =
      draw.of(std::array{std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}});
  schedule.cluster_m = cluster.first;
  schedule.cluster_n = cluster.second;
  schedule.cluster_k = draw.between(1, min_of(3, schedule.k_blocks()));
  schedule.splits = draw.between(1, min_of(6, schedule.k_blocks() / schedule.cluster_k));
  return schedule;
}

TEST(GemmSchedule, VisitsEveryKBlockOfEveryTileOnce) {
  Draw draw(20261121);
  for (const Raster raster : kRasters) {
    for (int trial = 0; trial < 150; ++trial) {
      GemmSchedule schedule = random_schedule(draw);
      schedule.raster = raster;
      expect_each_once(schedule, draw.between(1, 40));
    }
  }
}

TEST(GemmSchedule, HoldsForTheSmallestProblem) {
  for (const Raster raster : kRasters) {
    expect_each_once({.tile_m = 128, .tile_n = 256, .tile_k = 64, .raster = raster}, 132);
  }
}

std::vector<GemmTile> tiles_of(int m_tiles, int n_tiles, Raster raster, int raster_group,
                               int group_columns) {
  std::vector<GemmTile> tiles;
  for (int linear = 0; linear < m_tiles * n_tiles; ++linear) {
    tiles.push_back(map_gemm_tile(linear, m_tiles, n_tiles, raster, raster_group, group_columns));
  }
  return tiles;
}

std::vector<std::pair<int, int>> pairs(const std::vector<GemmTile>& tiles) {
  std::vector<std::pair<int, int>> result;
  for (const GemmTile& tile : tiles) {
    result.emplace_back(tile.m, tile.n);
  }
  return result;
}

using Pairs = std::vector<std::pair<int, int>>;

TEST(GemmSchedule, RastersRunAsTheirNamesSay) {
  EXPECT_EQ(pairs(tiles_of(2, 3, Raster::along_n, 1, 3)),
            (Pairs{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(pairs(tiles_of(2, 3, Raster::along_m, 1, 3)),
            (Pairs{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(pairs(tiles_of(3, 2, Raster::grouped, 2, 2)),
            (Pairs{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {2, 1}}));
  EXPECT_EQ(pairs(tiles_of(3, 2, Raster::serpentine, 2, 2)),
            (Pairs{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {2, 0}}));
}

TEST(GemmSchedule, HilbertWalksToNeighboursInAPowerOfTwoSquare) {
  for (const int side : {2, 4, 8, 32}) {
    const std::vector<GemmTile> tiles = tiles_of(side, side, Raster::hilbert, 1, side);
    for (std::size_t i = 1; i < tiles.size(); ++i) {
      EXPECT_EQ(std::abs(tiles[i].m - tiles[i - 1].m) + std::abs(tiles[i].n - tiles[i - 1].n), 1)
          << "side " << side << " step " << i;
    }
  }
}

TEST(GemmSchedule, ColumnGroupsAreAsWideAsTheStride) {
  EXPECT_EQ(column_group_tiles(0, 128, 64), 64);
  EXPECT_EQ(column_group_tiles(512, 128, 64), 4);
  EXPECT_EQ(column_group_tiles(1792, 256, 64), 7);
  EXPECT_EQ(column_group_tiles(8192, 128, 4), 4);
  EXPECT_EQ(column_group_tiles(512, 192, 64), 2);
  EXPECT_EQ(column_group_tiles(64, 128, 64), 1);
}

TEST(GemmSchedule, BlocksInsideAColumnGroupRunTogether) {
  for (const Raster raster : kRasters) {
    const std::vector<GemmTile> tiles = tiles_of(5, 11, raster, 2, 4);
    int group = 0;
    for (const GemmTile& tile : tiles) {
      EXPECT_GE(tile.n / 4, group);
      group = tile.n / 4;
    }
  }
  EXPECT_EQ(pairs(tiles_of(2, 3, Raster::along_n, 1, 2)),
            (Pairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {1, 2}}));
}

TEST(GemmSchedule, SlabsCoverKInOrderAndDifferByAtMostOne) {
  for (int k_blocks = 1; k_blocks <= 40; ++k_blocks) {
    for (int splits = 1; splits <= k_blocks; ++splits) {
      int next = 0;
      for (int split = 0; split < splits; ++split) {
        const KSlab slab = k_slab(split, splits, k_blocks);
        EXPECT_EQ(slab.first, next);
        EXPECT_GE(slab.count, k_blocks / splits);
        EXPECT_LE(slab.count, ceil_div(k_blocks, splits));
        next = slab.first + slab.count;
      }
      EXPECT_EQ(next, k_blocks);
    }
  }
}

TEST(GemmSchedule, SawtoothStartsWhereTheTileBeforeEnded) {
  const GemmSchedule schedule{.m = 512,
                              .n = 512,
                              .k = 640,
                              .tile_m = 128,
                              .tile_n = 128,
                              .tile_k = 64,
                              .persistence = Persistence::persistent,
                              .k_order = Order::sawtooth};
  const KSlab slab = schedule.slab(0);
  for (int iteration = 0; iteration < 4; ++iteration) {
    const int last = k_block_at(slab.count - 1, slab, schedule.walks_backward(iteration));
    const int first = k_block_at(0, slab, schedule.walks_backward(iteration + 1));
    EXPECT_EQ(last, first);
  }
}

TEST(GemmSchedule, ClustersHoldNeighbours) {
  const GemmSchedule schedule{.tile_m = 64, .tile_n = 64, .cluster_m = 2, .cluster_n = 2};
  const auto tile = [&](int rank) {
    const GemmTile found = schedule.cta_tile_of({3, 5}, rank);
    return std::pair{found.m, found.n};
  };
  EXPECT_EQ(tile(0), (std::pair{6, 10}));
  EXPECT_EQ(tile(1), (std::pair{7, 10}));
  EXPECT_EQ(tile(2), (std::pair{6, 11}));
  EXPECT_EQ(tile(3), (std::pair{7, 11}));
}

TEST(GemmSchedule, ClustersAlongKShareATile) {
  const GemmSchedule schedule{.k = 640, .tile_m = 64, .tile_n = 64, .tile_k = 64, .cluster_k = 3};
  int first = 0;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(schedule.cta_tile_of({3, 5}, rank).m, 3);
    EXPECT_EQ(schedule.cta_tile_of({3, 5}, rank).n, 5);
    const KSlab slab = schedule.slab(0, schedule.k_part(rank));
    EXPECT_EQ(slab.first, first);
    first += slab.count;
  }
  EXPECT_EQ(first, 10);
}

}  // namespace
}  // namespace swr
