// SPDX-License-Identifier: MIT
// Problems, variants and results: their keys, axes and texts.
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/result.h>
#include <swr/variant.h>

namespace swr {
namespace {
const AttentionProblem kProblem{.seq_q = 1024, .seq_kv = 1024, .head_dim = 64};

TEST(Result, CompulsorySectorsAreSixteenPerTokenAtHeadDim64) {
  EXPECT_EQ(compulsory_sectors(kProblem), 16 * 1024);
}

TEST(Result, MeasuredExcessIsDramReadBeyondTheFirstTouch) {
  const long long read = 12 * 1024 * kSectorBytes;
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.counters = Counters{.dram_read_bytes = read + 320}};
  EXPECT_EQ(excess_miss_sectors(kProblem, result), 10);
  result.outcome = Measurement{.counters = Counters{.dram_read_bytes = read / 2}};
  EXPECT_EQ(excess_miss_sectors(kProblem, result), 0) << "inputs that stayed in L2";
}

TEST(Result, WithoutCountersTrafficIsUnknownNotZero) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.counters_missing_because = "no permission"};
  EXPECT_FALSE(l2_sectors(result));
  EXPECT_FALSE(excess_miss_sectors(kProblem, result));
}

TEST(Result, ACounterTheChipLacksMakesTheExcessUnknown) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.counters = Counters{.sectors_demanded = 7},
                               .counters_missing_because = "this chip does not count DRAM"};
  EXPECT_EQ(l2_sectors(result), 7);
  EXPECT_FALSE(excess_miss_sectors(kProblem, result));
}

TEST(Result, ProvenanceFollowsFromTheOutcome) {
  VariantResult result{.variant = AttentionVariant{}, .outcome = Prediction{.time_us = 3.0}};
  EXPECT_EQ(result.provenance(), Provenance::predicted);
  EXPECT_DOUBLE_EQ(result.time_us(), 3.0);
  result.outcome = Measurement{.median_us = 4.0};
  EXPECT_EQ(result.provenance(), Provenance::measured);
  EXPECT_DOUBLE_EQ(result.time_us(), 4.0);
}

TEST(Result, SpellingsRoundTrip) {
  for (const auto state : {ResultState::ok, ResultState::compile, ResultState::throttled}) {
    EXPECT_EQ(parse_result_state(to_string(state)), state);
  }
  EXPECT_EQ(parse_provenance("measured"), Provenance::measured);
}

TEST(AttentionVariant, KeyRoundTripsEveryAxis) {
  const AttentionVariant variant{.tile_m = 80,
                                 .tile_n = 80,
                                 .warps = 5,
                                 .stages = 3,
                                 .order = Order::sawtooth,
                                 .persistence = Persistence::persistent,
                                 .workers = 48,
                                 .swizzle = AttentionSwizzle::head_sections,
                                 .section_heads = 4,
                                 .smem_swizzle = false,
                                 .kv_splits = 33,
                                 .pack_gqa = true,
                                 .longest_first = true,
                                 .kv_copy = KvCopy::tma};
  EXPECT_EQ(parse_attention(to_key(variant)), variant);
  EXPECT_NE(to_key(variant).find("kv_splits=33,pack_gqa=on,longest_first=on,kv_copy=tma"),
            std::string::npos);
  EXPECT_EQ(parse_attention("tile_m=64").kv_splits, 1) << "keys of before there were splits";
  EXPECT_FALSE(parse_attention("tile_m=64").longest_first) << "keys of before there was a choice";
}

TEST(AttentionVariant, KeyHoldsTheAxesOfItsFamilyAlone) {
  const AttentionVariant hopper{.family = Family::hopper,
                                .tile_m = 192,
                                .tile_n = 96,
                                .warps = 12,
                                .order = Order::right_to_left,
                                .persistence = Persistence::snake,
                                .mainloop = Mainloop::overlap_ordered,
                                .p_operand = POperand::shared,
                                .exp2_fma_eighths = 2,
                                .unroll = 2};
  EXPECT_EQ(parse_attention(to_key(hopper)), hopper);
  EXPECT_EQ(to_key(hopper).find("smem_swizzle"), std::string::npos);
  EXPECT_EQ(to_key(AttentionVariant{}).find("mainloop"), std::string::npos);
  EXPECT_THROW(parse_attention("mainloop=overlap,family=portable"), Error);
  EXPECT_EQ(parse_attention("mainloop=overlap,family=hopper").mainloop, Mainloop::overlap);
}

TEST(Variant, EveryAxisWritesWhatItReads) {
  for (const Operation* const operation : operations()) {
    const Operation& op = *operation;
    const Variant variant = default_axes(op);
    for (const Axis& axis : axes(op)) {
      Variant copy = variant;
      axis.set(copy, axis.get(variant));
      EXPECT_EQ(copy, variant) << axis.name;
    }
  }
}

TEST(Variant, AnAxisIsEqualWhereItsValuesAre) {
  for (const Operation* const operation : operations()) {
    const Operation& op = *operation;
    const Variant variant = default_axes(op);
    for (const Axis& axis : axes(op)) {
      Variant other = variant;
      for (const std::string_view spelling : axis.spellings) {
        axis.set(other, std::string(spelling));
        EXPECT_EQ(axis.is_equal(variant, other), axis.get(variant) == axis.get(other)) << axis.name;
      }
    }
  }
  EXPECT_FALSE(find_axis(attention_operation(), "tile_m")
                   ->is_equal(AttentionVariant{.tile_m = 64}, AttentionVariant{.tile_m = 128}));
}

TEST(AttentionVariant, RejectsAnUnknownAxisByName) {
  EXPECT_THROW(parse_attention("tile_q=64"), Error);
  EXPECT_THROW(parse_attention("order=zigzag"), Error);
  EXPECT_THROW(parse_attention("stages=9"), Error);
  EXPECT_THROW(parse_attention("stages=two"), Error);
  EXPECT_THROW(parse_attention("kv_splits=65"), Error);
  EXPECT_THROW(parse_attention("kv_splits=0"), Error);
  EXPECT_THROW(parse_attention("family=hopper,pack_gqa=on"), Error);
}

}  // namespace
}  // namespace swr
