// SPDX-License-Identifier: MIT
#include "report/explain/memory_access.h"

#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

VariantResult counted(const Variant& variant, const AccessCounters& accesses) {
  VariantResult result{.variant = AttentionVariant{}};
  result.variant = variant;
  result.outcome = Measurement{.median_us = 1.0, .accesses = accesses};
  return result;
}

/// Every load of a warp meets in one bank; half of each sector is used.
AccessCounters poor() {
  return {.smem_load_wavefronts = 3200,
          .smem_load_conflicts = 3100,
          .global_store_requests = 10,
          .global_store_sectors = 80,
          .global_store_bytes = 1280};
}

TEST(MemoryAccess, RatiosAreOverAllKindsThatTookPlace) {
  AccessCounters accesses = poor();
  accesses.smem_copy_wavefronts = 3200;
  accesses.smem_copy_conflicts = 0;
  accesses.smem_wgmma_wavefronts = 0;
  accesses.smem_wgmma_conflicts = 0;
  EXPECT_THAT(smem_accesses(accesses), SizeIs(2));
  EXPECT_DOUBLE_EQ(smem_accesses(accesses)[0].conflicts_per_wavefront(), 31.0 / 32.0);
  EXPECT_DOUBLE_EQ(*conflicts_per_wavefront(accesses), 31.0 / 64.0);
  EXPECT_DOUBLE_EQ(global_accesses(accesses)[0].sectors_per_request(), 8.0);
  EXPECT_DOUBLE_EQ(*bytes_per_sector(accesses), 16.0);
}

TEST(MemoryAccess, AKindThatTheChipCountsInPartIsLeftOut) {
  AccessCounters accesses;
  accesses.smem_load_wavefronts = 9;
  accesses.global_load_sectors = 9;
  EXPECT_THAT(smem_accesses(accesses), IsEmpty());
  EXPECT_THAT(global_accesses(accesses), IsEmpty());
  EXPECT_FALSE(conflicts_per_wavefront(accesses));
  EXPECT_FALSE(bytes_per_sector(accesses));
  EXPECT_THAT(access_steps_in_words(AttentionProblem{}, counted(AttentionVariant{}, accesses)),
              IsEmpty());
}

TEST(MemoryAccess, NamesTheKnobOfAttention) {
  const auto steps = [](const AttentionVariant& variant, const AttentionProblem& problem) {
    return access_steps_in_words(problem, counted(variant, poor()));
  };
  EXPECT_THAT(steps({.smem_swizzle = false}, {}),
              ElementsAre(HasSubstr("--smem-swizzle on"), HasSubstr("--kv-copy tma")));
  EXPECT_THAT(steps({.kv_splits = 4}, {}),
              ElementsAre(HasSubstr("another --tile"), HasSubstr("fewer --kv-splits")));
  EXPECT_THAT(steps({.family = Family::hopper, .p_operand = POperand::shared}, {}),
              ElementsAre(HasSubstr("--p-operand registers"), HasSubstr("16.0 of the 32 bytes")));
  EXPECT_THAT(steps({}, {.alignment_bytes = 4})[1], HasSubstr("--alignment"));
}

TEST(MemoryAccess, NamesTheKnobOfGemm) {
  const auto steps = [](const GemmVariant& variant) {
    return access_steps_in_words(GemmProblem{}, counted(variant, poor()));
  };
  EXPECT_THAT(steps({.tile_k = 32}),
              ElementsAre(HasSubstr("--tile-k 64"), HasSubstr("a wider --tile")));
  EXPECT_THAT(steps({.tile_k = 64, .splits = 2})[1], HasSubstr("fewer --splits"));
  EXPECT_THAT(steps({.family = Family::hopper})[0], HasSubstr("TMA and wgmma"));
}

TEST(MemoryAccess, SaysWhereNothingIsToBeGained) {
  const AccessCounters good{.smem_load_wavefronts = 1000,
                            .smem_load_conflicts = 10,
                            .global_load_requests = 10,
                            .global_load_sectors = 160,
                            .global_load_bytes = 5120};
  EXPECT_THAT(access_steps_in_words(AttentionProblem{}, counted(AttentionVariant{}, good)),
              ElementsAre(HasSubstr("none worth a change"), HasSubstr("nothing to gain")));
}

TEST(MemoryAccess, SaysWhyNothingIsKnown) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Prediction{};
  EXPECT_EQ(accesses_unknown_because(result), "nothing was measured");
  EXPECT_TRUE(accesses_json(AttentionProblem{}, result).is_null());
  result.outcome = Measurement{};
  EXPECT_THAT(accesses_unknown_because(result), HasSubstr("winners"));
  result.outcome = Measurement{.accesses_missing_because = "no permission"};
  EXPECT_EQ(accesses_unknown_because(result), "no permission");
}

}  // namespace
}  // namespace swr
