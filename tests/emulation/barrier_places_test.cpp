// SPDX-License-Identifier: MIT
// All threads of a CTA come to a barrier at one place of the kernel, also where some of its warps
// have no rows to compute. Compiled without optimisation, so that places can be told apart.
#include "attention_serving/portable/kernel.cuh"
#include "tests/emulation/portable_attention_problem.h"
#include "tests/emulation/serving_problem.h"
#include "tests/emulation/simt.h"

namespace swr {
namespace {

template <ServingAttentionConfig C>
void expect_one_place(const serving_test::Problem& problem, unsigned seed) {
  serving_test::ServingMemory memory(C, problem, seed);
  const ServingLaunch launch = memory.prepare();
  emulation::run({.grid = static_cast<unsigned>(launch.grid_x),
                  .threads = launch.block_x,
                  .smem_bytes = launch.dynamic_smem_bytes,
                  .copies = problem.copies,
                  .pace = problem.pace,
                  .ctas = problem.ctas},
                 [&] { serving::run<C>(memory.params(), 0); });
  EXPECT_EQ(memory.wrong_values(), 0) << "seed " << seed << ": " << problem;
}

constexpr ServingAttentionConfig kFourWarps{.head_dim = 16,
                                            .head_dim_v = 16,
                                            .dtype = DType::fp16,
                                            .tile_m = 64,
                                            .tile_n = 16,
                                            .warps = 4,
                                            .stages = 2,
                                            .persistence = Persistence::persistent,
                                            .pack_gqa = false,
                                            .deal = Deal::whole};

using Config = ServingAttentionConfig;

/// Queries for one warp, two, and all four of them, keys with and without a mask.
serving_test::Problem few_queries() {
  serving_test::Problem problem;
  problem.batch = 4;
  problem.max_seq_q = 70;
  problem.max_seq_kv = 150;
  problem.seq_q = {4, 20, 70, 0};
  problem.seq_kv = {150, 40, 75, 9};
  problem.workers = 3;
  return problem;
}

TEST(PlacesOfBarriers, AreOneForSequencesOfFewQueries) {
  expect_one_place<kFourWarps>(few_queries(), 1);
  expect_one_place<with(kFourWarps, &Config::stages, 1)>(few_queries(), 2);
  expect_one_place<with(kFourWarps, &Config::deal, Deal::ranges)>(few_queries(), 3);
  expect_one_place<with(kFourWarps, &Config::deal, Deal::ranges, &Config::pack_gqa, true,
                        &Config::head_dim_v, 32)>(few_queries(), 4);
}

/// Warps that share rows meet more often.
TEST(PlacesOfBarriers, AreOneWhereWarpsShareRows) {
  expect_one_place<with(kFourWarps, &Config::deal, Deal::ranges, &Config::tile_m, 32,
                        &Config::tile_n, 32)>(few_queries(), 5);
}

TEST(PlacesOfBarriers, AreOneForSplitsAndPackedHeads) {
  using namespace portable_test;
  constexpr Shape kFewRows{.heads_q = 4, .heads_kv = 2, .seq_q = 9, .seq_kv = 100};
  expect_right<packed(with_tile(64, 16, 4, 1))>(kFewRows);
  expect_right<packed(with_tile(64, 16, 4, 2))>(kFewRows);
  expect_right<split(packed(with_tile(64, 16, 4, 2)))>(kFewRows, {.kv_splits = 2});
  expect_right<split(with_tile(64, 16, 4, 1))>(kFewRows, {.kv_splits = 3});
}

/// What the tests above rest on.
TEST(PlacesOfBarriers, AreToldApart) {
  const auto meet_at = [](bool everywhere) {
    emulation::run({.threads = 64, .smem_bytes = 16}, [&] {
      if (everywhere || threadIdx.x < 32) {
        __syncthreads();
      } else {
        __syncthreads();
      }
    });
  };
  meet_at(true);
  EXPECT_DEATH(meet_at(false), "several places");
}

}  // namespace
}  // namespace swr
