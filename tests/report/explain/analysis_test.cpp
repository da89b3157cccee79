// SPDX-License-Identifier: MIT
// A fictional GPU with round numbers: 100 TFLOP/s of products, 1000 GB/s of memory, 5000 GB/s of
// L2.
#include "report/explain/analysis.h"

#include "report/explain/memory_access.h"
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

GpuProfile round_profile() {
  return GpuProfile{.device = {.name = "Fictional Round",
                               .sm_arch = 121,
                               .sm_count = 100,
                               .l2_bytes = 32LL << 20,
                               .dram_gb_per_s = 2000.0,
                               .smem_per_cta_bytes = 100 * 1024,
                               .smem_per_sm_bytes = 128 * 1024,
                               .smem_reserved_per_cta_bytes = 1024,
                               .registers_per_sm = 65536,
                               .max_threads_per_sm = 2048,
                               .max_ctas_per_sm = 32},
                    .clock_mhz = 1000.0,
                    .matrix_flop_per_clock_per_sm = 1000.0,
                    .exp2_per_clock_per_sm = 16.0,
                    .l2_gb_per_s = 5000.0,
                    .dram_efficiency = 0.5};
}

/// 4 * 1024^2 * 64 * 16 = 4.295 GFLOP over 8 MiB of Q, K, V and O: 512 FLOP per byte.
constexpr AttentionProblem kProblem{
    .heads_q = 16, .heads_kv = 16, .seq_q = 1024, .seq_kv = 1024, .head_dim = 64};

VariantResult predicted(double time_us, long long excess) {
  VariantResult result{.variant = AttentionVariant{}};
  result.resources.registers_per_thread = 128;
  result.ctas_per_sm = 2;
  result.outcome = Prediction{.time_us = time_us,
                              .read_sectors = 1'000'000,
                              .compulsory_misses = compulsory_sectors(kProblem),
                              .excess_misses = excess};
  return result;
}

TEST(Analysis, RooflineHasBothGaps) {
  // 42.95 TFLOP/s; three times the compulsory bytes more were fetched again.
  const VariantResult result = predicted(100.0, 3 * compulsory_sectors(kProblem));
  const Roofline roof = roofline(kProblem, result, round_profile()).value();
  EXPECT_DOUBLE_EQ(roof.peak_tflop_per_s, 100.0);
  EXPECT_DOUBLE_EQ(roof.dram_gb_per_s, 1000.0);
  EXPECT_NEAR(roof.tflop_per_s, 42.95, 0.01);
  EXPECT_DOUBLE_EQ(roof.algorithmic_intensity, 512.0);
  EXPECT_DOUBLE_EQ(roof.observed_intensity.value(), 128.0);
  EXPECT_DOUBLE_EQ(roof.roof_tflop_per_s(50.0), 50.0);
  EXPECT_DOUBLE_EQ(roof.roof_tflop_per_s(128.0), 100.0);
  EXPECT_NEAR(roof.vertical_gap(), 2.328, 0.001);
  EXPECT_DOUBLE_EQ(roof.horizontal_gap().value(), 4.0);
}

TEST(Analysis, BytesThatWereNotCountedStayUnknown) {
  VariantResult result = predicted(100.0, 0);
  result.outcome = Measurement{.median_us = 100.0, .counters_missing_because = "no permission"};
  EXPECT_FALSE(dram_bytes(result));
  const Roofline roof = roofline(kProblem, result, round_profile()).value();
  EXPECT_FALSE(roof.observed_intensity);
  EXPECT_FALSE(roof.horizontal_gap());
  EXPECT_NEAR(roof.vertical_gap(), 2.328, 0.001);
  EXPECT_THAT(next_steps_in_words(kProblem, result, round_profile()),
              Contains(HasSubstr("measure with counters")));
}

TEST(Analysis, UnitsAreOrderedByTheTimeTheyNeed) {
  // 16 MiB of memory in 50 us are 335 GB/s of 1000; 32 MB of L2 640 GB/s of 5000.
  const auto use =
      unit_use(kProblem, predicted(50.0, compulsory_sectors(kProblem)), round_profile());
  ASSERT_EQ(use.size(), 4U);
  EXPECT_EQ(use[0].unit, "tensor cores");
  EXPECT_NEAR(use[0].share, 0.859, 0.001);
  EXPECT_EQ(use[1].unit, "memory bandwidth");
  EXPECT_NEAR(use[1].share, 0.3355, 0.001);
  EXPECT_EQ(use[2].unit, "exponentials");
  EXPECT_NEAR(use[2].share, 0.2097, 0.001);
  EXPECT_EQ(use[3].unit, "L2 bandwidth");
  EXPECT_NEAR(use[3].share, 0.128, 0.001);
}

TEST(Analysis, WordsNameTheBoundAndItsProvenance) {
  EXPECT_THAT(limits_in_words(kProblem, predicted(50.0, 0), round_profile()),
              Contains(HasSubstr(
                  "Bound by tensor cores: at full rate the work takes 86 % of the predicted")));
  EXPECT_THAT(limits_in_words(kProblem, predicted(500.0, 0), round_profile()),
              Contains(HasSubstr("latency bounds it")));
}

TEST(Analysis, KnobsFollowTheNumbers) {
  const auto without = next_steps_in_words(kProblem, predicted(100.0, 0), round_profile());
  EXPECT_THAT(without, Contains(HasSubstr("Horizontal gap: none")));
  const auto with = next_steps_in_words(kProblem, predicted(100.0, compulsory_sectors(kProblem)),
                                        round_profile());
  EXPECT_THAT(with, Contains(HasSubstr("8.000 MiB were fetched again; try --order sawtooth")));
  VariantResult spilling = predicted(100.0, 0);
  spilling.resources.spill_load_bytes = 8;
  EXPECT_THAT(next_steps_in_words(kProblem, spilling, round_profile()),
              Contains(HasSubstr("registers spill")));
  VariantResult lonely = predicted(100.0, 0);
  attention(lonely.variant).persistence = Persistence::persistent;
  lonely.ctas_per_sm = 1;
  EXPECT_THAT(next_steps_in_words(kProblem, lonely, round_profile()),
              Contains(HasSubstr("only 4 computing warps")));
}

TEST(Analysis, HopperKernelsHaveTheRoofOfWgmma) {
  GpuProfile profile = round_profile();
  EXPECT_DOUBLE_EQ(peak_tflop_per_s(Family::hopper, profile), 409.6);
  EXPECT_DOUBLE_EQ(peak_tflop_per_s(Family::portable, profile), 100.0);
}

VariantResult counted(const Variant& variant, const AccessCounters& accesses) {
  return VariantResult{.variant = variant,
                       .outcome = Measurement{.median_us = 1.0, .accesses = accesses}};
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
  AccessCounters accesses{.smem_load_wavefronts = 9, .global_load_sectors = 9};
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
  VariantResult result{.variant = AttentionVariant{}, .outcome = Prediction{}};
  EXPECT_EQ(accesses_unknown_because(result), "nothing was measured");
  EXPECT_TRUE(accesses_json(AttentionProblem{}, result).is_null());
  result.outcome = Measurement{};
  EXPECT_THAT(accesses_unknown_because(result), HasSubstr("winners"));
  result.outcome = Measurement{.accesses_missing_because = "no permission"};
  EXPECT_EQ(accesses_unknown_because(result), "no permission");
}

}  // namespace
}  // namespace swr
