// SPDX-License-Identifier: MIT
#include "operations/gemm/model/explanation.h"

#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gtest/gtest.h>

namespace swr {
namespace {

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
