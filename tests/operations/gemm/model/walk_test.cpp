// SPDX-License-Identifier: MIT
// The walk of GEMM against what can be derived by hand.
#include "operations/gemm/model/walk.h"

#include "core/json.h"
#include "core/operation.h"
#include "model/profile/gpu_profile.h"
#include "operations/gemm/model/explanation.h"
#include "report/explain/explanation.h"
#include "tests/support/test.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/result.h>

#include <sstream>
#include <string>
#include <utility>

namespace swr {
namespace {

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

TEST(GemmWalk, WithoutAWalkSumsAreThoseOfOneThatMeetsNothing) {
  GemmLaunch launch = sixteen_by_sixteen(7);
  launch.schedule.m = 250;
  launch.schedule.cluster_n = 2;
  launch.schedule.splits = 2;
  launch.schedule.batch = 3;
  launch.c_element_bytes = 4;
  const GemmTraffic walked = simulate_gemm_l2(launch, kHugeL2);
  const GemmTraffic unwalked = unwalked_gemm_traffic(launch);
  EXPECT_EQ(unwalked.summary.read_sectors, walked.summary.read_sectors);
  EXPECT_EQ(unwalked.summary.distinct_sectors, walked.summary.read_sectors);
  EXPECT_EQ(unwalked.summary.write_sectors, walked.summary.write_sectors);
  EXPECT_EQ(unwalked.summary.makespan_steps, walked.summary.makespan_steps);
  EXPECT_EQ(unwalked.compulsory_misses, walked.compulsory_misses);
  EXPECT_EQ(unwalked.fetched.a, walked.fetched.a);
  EXPECT_EQ(unwalked.fetched.b, walked.fetched.b);
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

TEST(GemmWalk, FetchedSectorsAreCountedByOperand) {
  // Every wave is a row of tiles: it reads its rows of A, and all of B.
  GemmLaunch launch = sixteen_by_sixteen(16);
  launch.schedule.raster = Raster::along_n;
  const GemmTraffic whole = simulate_gemm_l2(launch, kTinyL2);
  EXPECT_EQ(whole.fetched.a, kMatrix);
  EXPECT_EQ(whole.fetched.b, 16 * kMatrix);
  launch.l2_partitions = 2;
  const GemmTraffic halves = simulate_gemm_l2(launch, kTinyL2);
  EXPECT_EQ(halves.fetched.a + halves.fetched.b + kC,
            halves.compulsory_misses + halves.excess_misses);
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

struct StrideTraffic {
  int swizzle_stride = 0;
  GemmTraffic traffic;
};

/// The launch with each swizzle stride, fewest misses first; equal ones as they were given.
std::vector<StrideTraffic> rank_swizzle_strides(GemmLaunch launch, const L2Policy& policy,
                                                std::span<const int> strides) {
  std::vector<StrideTraffic> ranked;
  for (const int stride : strides) {
    launch.schedule.swizzle_stride = stride;
    ranked.push_back({stride, simulate_gemm_l2(launch, policy)});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.traffic.excess_misses < b.traffic.excess_misses;
  });
  return ranked;
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
  const std::string published = bytes_of(SWR_L2_MODEL_DOC);
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

constexpr KernelResources kResources{.registers_per_thread = 168};
constexpr GemmVariant kHopper{.family = Family::hopper,
                              .tile_m = 128,
                              .tile_n = 256,
                              .tile_k = 64,
                              .stages = 4,
                              .consumers = 2,
                              .cluster_m = 2,
                              .persistence = Persistence::persistent};
constexpr GemmVariant kPortable{.tile_m = 128, .tile_n = 128, .tile_k = 32, .stages = 3};

GemmExplanation explained(const GemmProblem& problem, const GemmVariant& variant) {
  return explain(problem, variant, kResources, load_profile("h200"));
}

TEST(GemmExplanation, BuffersMakeUpTheSharedMemory) {
  const GemmProblem problem{.m = 1024, .n = 1024, .k = 512};
  for (const GemmVariant& variant : {kHopper, kPortable}) {
    EXPECT_EQ(total_bytes(explained(problem, variant).buffers), smem_bytes(problem, variant));
  }
}

TEST(GemmExplanation, MatricesAgreeWithTheWalk) {
  const GemmProblem problem{.m = 1024, .n = 1024, .k = 512, .batch = 2};
  for (const GemmVariant& variant : {kHopper, kPortable}) {
    const GemmExplanation why = explained(problem, variant);
    ASSERT_EQ(why.matrices.size(), 3U);
    EXPECT_EQ(why.matrices[0].demanded + why.matrices[1].demanded,
              why.traffic.summary.read_sectors * kSectorBytes);
    EXPECT_EQ(why.matrices[2].demanded, why.traffic.summary.write_sectors * kSectorBytes);
  }
}

/// What `explain` prints and what it has in JSON, for a GB10.
std::pair<std::string, Json> on_gb10(const GemmProblem& problem, const GemmVariant& variant) {
  const auto why = Problem(problem).operation().explain(
      {problem, load_profile("gb10"), {.variant = variant, .resources = kResources}});
  std::ostringstream text;
  why->print(text);
  return {text.str(), why->json()["order"]};
}

TEST(GemmExplanation, SaysWhichOperandAnOrderReadsAgain) {
  // 40 MiB of A and of B, 21 MiB of L2. Along n all 128 rows of tiles sweep B; bands of 16 rows, of
  // which 5 MiB of A stay, sweep it eight times, and turn where a part of it is left.
  const GemmProblem problem{.m = 16384, .n = 16384, .k = 1280};
  GemmVariant variant = kPortable;
  variant.raster = Raster::along_n;
  const auto [swept, order] = on_gb10(problem, variant);
  EXPECT_THAT(swept, HasSubstr("this order, along_n, reads A 2.0 times and B 128 times; "
                               "serpentine/16 reads A once and B 7."));
  EXPECT_NEAR(order["reads"]["B"].get<double>(), 128.0, 0.5);
  EXPECT_NEAR(order["fastest_other"]["reads"]["A"].get<double>(), 1.0, 0.01);
  EXPECT_LT(order["fastest_other"]["time_ratio"].get<double>(), 0.4);

  variant.raster = Raster::serpentine;
  variant.raster_group = 16;
  EXPECT_THAT(on_gb10(problem, variant).first, HasSubstr("no other order saves 2 %"));
}

TEST(GemmExplanation, SaysNothingOfAnOrderWhoseOperandsStayInL2) {
  const auto [text, order] = on_gb10({.m = 2048, .n = 2048, .k = 1024}, kPortable);
  EXPECT_THAT(text, Not(HasSubstr("this order")));
  EXPECT_EQ(order["reads"]["A"], 1.0);
  EXPECT_FALSE(order.contains("fastest_other"));
}

TEST(GemmExplanation, WavesAreTilesOverThoseThatRunAtOnce) {
  // 8 x 4 clusters of 256 x 256, 66 of which fit 132 SMs.
  const GemmExplanation why = explained({.m = 2048, .n = 1024, .k = 512}, kHopper);
  EXPECT_EQ(why.ctas, 2 * 32);
  EXPECT_DOUBLE_EQ(why.waves, 32.0 / 66);
  GemmVariant few_workers = kHopper;
  few_workers.workers = 32;
  EXPECT_DOUBLE_EQ(explained({.m = 2048, .n = 1024, .k = 512}, few_workers).waves, 2.0);
  const GemmExplanation grid = explained({.m = 4096, .n = 4096, .k = 512}, kPortable);
  EXPECT_EQ(grid.ctas, 1024);
  EXPECT_DOUBLE_EQ(grid.waves, 1024.0 / (132 * grid.occupancy.ctas_per_sm));
}

TEST(GemmExplanation, SplitsWritePartialSumsAndReadCIsCounted) {
  GemmVariant split = kPortable;
  split.splits = 4;
  const GemmProblem problem{.m = 256, .n = 256, .k = 4096, .reads_c = true};
  const GemmExplanation why = explained(problem, split);
  ASSERT_EQ(why.matrices.size(), 4U);
  EXPECT_EQ(why.matrices[2].matrix, "partial sums");
  EXPECT_EQ(why.matrices[2].demanded, 4 * 256 * 256 * 4);
  EXPECT_EQ(why.matrices[3].demanded, 256 * 256 * 2);
  EXPECT_GT(why.prediction.split_us, 0.0);
}

TEST(GemmExplanation, WhatDoesNotFitIsAnError) {
  GpuProfile small = load_profile("h200");
  small.device.registers_per_sm = 1024;
  EXPECT_THROW(explain(GemmProblem{.m = 64, .n = 64, .k = 64}, kPortable, kResources, small),
               Error);
}

}  // namespace
}  // namespace swr
