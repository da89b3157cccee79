// SPDX-License-Identifier: MIT
// The walk of GEMM against what can be derived by hand.
#include "operations/gemm/model/walk.h"

#include "model/profile/gpu_profile.h"
#include <swr/result.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr L2Policy kTinyL2{.effective_bytes = kSectorBytes};
constexpr L2Policy kHugeL2{.effective_bytes = 1LL << 40};

/// 16 x 16 tiles of 16 x 16 elements, 4 k-blocks of 16: a block of A or B is 16 sectors.
GemmLaunch sixteen_by_sixteen(int sm_count) {
  GemmLaunch launch;
  launch.schedule.m = 256;
  launch.schedule.n = 256;
  launch.schedule.k = 64;
  launch.schedule.tile_m = launch.schedule.tile_n = launch.schedule.tile_k = 16;
  launch.sm_count = sm_count;
  return launch;
}
constexpr long long kBlock = 16;
constexpr long long kKBlocks = 4;
constexpr long long kMatrix = 16 * kKBlocks * kBlock;  ///< A, B.
constexpr long long kC = 256 * kBlock;

TEST(GemmWalk, EveryTileReadsItsRowsAndColumnsOnce) {
  const GemmTraffic traffic = simulate_gemm_l2(sixteen_by_sixteen(7), kHugeL2);
  EXPECT_EQ(traffic.summary.read_sectors, 256 * kKBlocks * 2 * kBlock);
  EXPECT_EQ(traffic.summary.write_sectors, kC);
  EXPECT_EQ(traffic.summary.steps, 256 * kKBlocks);
  EXPECT_EQ(traffic.summary.makespan_steps, 37 * kKBlocks);  // 256 tiles on 7 SMs.
}

TEST(GemmWalk, NeighboursAskOnceForWhatTheyShare) {
  // Rows of 16 tiles, a wave of 16 CTAs to each: four neighbours have a row of A in common.
  GemmLaunch launch = sixteen_by_sixteen(16);
  launch.schedule.raster = Raster::along_n;
  launch.neighbours = 4;
  const GemmTraffic along_rows = simulate_gemm_l2(launch, kHugeL2);
  EXPECT_EQ(along_rows.summary.distinct_sectors, 256 / 4 * kKBlocks * (1 + 4) * kBlock);
  // Columns of two tiles: they have two rows of A and two columns of B in common.
  launch.schedule.swizzle_stride = 32;
  const GemmTraffic in_columns = simulate_gemm_l2(launch, kHugeL2);
  EXPECT_EQ(in_columns.summary.distinct_sectors, 256 / 4 * kKBlocks * (2 + 2) * kBlock);
  EXPECT_EQ(in_columns.summary.read_sectors, along_rows.summary.read_sectors);
}

TEST(GemmWalk, WithEnoughL2EveryMatrixIsMovedOnce) {
  const GemmTraffic traffic = simulate_gemm_l2(sixteen_by_sixteen(7), kHugeL2);
  EXPECT_EQ(traffic.compulsory_misses, 2 * kMatrix + kC);
  EXPECT_EQ(traffic.excess_misses, 0);
}

TEST(GemmWalk, WithoutL2OneCtaAtATimeReadsEverythingAgain) {
  const GemmTraffic traffic = simulate_gemm_l2(sixteen_by_sixteen(1), kTinyL2);
  EXPECT_EQ(traffic.excess_misses, traffic.summary.read_sectors - 2 * kMatrix);
}

TEST(GemmWalk, AWaveReadsItsDistinctRowsAndColumns) {
  // 16 CTAs side by side share one row of A and read 16 columns of B; in a column group of 4 tiles
  // they read 4 rows and 4 columns. 16 waves.
  GemmLaunch launch = sixteen_by_sixteen(16);
  const auto fetched = [&launch](int stride) {
    launch.schedule.swizzle_stride = stride;
    const GemmTraffic traffic = simulate_gemm_l2(launch, kTinyL2);
    return traffic.compulsory_misses + traffic.excess_misses - kC;
  };
  EXPECT_EQ(fetched(0), 16 * kKBlocks * 17 * kBlock);
  EXPECT_EQ(fetched(4 * 16), 16 * kKBlocks * 8 * kBlock);
  EXPECT_EQ(fetched(16), 16 * kKBlocks * 17 * kBlock);
  EXPECT_EQ(fetched(2 * 16), 16 * kKBlocks * 10 * kBlock);
}

TEST(GemmWalk, TheSquareWaveIsTheBestStride) {
  const std::array strides{0, 16, 32, 64, 128};
  const auto ranked = rank_swizzle_strides(sixteen_by_sixteen(16), kTinyL2, strides);
  std::vector<int> order;
  for (const StrideTraffic& entry : ranked) {
    order.push_back(entry.swizzle_stride);
  }
  // 4 + 4 distinct blocks, 8 + 2 twice, 16 + 1 twice; equal ones as given.
  EXPECT_THAT(order, ElementsAre(64, 32, 128, 0, 16));
}

