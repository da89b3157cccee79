// SPDX-License-Identifier: MIT
// Proves GEMM's schedule: over randomised shapes every k-block of every tile of C is visited
// exactly once, for every raster, swizzle stride, persistence, k order, split and cluster.
#include "templates/common/gemm_schedule.h"

#include "templates/common/cta_schedule.h"
#include "templates/common/gemm_groups.h"
#include "tests/support/test.h"

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

// Which CTA computes which work item, for every form of persistence.

constexpr Persistence kForms[] = {Persistence::grid, Persistence::persistent, Persistence::pairs,
                                  Persistence::snake, Persistence::dynamic};

/// How often each of `tiles` work items is computed by a launch.
std::vector<int> visits(Persistence persistence, long long tiles, int workers) {
  std::vector<int> counts(static_cast<std::size_t>(tiles), 0);
  const long long ctas = cta_count(persistence, tiles, workers);
  for (long long cta = 0; cta < ctas; ++cta) {
    for (int iteration = 0; iteration <= tiles; ++iteration) {
      const long long tile = cta_tile(persistence, cta, ctas, iteration, tiles);
      if (tile >= 0) {
        ++counts.at(static_cast<std::size_t>(tile));
      }
    }
  }
  return counts;
}

TEST(CtaSchedule, EveryWorkItemIsComputedOnce) {
  for (const Persistence persistence : kForms) {
    for (const long long tiles : {1, 2, 7, 8, 9, 64, 131}) {
      for (const int workers : {1, 2, 8, 132}) {
        EXPECT_TRUE(std::ranges::all_of(visits(persistence, tiles, workers),
                                        [](int count) { return count == 1; }))
            << static_cast<int>(persistence) << " " << tiles << " " << workers;
      }
    }
  }
}

TEST(CtaSchedule, PersistentFormsLaunchNoMoreCtasThanWorkers) {
  for (const Persistence persistence : kForms) {
    EXPECT_EQ(is_persistent(persistence), cta_count(persistence, 1000, 8) == 8);
  }
  EXPECT_EQ(cta_count(Persistence::persistent, 5, 8), 5);
  EXPECT_EQ(cta_count(Persistence::pairs, 5, 8), 3);
}

TEST(CtaSchedule, SawtoothTurnsEveryOtherIteration) {
  EXPECT_FALSE(scans_backward(Order::sawtooth, 0));
  EXPECT_TRUE(scans_backward(Order::sawtooth, 1));
  EXPECT_FALSE(scans_backward(Order::cyclic, 1));
  EXPECT_TRUE(scans_backward(Order::right_to_left, 0));
}

// Proves the schedule of grouped GEMM: over random counts, tiles, clusters and orders every element
// of every item's rows is computed exactly once, with that item's matrix, and no other element.

constexpr std::array kEdges{0, 1, 63, 64, 65, 127, 128, 129, 500};

/// The numbers on the device, and who owns a row of a matrix.
struct Rows {
  std::vector<int> numbers;
  std::map<std::pair<int, int>, int> owners;  ///< (matrix, row): item.
  int m = 0;
};

Rows rows_of(GemmGroups form, const std::vector<int>& counts) {
  Rows rows;
  for (int item = 0; item < static_cast<int>(counts.size()); ++item) {
    const int count = counts[static_cast<std::size_t>(item)];
    const bool is_masked = form == GemmGroups::masked;
    const int matrix = is_masked ? item : 0;
    const int first = is_masked ? 0 : rows.m;
    for (int row = 0; row < count; ++row) {
      rows.owners[{matrix, first + row}] = item;
    }
    if (form == GemmGroups::contiguous) {
      // Whole runs; a run of padding in front of every third item.
      const int run = ceil_div(count, kContiguousRows) * kContiguousRows;
      rows.numbers.insert(rows.numbers.end(), static_cast<std::size_t>(count), item);
      rows.numbers.insert(rows.numbers.end(), static_cast<std::size_t>(run - count), -1);
      if (item % 3 == 0) {
        rows.numbers.insert(rows.numbers.end(), kContiguousRows, -1);
      }
      rows.m = static_cast<int>(rows.numbers.size());
    } else {
      rows.m = is_masked ? std::max(rows.m, count) : rows.m + count;
      rows.numbers.push_back(is_masked ? count : rows.m);
    }
  }
  return rows;
}

/// What a kernel keeps in shared memory.
std::vector<int> ends_of(const GemmParams& params, GemmGroups form, const GemmSchedule& schedule) {
  std::vector<int> ends;
  for (int item = 0; item < params.batch && form != GemmGroups::contiguous; ++item) {
    ends.push_back((ends.empty() ? 0 : ends.back()) +
                   group_cluster_rows(group_rows(params, form, item), schedule));
  }
  return ends;
}

