// SPDX-License-Identifier: MIT
#include "operations/attention/model/cta_memory.h"

#include "model/profile/gpu_profile.h"
#include "operations/attention/model/l2_traffic.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>
#include <swr/result.h>

namespace swr {
namespace {

/// A FlashAttention kernel that keeps S and P in fp32 beside O and the running maximum and sum, and
/// pads its last tiles: the layout behind the worked examples of a published resource analysis on
/// an A100.
const std::vector<BufferLayout> kWorkedExample{
    {"Q", Extent::q_rows, Extent::head_dim, 2},  {"K", Extent::kv_rows, Extent::head_dim, 2},
    {"V", Extent::kv_rows, Extent::head_dim, 2}, {"S", Extent::q_rows, Extent::kv_rows, 4},
    {"P", Extent::q_rows, Extent::kv_rows, 4},   {"O", Extent::q_rows, Extent::head_dim, 4},
    {"maximum", Extent::q_rows, Extent::one, 4}, {"sum", Extent::q_rows, Extent::one, 4},
};

constexpr AttentionProblem kExampleProblem{
    .heads_q = 16, .heads_kv = 16, .seq_q = 1024, .seq_kv = 1024, .head_dim = 32};

TEST(CtaMemory, GivesThePublishedNumbersForTilesOf45x90) {
  const auto buffers = buffer_bytes(kWorkedExample, 45, 90, kExampleProblem.head_dim);
  EXPECT_EQ(total_bytes(buffers), 52'920);
  EXPECT_EQ(ctas_by_smem(total_bytes(buffers), load_profile("a100").device), 3);
  const GlobalBytes bytes = global_bytes(kExampleProblem, 45, 90, LastTile::whole);
  EXPECT_EQ(bytes.block(), 144'000);
  EXPECT_EQ(bytes.blocks, 368);
  // Every block moves whole tiles, the last one of Q too.
  EXPECT_EQ(bytes.total(), 52'992'000);
}

TEST(CtaMemory, GivesThePublishedNumbersForTilesOf120x120) {
  const auto buffers = buffer_bytes(kWorkedExample, 120, 120, kExampleProblem.head_dim);
  EXPECT_EQ(total_bytes(buffers), 154'560);
  EXPECT_EQ(ctas_by_smem(total_bytes(buffers), load_profile("a100").device), 1);
  const GlobalBytes bytes = global_bytes(kExampleProblem, 120, 120, LastTile::whole);
  EXPECT_EQ(bytes.block(), 153'600);
  EXPECT_EQ(bytes.blocks, 144);
  EXPECT_EQ(bytes.total(), 22'118'400);
}

TEST(CtaMemory, BuffersOfAVariantAreItsSharedMemory) {
  const AttentionProblem problem{.seq_q = 4096, .seq_kv = 4096, .head_dim = 80};
  AttentionVariant portable{.tile_m = 80, .tile_n = 48, .warps = 5, .stages = 3};
  EXPECT_EQ(total_bytes(smem_buffers(problem, portable)), smem_bytes(problem, portable));
  for (const POperand p_operand : {POperand::registers, POperand::shared}) {
    for (const Persistence persistence : {Persistence::grid, Persistence::persistent}) {
      const AttentionVariant hopper{.family = Family::hopper,
                                    .tile_m = 128,
                                    .tile_n = 96,
                                    .warps = 8,
                                    .stages = 2,
                                    .persistence = persistence,
                                    .p_operand = p_operand};
      EXPECT_EQ(total_bytes(smem_buffers(problem, hopper)), smem_bytes(problem, hopper));
    }
  }
}

TEST(CtaMemory, BytesAreThoseThatTheScheduleDemands) {
  const std::vector<AttentionProblem> problems{
      {.seq_q = 1000, .seq_kv = 1000},
      {.heads_q = 6, .heads_kv = 2, .seq_q = 700, .seq_kv = 1111, .causal = true},
      {.batch = 3, .heads_q = 2, .heads_kv = 1, .seq_q = 515, .seq_kv = 300, .causal = true}};
  const AttentionVariant variant{.tile_m = 64, .tile_n = 48};
  for (const AttentionProblem& problem : problems) {
    const L2Traffic walked =
        simulate_l2(make_schedule_shape(problem, variant, 16, 2), {.effective_bytes = 24LL << 20});
    const GlobalBytes bytes = global_bytes(problem, variant.tile_m, variant.tile_n);
    EXPECT_EQ(bytes.blocks, walked.schedule.q_tiles);
    EXPECT_EQ(bytes.total(),
              (walked.schedule.read_sectors + walked.schedule.write_sectors) * kSectorBytes);
    EXPECT_EQ(bytes.compulsory(), compulsory_sectors(problem) * kSectorBytes);
  }
}

TEST(CtaMemory, AmplificationIsOneWhenOneTileReadsEverything) {
  const AttentionProblem problem{.seq_q = 64, .seq_kv = 4096};
  EXPECT_DOUBLE_EQ(global_bytes(problem, 64, 64).amplification(), 1.0);
}

TEST(CtaMemory, PlainRowsConflictAndSwizzledOnesDoNot) {
  const AttentionProblem problem{.seq_q = 64, .seq_kv = 4096};
  EXPECT_EQ(bank_conflict_ways(problem, {}), 1);
  EXPECT_EQ(bank_conflict_ways(problem, {.smem_swizzle = false}), 8);
  EXPECT_EQ(bank_conflict_ways(problem, {.family = Family::hopper, .smem_swizzle = false}), 1);
}

}  // namespace
}  // namespace swr