TEST(GemmWalk, OneRowOfTilesLeavesNothingForAStride) {
  GemmLaunch launch = sixteen_by_sixteen(4);
  launch.schedule.m = 16;
  const std::array strides{0, 16, 64};
  const auto ranked = rank_swizzle_strides(launch, kTinyL2, strides);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    EXPECT_EQ(ranked[i].swizzle_stride, strides[i]);
    EXPECT_EQ(ranked[i].traffic.excess_misses, 3 * kMatrix / 16);  // A once per further wave.
  }
}

TEST(GemmWalk, SawtoothOverKFindsTheTurnAgain) {
  // One CTA computes two tiles of one row: A's last k-block is still there at the turn.
  GemmLaunch launch = sixteen_by_sixteen(1);
  launch.schedule.m = 16;
  launch.schedule.n = 32;
  launch.schedule.persistence = Persistence::persistent;
  const L2Policy three_blocks{.effective_bytes = 3 * kBlock * kSectorBytes};
  EXPECT_EQ(simulate_gemm_l2(launch, three_blocks).excess_misses, kKBlocks * kBlock);
  launch.schedule.k_order = Order::sawtooth;
  EXPECT_EQ(simulate_gemm_l2(launch, three_blocks).excess_misses, (kKBlocks - 1) * kBlock);
}

TEST(GemmWalk, ClustersAskOnceForWhatTheyShare) {
  GemmLaunch launch = sixteen_by_sixteen(8);
  const long long alone = simulate_gemm_l2(launch, kHugeL2).summary.read_sectors;
  launch.schedule.cluster_m = 2;
  launch.schedule.cluster_n = 2;
  const GemmTraffic traffic = simulate_gemm_l2(launch, kHugeL2);
  EXPECT_EQ(2 * traffic.summary.read_sectors, alone);
  EXPECT_EQ(traffic.compulsory_misses, 2 * kMatrix + kC);
}

TEST(GemmWalk, ClustersAlongKReadWhatOneCtaReadsInFewerSteps) {
  GemmLaunch launch = sixteen_by_sixteen(16);
  const GemmSummary alone = simulate_gemm_l2(launch, kHugeL2).summary;
  launch.schedule.cluster_k = 2;
  launch.sm_count *= 2;
  const GemmSummary together = simulate_gemm_l2(launch, kHugeL2).summary;
  EXPECT_EQ(together.read_sectors, alone.read_sectors);
  EXPECT_EQ(together.write_sectors, alone.write_sectors);
  EXPECT_EQ(2 * together.makespan_steps, alone.makespan_steps);
}

TEST(GemmWalk, WhatBothPartitionsReadIsFetchedOnce) {
  GemmLaunch launch = sixteen_by_sixteen(16);
  launch.l2_partitions = 2;
  const GemmTraffic traffic = simulate_gemm_l2(launch, kHugeL2);
  EXPECT_EQ(traffic.compulsory_misses, 2 * kMatrix + kC);
  EXPECT_EQ(traffic.excess_misses, 0);
}

TEST(GemmWalk, SplitsReadWhatOneReadsAndEachWriteC) {
  GemmLaunch launch = sixteen_by_sixteen(16);
  const GemmTraffic whole = simulate_gemm_l2(launch, kHugeL2);
  launch.schedule.splits = 2;
  const GemmTraffic split = simulate_gemm_l2(launch, kHugeL2);
  EXPECT_EQ(split.summary.read_sectors, whole.summary.read_sectors);
  EXPECT_EQ(split.summary.write_sectors, 2 * kC);
}

/// Persistent launches of 128x256 tiles on an H200.
std::string published_strides(int m, int n, int k) {
  static const GpuProfile h200 = load_profile("h200");
  GemmLaunch launch;
  launch.schedule.m = m;
  launch.schedule.n = n;
  launch.schedule.k = k;
  launch.schedule.tile_m = 128;
  launch.schedule.tile_n = 256;
  launch.schedule.tile_k = 64;
  launch.schedule.persistence = Persistence::persistent;
  launch.sm_count = h200.device.sm_count;
  launch.l2_partitions = 2;
  launch.partition_runs = h200.l2_partition_runs;
  const std::array strides{0, 512, 1024, 1792, 2048, 3072, 4096, 8192};
  const auto ranked = rank_swizzle_strides(launch, h200.l2_policy(), strides);
  const auto read_mb = [](const StrideTraffic& entry) {
    const GemmTraffic& traffic = entry.traffic;
    const long long read =
        traffic.compulsory_misses + traffic.excess_misses - traffic.summary.write_sectors;
    return static_cast<double>(read * kSectorBytes) / 1e6;
  };
  const auto off = std::find_if(ranked.begin(), ranked.end(),
                                [](const auto& entry) { return entry.swizzle_stride == 0; });
  char text[160];
  std::snprintf(text, sizeof text, "| %d x %d x %d | %d | %.0f | %.0f | %.0f at %d |", m, n, k,
                ranked.front().swizzle_stride, read_mb(ranked.front()), read_mb(*off),
                read_mb(ranked.back()), ranked.back().swizzle_stride);
  return text;
}

