// SPDX-License-Identifier: MIT
// What attention's kernels compute, and the verdict over what a kernel wrote.
#include "operations/attention/config.h"
#include "operations/verdict.h"
#include "tests/support/fictional.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>

namespace swr {
namespace {
using test::fictional_hopper;

const AttentionProblem kProblem{
    .batch = 2, .heads_q = 3, .heads_kv = 3, .seq_q = 300, .seq_kv = 300, .head_dim = 64};

TEST(Kernel, SharedMemoryHoldsTheQTileAndEveryStageOfKAndV) {
  AttentionVariant variant{.tile_m = 128, .tile_n = 64, .warps = 8, .stages = 3};
  EXPECT_EQ(smem_bytes(kProblem, variant), 128 * 64 * 2 + 2 * 3 * 64 * 64 * 2);
  variant.warps = 4;  // Twice the registers per thread: some of what they held is parked.
  EXPECT_EQ(smem_bytes(kProblem, variant), 128 * 64 * 2 + 2 * 3 * 64 * 64 * 2 + 32);
}

TEST(Kernel, TensorMapsWantAlignedPanelsAndBarriers) {
  const auto bytes = [](int head_dim, AttentionVariant variant) {
    AttentionProblem problem = kProblem;
    problem.head_dim = head_dim;
    variant.kv_copy = KvCopy::tma;
    return smem_bytes(problem, variant);
  };
  const AttentionVariant small{.tile_m = 16, .tile_n = 16, .warps = 1, .stages = 2};
  // Q, K and V of 64 columns, four barriers for each of two stages.
  EXPECT_EQ(bytes(64, small), 2048 + 2 * 2 * 2048 + 4 * 2 * 8);
  // Q of 16 columns ends before the next 1024 bytes; K and V have 32.
  EXPECT_EQ(bytes(16, small), 1024 + 2 * 2 * 1024 + 4 * 2 * 8);
  // Three panels of 32 columns hold 80.
  EXPECT_EQ(bytes(80, small), 3 * 1024 + 2 * 2 * 3 * 1024 + 4 * 2 * 8);
}

TEST(Kernel, TensorMapsHaveABoxPerPanel) {
  const auto box = [](int head_dim, KvCopy kv_copy) {
    AttentionProblem problem = kProblem;
    problem.head_dim = head_dim;
    return launch_plan(problem, AttentionVariant{.tile_n = 48, .kv_copy = kv_copy}, 8, 2).kv_box;
  };
  EXPECT_EQ(box(64, KvCopy::cp_async).columns, 0);
  EXPECT_EQ(box(128, KvCopy::tma).columns, 64);
  EXPECT_EQ(box(128, KvCopy::tma).swizzle_bytes, 128);
  EXPECT_EQ(box(128, KvCopy::tma).rows, 48);
  EXPECT_EQ(box(96, KvCopy::tma).columns, 32);
  EXPECT_EQ(box(96, KvCopy::tma).swizzle_bytes, 64);
}

TEST(Kernel, CtasFallEvenlyWhereEverySmMustTakeAsManyAsFit) {
  const auto even = [](int ctas, int ctas_per_sm) {
    return must_fall_evenly({.sm_count = 132, .ctas_per_sm = ctas_per_sm}, ctas);
  };
  EXPECT_TRUE(even(1, 1)) << "one to an SM at most, wherever they come";
  EXPECT_FALSE(even(132, 2)) << "66 SMs could take them all";
  EXPECT_TRUE(even(133, 2));
  EXPECT_FALSE(even(256, 3));
  EXPECT_TRUE(even(1024, 3));
}

TEST(Kernel, OccupancyCountsTheRegistersOfEachScheduler) {
  // 176 registers are 5632 per warp: two fit the 16384 of a scheduler, so the SM holds 8 warps and
  // one CTA of 5, although 56320 registers of two would fit 65536. Seen on an H200.
  const AttentionVariant five{.tile_m = 80, .tile_n = 80, .warps = 5, .stages = 1};
  const auto ctas = [&](int registers) {
    return occupancy({.registers_per_thread = registers}, kProblem, five, fictional_hopper())
        .ctas_per_sm;
  };
  EXPECT_EQ(ctas(168), 2);
  EXPECT_EQ(ctas(176), 1);
}

TEST(Kernel, OccupancyNamesWhatLimitsIt) {
  const AttentionVariant variant{.tile_m = 64, .tile_n = 64, .warps = 4, .stages = 2};
  const auto limit = [&](int registers, const DeviceInfo& device) {
    return occupancy({.registers_per_thread = registers}, kProblem, variant, device);
  };
  // 168 registers round to 5376 per warp, 21504 per CTA: three fit 65536.
  EXPECT_EQ(limit(168, fictional_hopper()).ctas_per_sm, 3);
  EXPECT_EQ(limit(168, fictional_hopper()).limited_by, "registers");
  // 40960 + 1024 bytes: five fit 233472.
  EXPECT_EQ(limit(32, fictional_hopper()).ctas_per_sm, 5);
  EXPECT_EQ(limit(32, fictional_hopper()).limited_by, "shared memory");
  DeviceInfo few_threads = fictional_hopper();
  few_threads.max_threads_per_sm = 256;
  EXPECT_EQ(limit(32, few_threads).limited_by, "threads");
  DeviceInfo few_slots = fictional_hopper();
  few_slots.max_ctas_per_sm = 1;
  EXPECT_EQ(limit(32, few_slots).limited_by, "CTA slots");
}

TEST(Kernel, GridFollowsThePersistence) {
  // 2 * 3 heads of ceil(300 / 64) = 5 tiles.
  const auto grid = [](Persistence persistence, int workers) {
    return launch_geometry(kProblem,
                           AttentionVariant{.persistence = persistence, .workers = workers}, 8, 2)
        .grid_x;
  };
  EXPECT_EQ(grid(Persistence::grid, 0), 30);
  EXPECT_EQ(grid(Persistence::pairs, 0), 15);
  EXPECT_EQ(grid(Persistence::persistent, 0), 16);
  EXPECT_EQ(grid(Persistence::persistent, 5), 5);
  EXPECT_EQ(grid(Persistence::persistent, 1000), 30) << "never more CTAs than tiles";
}

TEST(Kernel, SplitsMultiplyTheGridAndNeedMemory) {
  const AttentionProblem decode{
      .batch = 3, .heads_q = 16, .heads_kv = 2, .seq_q = 5, .seq_kv = 4096, .head_dim = 128};
  const auto launch = [&](const AttentionVariant& variant) {
    return launch_geometry(decode, variant, 8, 2);
  };
  AttentionVariant variant{.tile_m = 32, .tile_n = 64, .warps = 2};
  EXPECT_EQ(launch(variant).grid_x, 3 * 16);
  EXPECT_EQ(launch(variant).partials_bytes, 0);
  EXPECT_EQ(launch(variant).arrival_words, 0);
  variant.pack_gqa = true;
  EXPECT_EQ(launch(variant).grid_x, 3 * 2 * 2) << "two tiles of 32 hold 5 x 8 rows";
  variant.kv_splits = 7;
  EXPECT_EQ(launch(variant).grid_x, 3 * 2 * 2 * 7);
  EXPECT_EQ(launch(variant).partials_bytes, 3 * 2 * 2 * 7 * 32 * 130 * 4);
  EXPECT_EQ(launch(variant).arrival_words, 3 * 2 * 2);
  variant.persistence = Persistence::persistent;
  EXPECT_EQ(launch(variant).grid_x, 16);
  EXPECT_EQ(launch(variant).arrival_words, 3 * 2 * 2);
  variant.swizzle = AttentionSwizzle::head_fastest;
  EXPECT_EQ(launch(variant).section_heads, 3 * 2);
}

TEST(Kernel, AnyNumberOfSplitsButOneSharesACubin) {
  const AttentionVariant two{.kv_splits = 2};
  const AttentionVariant many{.kv_splits = 40};
  EXPECT_EQ(kernel_of(two), kernel_of(many));
  EXPECT_FALSE(kernel_of(two) == kernel_of(AttentionVariant{}));
}

TEST(Kernel, WhichEndOfTheQTilesComesFirstIsALaunchChoice) {
  EXPECT_EQ(kernel_of(AttentionVariant{.longest_first = true}), kernel_of(AttentionVariant{}));
}

TEST(Kernel, SectionHeadsEncodeTheSwizzle) {
  const auto section = [](AttentionSwizzle swizzle, int heads) {
    return launch_geometry(kProblem, AttentionVariant{.swizzle = swizzle, .section_heads = heads},
                           8, 2)
        .section_heads;
  };
  EXPECT_EQ(section(AttentionSwizzle::q_fastest, 0), 1);
  EXPECT_EQ(section(AttentionSwizzle::head_fastest, 0), 6);
  EXPECT_EQ(section(AttentionSwizzle::head_sections, 4), 4);
}

using reference::Comparison;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Verdict, AcceptsRoundingAndReportsTheError) {
  const Verdict verdict =
      judge(Comparison{.error_squared = 1e-6, .reference_squared = 4.0}, DType::fp16);
  EXPECT_EQ(verdict.failure, "");
  EXPECT_DOUBLE_EQ(verdict.relative_error, 5e-4);
}

TEST(Verdict, HoldsBf16ToAWiderLimitThanFp16) {
  const Comparison comparison{.error_squared = 2.5e-5, .reference_squared = 1.0};
  EXPECT_NE(judge(comparison, DType::fp16).failure, "");
  EXPECT_EQ(judge(comparison, DType::bf16).failure, "");
}

TEST(Verdict, NeverAcceptsNaN) {
  EXPECT_NE(judge(Comparison{.error_squared = kNaN, .reference_squared = 1.0}, DType::bf16).failure,
            "");
  EXPECT_EQ(judge(Comparison{.error_squared = kNaN}, DType::bf16).relative_error, kInfinity);
  EXPECT_NE(judge(Comparison{.worst_row_error = kNaN}, DType::bf16).failure, "");
  EXPECT_NE(judge(Comparison{.worst_lse_error = kNaN}, DType::bf16).failure, "");
}

TEST(Verdict, RejectsAWrongRowThatTheTotalHides) {
  const Comparison comparison{
      .error_squared = 1e-6, .reference_squared = 1.0, .worst_row_error = 1.4};
  EXPECT_NE(judge(comparison, DType::fp16).failure.find("worst row"), std::string::npos);
}

TEST(Verdict, RejectsAnyOutputWhereNoneBelongs) {
  EXPECT_NE(judge(Comparison{.error_squared = 1e-9, .reference_squared = 0.0}, DType::fp16).failure,
            "");
  EXPECT_EQ(judge(Comparison{}, DType::fp16).failure, "");
}

TEST(Verdict, RejectsAnInfiniteLogSumExpError) {
  EXPECT_NE(judge(Comparison{.worst_lse_error = kInfinity}, DType::fp16).failure, "");
}

TEST(Verdict, RejectsStrayWrites) {
  const Verdict verdict = judge(Comparison{.disturbed_words = 12}, DType::fp16);
  EXPECT_NE(verdict.failure.find("12 16-bit words"), std::string::npos) << verdict.failure;
}

}  // namespace
}  // namespace swr