void expect_each_row_once(GemmGroups form, const std::vector<int>& counts, GemmSchedule schedule) {
  const Rows rows = rows_of(form, counts);
  GemmParams params{
      .m = rows.m, .batch = static_cast<int>(counts.size()), .groups = rows.numbers.data()};
  schedule.m = params.m;
  schedule.batch = params.batch;
  const std::vector<int> table = ends_of(params, form, schedule);
  const auto ends = [&](int item) { return table.at(static_cast<std::size_t>(item)); };
  std::map<std::pair<int, int>, std::vector<int>> columns;  // Of a row: how often each.
  const int items = grouped_work_items(schedule, form, ends);
  for (int linear = 0; linear < items; ++linear) {
    const GroupedWork work = grouped_work(schedule, params, form, linear, ends);
    for (int rank = 0; work.item >= 0 && rank < schedule.ctas_per_cluster(); ++rank) {
      const GemmTile tile = schedule.cta_tile_of(work.tile, rank);
      const int first = work.rows.first + tile.m * schedule.tile_m;
      for (int row = first; row < min_of(first + schedule.tile_m, work.rows.end); ++row) {
        const auto owner = rows.owners.find({work.rows.matrix, row});
        if (owner == rows.owners.end()) {
          // Only the padding that ends a run may be computed.
          ASSERT_TRUE(form == GemmGroups::contiguous && row % kContiguousRows != 0) << row;
          continue;
        }
        ASSERT_EQ(owner->second, work.item) << "row " << row;
        auto& seen = columns[owner->first];
        seen.resize(static_cast<std::size_t>(schedule.n));
        for (int n = tile.n * schedule.tile_n;
             n < min_of((tile.n + 1) * schedule.tile_n, schedule.n); ++n) {
          ++seen[static_cast<std::size_t>(n)];
        }
      }
    }
  }
  ASSERT_EQ(columns.size(), rows.owners.size());
  for (const auto& [row, seen] : columns) {
    ASSERT_EQ(seen, std::vector<int>(seen.size(), 1)) << row.first << ", " << row.second;
  }
}

GemmSchedule drawn_schedule(std::mt19937& random) {
  const auto one_of = [&](const auto& values) { return values[random() % values.size()]; };
  GemmSchedule schedule;
  schedule.n = 1 + static_cast<int>(random() % 700);
  schedule.k = 64;
  schedule.tile_m = one_of(std::array{16, 32, 64, 128});
  schedule.tile_n = one_of(std::array{16, 48, 128, 256});
  schedule.tile_k = 64;
  schedule.cluster_m = schedule.tile_m == 128 ? 1 : 1 + static_cast<int>(random() % 2);
  schedule.cluster_n = schedule.cluster_m == 2 ? 1 : 1 + static_cast<int>(random() % 2);
  schedule.raster = static_cast<Raster>(random() % 5);
  schedule.raster_group = 1 + static_cast<int>(random() % 4);
  schedule.swizzle_stride = random() % 2 == 0 ? 0 : 256;
  return schedule;
}

TEST(GroupedGemmSchedule, EveryRowOfEveryItemIsComputedOnce) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int> counts(1 + random() % 12);
    for (int& count : counts) {
      count =
          random() % 2 == 0 ? kEdges[random() % kEdges.size()] : static_cast<int>(random() % 300);
    }
    if (trial % 10 == 0) {  // All rows in one item.
      std::fill(counts.begin(), counts.end(), 0);
      counts[random() % counts.size()] = 333;
    }
    const GemmSchedule schedule = drawn_schedule(random);
    for (const GemmGroups form :
         {GemmGroups::offsets, GemmGroups::contiguous, GemmGroups::masked}) {
      expect_each_row_once(form, counts, schedule);
      ASSERT_FALSE(HasFatalFailure()) << "trial " << trial << " form " << static_cast<int>(form);
    }
  }
}

TEST(GroupedGemmSchedule, NumbersThatCannotBeRightNameNoRowOutsideOfA) {
  constexpr std::array kNumbers{-5, 40, 1 << 30, 7, -9};
  GemmParams params{
      .m = 100, .batch = static_cast<int>(kNumbers.size()), .groups = kNumbers.data()};
  for (const GemmGroups form : {GemmGroups::offsets, GemmGroups::masked}) {
    for (int item = 0; item < params.batch; ++item) {
      const GroupRows rows = group_rows(params, form, item);
      EXPECT_GE(rows.first, 0);
      EXPECT_LE(rows.end, params.m);
      EXPECT_GE(group_cluster_rows(rows, {.m = 100, .tile_m = 64}), 0);
    }
  }
}

TEST(GroupedGemmSchedule, ItemsAreFoundAmongManyEmptyOnes) {
  std::vector<int> ends(kMostGroups, 0);
  std::fill(ends.begin() + 300, ends.end(), 2);
  std::fill(ends.begin() + 511, ends.end(), 5);
  const auto end_of = [&](int item) { return ends.at(static_cast<std::size_t>(item)); };
  EXPECT_EQ(group_at(0, kMostGroups, end_of), 300);
  EXPECT_EQ(group_at(1, kMostGroups, end_of), 300);
  EXPECT_EQ(group_at(2, kMostGroups, end_of), 511);
  EXPECT_EQ(group_at(4, kMostGroups, end_of), 511);
}

}  // namespace
}  // namespace swr