TEST(GemmWalk, StridesForAnH200ArePublishedAsPredicted) {
  std::ifstream file(SWR_L2_MODEL_DOC);
  const std::string published{std::istreambuf_iterator<char>(file), {}};
  const std::array<std::array<int, 3>, 5> sizes{{{2048, 2048, 2048},
                                                 {4096, 4096, 4096},
                                                 {8192, 8192, 8192},
                                                 {4096, 14336, 4096},
                                                 {512, 28672, 8192}}};
  for (const auto& [m, n, k] : sizes) {
    EXPECT_THAT(published, HasSubstr(published_strides(m, n, k) + "\n"));
  }
}

GemmLaunch random_launch(std::mt19937& random) {
  const auto pick = [&random](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  GemmLaunch launch;
  GemmSchedule& gemm = launch.schedule;
  gemm.m = pick(1, 200);
  gemm.n = pick(1, 200);
  gemm.k = pick(1, 100);
  gemm.batch = pick(1, 3);
  gemm.tile_m = 16 * pick(1, 3);
  gemm.tile_n = 16 * pick(1, 3);
  gemm.tile_k = 16 * pick(1, 2);
  gemm.cluster_m = pick(1, 2);
  gemm.cluster_n = pick(1, 2);
  gemm.cluster_k = pick(1, min_of(2, gemm.k_blocks()));
  gemm.splits = pick(1, gemm.k_blocks() / gemm.cluster_k);
  gemm.raster = static_cast<Raster>(pick(0, 4));
  gemm.raster_group = pick(1, 4);
  gemm.swizzle_stride = 16 * pick(0, 6);
  gemm.persistence = static_cast<Persistence>(pick(0, 1));
  gemm.k_order = static_cast<Order>(pick(0, 1));
  launch.sm_count = pick(1, 12);
  launch.ctas_per_sm = pick(1, 2);
  return launch;
}

TEST(GemmWalk, TheMissCurveAgreesWithTheCacheAtEverySizeOnRandomLaunches) {
  std::mt19937 random(42);
  for (int trial = 0; trial < 200; ++trial) {
    const GemmLaunch launch = random_launch(random);
    const MissCurve curve = gemm_miss_curve(launch);
    for (const long long kib : {1LL, 2LL, 5LL, 17LL, 60LL, 1000LL}) {
      const GemmTraffic traffic = simulate_gemm_l2(launch, {.effective_bytes = kib * 1024});
      ASSERT_EQ(curve.excess_misses(kib * 1024 / kSectorBytes), traffic.excess_misses) << trial;
      ASSERT_EQ(curve.compulsory_misses(), traffic.compulsory_misses) << trial;
    }
  }
}

TEST(GemmWalk, CompulsoryMissesAreEveryBlockOnceAndEveryWrite) {
  std::mt19937 random(43);
  for (int trial = 0; trial < 200; ++trial) {
    GemmLaunch launch = random_launch(random);
    launch.l2_partitions = 1 + trial % 2;
    const GemmBlocks blocks(launch);
    long long once = 0;
    for (const int sectors : blocks.sectors) {
      once += sectors;
    }
    const GemmTraffic traffic = simulate_gemm_l2(launch, kTinyL2);
    ASSERT_EQ(traffic.compulsory_misses, once + traffic.summary.write_sectors) << trial;
    ASSERT_LE(traffic.excess_misses, 2 * traffic.summary.read_sectors) << trial;
  }
}

TEST(GemmWalk, BlocksHaveIdsOfTheirOwn) {
  GemmLaunch launch = sixteen_by_sixteen(1);
  launch.schedule.batch = 2;
  const GemmBlocks blocks(launch);
  std::set<int> ids;
  for (int item = 0; item < 2; ++item) {
    for (int tile = 0; tile < 16; ++tile) {
      for (int k = 0; k < blocks.k_blocks; ++k) {
        ids.insert(blocks.a_block(item, tile, k));
        ids.insert(blocks.b_block(item, tile, k));
      }
    }
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(blocks.count()));
  EXPECT_EQ(*ids.rbegin(), blocks.count() - 1);
}

}  // namespace
}  // namespace swr
