// SPDX-License-Identifier: MIT
#include "operations/attention/space.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

constexpr long long kMebibyte = 1LL << 20;

/// A fictional chip with the limits of a small workstation GPU.
DeviceInfo small_device() {
  return {.name = "Fictional 48",
          .sm_arch = 121,
          .sm_count = 48,
          .l2_bytes = 24 * kMebibyte,
          .dram_gb_per_s = 273.0,
          .smem_per_cta_bytes = 101376,
          .smem_per_sm_bytes = 102400,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 1536,
          .max_ctas_per_sm = 24};
}

AttentionProblem one_head() { return {.seq_q = 131072, .seq_kv = 131072, .head_dim = 64}; }

AttentionProblem many_heads() {
  return {
      .batch = 2, .heads_q = 16, .heads_kv = 16, .seq_q = 4096, .seq_kv = 4096, .head_dim = 128};
}

/// Distinct values of an axis over some variants, as text.
std::set<std::string> values_of(const std::vector<Variant>& variants, std::string_view axis) {
  std::set<std::string> values;
  for (const Variant& variant : variants) {
    values.insert(to_string(find_axis(attention_operation(), axis)->get(variant)));
  }
  return values;
}

std::set<std::string> constraints_of(const SearchSpace& space) {
  std::set<std::string> names;
  for (const DroppedVariant& dropped : space.dropped) {
    names.insert(dropped.constraint);
  }
  return names;
}

TEST(SearchSpace, CoversTheDeclaredValuesOfEveryAxis) {
  const SearchSpace space = enumerate_space(many_heads(), small_device(), {});
  EXPECT_THAT(values_of(space.variants, "stages"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(values_of(space.variants, "order"), ElementsAre("cyclic", "sawtooth"));
  EXPECT_THAT(values_of(space.variants, "persistence"), ElementsAre("grid", "pairs", "persistent"));
  EXPECT_THAT(values_of(space.variants, "workers"), ElementsAre("0"));
  EXPECT_THAT(values_of(space.variants, "swizzle"),
              ElementsAre("head_fastest", "head_sections", "q_fastest"));
  EXPECT_THAT(values_of(space.variants, "smem_swizzle"), ElementsAre("on"));
}

TEST(SearchSpace, OfOneHeadOnThePaperShapeHasAKnownSize) {
  // 8 tiles; with 64 columns every tile of K or V takes 128 bytes per row, so 99 KiB hold 4 stages
  // of all tiles but 64x128 and 128x128 (2 each), 80x80 (4), 128x64 (4): counted below by formula.
  // Three and four stages of 128x64x4 are not offered, since ptxas spills some.
  const SearchSpace space = enumerate_space(one_head(), small_device(), {});
  int fitting = 0;
  for (const Tile& tile : family_spaces()[0].tiles_of(64, small_device().sm_arch)) {
    const bool spills = tile.tile_m == 128 && tile.tile_n == 64 && tile.warps == 4;
    for (int stages = 1; stages <= (spills ? 2 : 4); ++stages) {
      fitting += (tile.tile_m + 2 * stages * tile.tile_n) * 128 <= 101376 ? 1 : 0;
    }
  }
  // Five (order, persistence) pairs are distinct; one head leaves one swizzle.
  EXPECT_EQ(space.variants.size(), static_cast<std::size_t>(fitting) * 5);
  EXPECT_EQ(space.variants.size() + space.dropped.size(), (8U * 4 - 2) * 2 * 3 * 2);
}

TEST(SearchSpace, EveryVariantIsLegalAndAppearsOnce) {
  for (const AttentionProblem& problem : {one_head(), many_heads()}) {
    const SearchSpace space = enumerate_space(problem, small_device(), {});
    EXPECT_FALSE(space.variants.empty());
    std::set<std::string> keys;
    for (const Variant& variant : space.variants) {
      EXPECT_FALSE(check_constraints(problem, variant, small_device())) << to_key(variant);
      EXPECT_TRUE(keys.insert(to_key(variant)).second) << to_key(variant);
    }
  }
}

TEST(SearchSpace, EveryDroppedVariantNamesAConstraintThatExists) {
  const SearchSpace space = enumerate_space(many_heads(), small_device(), {});
  std::set<std::string> known;
  for (const ConstraintInfo& info : constraints(attention_operation())) {
    known.emplace(info.name);
  }
  EXPECT_FALSE(space.dropped.empty());
  for (const DroppedVariant& dropped : space.dropped) {
    EXPECT_TRUE(known.contains(dropped.constraint)) << dropped.constraint;
    EXPECT_FALSE(dropped.reason.empty());
  }
}

TEST(SearchSpace, HasTheSameOrderEveryTime) {
  const SearchSpace first = enumerate_space(many_heads(), small_device(), {});
  const SearchSpace second = enumerate_space(many_heads(), small_device(), {});
  EXPECT_EQ(first.variants, second.variants);
}

TEST(SearchSpace, RestrictionReplacesTheValuesOfItsAxisOnly) {
  SpaceOptions options;
  options.restrictions["order"] = {AxisValue("sawtooth")};
  options.restrictions["smem_swizzle"] = {AxisValue("off")};
  options.restrictions["stages"] = {AxisValue(1LL), AxisValue("1")};
  const SearchSpace space = enumerate_space(many_heads(), small_device(), options);
  EXPECT_THAT(values_of(space.variants, "order"), ElementsAre("sawtooth"));
  EXPECT_THAT(values_of(space.variants, "smem_swizzle"), ElementsAre("off"));
  EXPECT_THAT(values_of(space.variants, "stages"), ElementsAre("1"));
  EXPECT_THAT(values_of(space.variants, "persistence"), ElementsAre("pairs", "persistent"));
  std::set<std::string> keys;
  for (const Variant& variant : space.variants) {
    EXPECT_TRUE(keys.insert(to_key(variant)).second) << "twice: " << to_key(variant);
  }
}

AttentionProblem one_token() {
  return {.heads_q = 64, .heads_kv = 8, .seq_q = 1, .seq_kv = 32768, .head_dim = 128};
}

TEST(SearchSpace, HasWhatItIsAskedForAndTheOtherValuesOfTheOtherAxes) {
  struct Asked {
    AttentionProblem problem;
    SpaceOptions options;
    std::map<std::string, std::set<std::string>> values;
  };
  const AxisValue sections("head_sections");
  for (const auto& [problem, options, values] :
       {Asked{one_head(),
              {.tiles = {{.tile_m = 96, .tile_n = 48, .warps = 3}}, .restrictions = {}},
              {{"tile_m", {"96"}}, {"tile_n", {"48"}}, {"warps", {"3"}}}},
        Asked{one_head(),
              {.tiles = {}, .restrictions = {{"tile_n", {AxisValue(16LL)}}}},
              {{"tile_n", {"16"}}, {"tile_m", {"128", "64", "80"}}}},
        Asked{many_heads(),
              {.tiles = {},
              .restrictions = {{"swizzle", {sections}}, {"section_heads", {AxisValue(8LL)}}}},
              {{"section_heads", {"8"}}}},
        Asked{one_token(),
              {.tiles = {},
              .restrictions = {{"kv_splits", {AxisValue(5LL)}}, {"pack_gqa", {AxisValue("on")}}}},
              {{"kv_splits", {"5"}}, {"pack_gqa", {"on"}}}}}) {
    const SearchSpace space = enumerate_space(problem, small_device(), options);
    for (const auto& [axis, expected] : values) {
      EXPECT_EQ(values_of(space.variants, axis), expected) << axis;
    }
  }
}

TEST(SearchSpace, WhatIsAskedForAndCannotBeIsDroppedWithItsReason) {
  const auto dropped = [](const AttentionProblem& problem, const SpaceOptions& options) {
    const SearchSpace space = enumerate_space(problem, small_device(), options);
    EXPECT_THAT(space.variants, IsEmpty());
    EXPECT_FALSE(space.dropped.empty());
    return space;
  };
  const SearchSpace large = dropped(
      many_heads(), {.tiles = {{.tile_m = 256, .tile_n = 256, .warps = 8}}, .restrictions = {}});
  EXPECT_THAT(constraints_of(large), ElementsAre("shared_memory"));
  EXPECT_THAT(large.dropped.front().reason, HasSubstr("101376"));
  const SearchSpace odd = dropped(
      one_head(), {.tiles = {{.tile_m = 72, .tile_n = 64, .warps = 4}}, .restrictions = {}});
  EXPECT_THAT(constraints_of(odd), ElementsAre("tile_shape"));
  const SearchSpace sections = dropped(
      one_head(), {.tiles = {}, .restrictions = {{"swizzle", {AxisValue("head_sections")}}}});
  EXPECT_TRUE(constraints_of(sections).contains("sections"));
}

TEST(SearchSpace, OldArchitectureDropsEverythingByName) {
  DeviceInfo device = small_device();
  device.sm_arch = 75;
  const SearchSpace space = enumerate_space(one_head(), device, {});
  EXPECT_THAT(space.variants, IsEmpty());
  EXPECT_THAT(constraints_of(space), ElementsAre("architecture"));
}

TEST(SearchSpace, UnknownAxisIsRejectedWithTheListOfAxes) {
  SpaceOptions options;
  options.restrictions["tile_q"] = {AxisValue(64LL)};
  const std::string message = message_of(
      ErrorCode::invalid_argument, [&] { enumerate_space(one_head(), small_device(), options); });
  EXPECT_THAT(message, HasSubstr("'tile_q'"));
  EXPECT_THAT(message, HasSubstr("tile_m, tile_n, warps"));
}

TEST(SearchSpace, BadValueIsRejectedWithTheAcceptedOnes) {
  const auto message_for = [](const std::string& axis, const std::vector<AxisValue>& values) {
    SpaceOptions options;
    options.restrictions[axis] = values;
    return message_of(ErrorCode::invalid_argument,
                      [&] { enumerate_space(one_head(), small_device(), options); });
  };
  EXPECT_THAT(message_for("order", {AxisValue("zigzag")}), HasSubstr("cyclic, sawtooth"));
  EXPECT_THAT(message_for("stages", {AxisValue(9LL)}), HasSubstr("between 1 and 4"));
  EXPECT_THAT(message_for("family", {AxisValue("hopper2")}), HasSubstr("portable"));
  EXPECT_THAT(message_for("stages", {}), HasSubstr("stages"));
}

TEST(SearchSpace, TileOutsideTheAxisIsRejected) {
  SpaceOptions options{.tiles = {{.tile_m = 64, .tile_n = 64, .warps = 33}}};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { enumerate_space(one_head(), small_device(), options); }),
              HasSubstr("warps"));
}

TEST(SearchSpace, ProblemNoKernelCanServeIsRejected) {
  AttentionProblem problem = one_head();
  problem.head_dim = 63;
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { enumerate_space(problem, small_device(), {}); }),
              HasSubstr("head-dim"));
}

TEST(DecodeSpace, OffersSplitsThatFillTheSmsAndPackedHeads) {
  // Eight K and V heads, or 64 query heads, on 48 SMs.
  const AttentionVariant packed{.tile_m = 16, .tile_n = 64, .warps = 1, .pack_gqa = true};
  EXPECT_THAT(kv_split_candidates(one_token(), packed, small_device()), ElementsAre(6, 12, 18, 24));
  EXPECT_THAT(kv_split_candidates(one_token(), {.tile_m = 16}, small_device()), IsEmpty());
  const SearchSpace space = enumerate_space(one_token(), small_device(), {});
  EXPECT_THAT(values_of(space.variants, "pack_gqa"), ElementsAre("off", "on"));
  EXPECT_THAT(values_of(space.variants, "tile_m"), ElementsAre("16", "32", "64"));
  EXPECT_THAT(values_of(space.variants, "kv_splits"), ElementsAre("1", "12", "18", "24", "6"));
  EXPECT_THAT(values_of(space.variants, "persistence"), ElementsAre("grid"));
  EXPECT_LT(space.variants.size(), 150U);
}

TEST(DecodeSpace, LeavesEverySplitTwoTiles) {
  AttentionProblem problem = one_token();
  problem.seq_kv = 1000;
  const AttentionVariant packed{.tile_m = 16, .tile_n = 64, .warps = 1, .pack_gqa = true};
  EXPECT_THAT(kv_split_candidates(problem, packed, small_device()), ElementsAre(6, 8));
  problem.seq_kv = 128;
  EXPECT_THAT(kv_split_candidates(problem, packed, small_device()), IsEmpty());
}

TEST(DecodeSpace, IsForAFewQueryRowsAlone) {
  AttentionProblem problem = one_token();
  problem.seq_q = 16;
  EXPECT_TRUE(is_decode(problem));
  EXPECT_THAT(values_of(enumerate_space(problem, small_device(), {}).variants, "tile_m"),
              ElementsAre("128", "16", "32", "64"));
  problem.seq_q = 17;
  EXPECT_FALSE(is_decode(problem));
  for (const AttentionProblem& prefill : {one_head(), many_heads()}) {
    const SearchSpace space = enumerate_space(prefill, small_device(), {});
    EXPECT_THAT(values_of(space.variants, "kv_splits"), ElementsAre("1"));
    EXPECT_THAT(values_of(space.variants, "pack_gqa"), ElementsAre("off"));
  }
}

TEST(LongestFirst, IsOfferedUnderTheMaskWhereATailCanBeFilled) {
  AttentionProblem problem = many_heads();
  problem.causal = false;
  const auto orders = [&](const SpaceOptions& options) {
    return values_of(enumerate_space(problem, small_device(), options).variants, "longest_first");
  };
  EXPECT_THAT(orders({}), ElementsAre("off"));
  problem.causal = true;
  EXPECT_THAT(orders({}), ElementsAre("off", "on"));
  SpaceOptions persistent;
  persistent.restrictions["persistence"] = {AxisValue("persistent")};
  EXPECT_THAT(orders(persistent), ElementsAre("off"));
  persistent.restrictions["longest_first"] = {AxisValue("on")};
  EXPECT_THAT(orders(persistent), ElementsAre("on"));
  problem.seq_q = 32;
  EXPECT_THAT(orders({}), ElementsAre("off")) << "one Q tile to a head";
}

TEST(SectionHeads, FillHalfOfL2AndAllOfIt) {
  // K and V of a head take 2 * 4096 * 128 * 2 bytes = 2 MiB; 24 MiB hold 12, half of it 6.
  EXPECT_THAT(section_head_candidates(many_heads(), small_device()), ElementsAre(4, 8));
}

TEST(SectionHeads, MayOverfillTheL2ByATenth) {
  DeviceInfo device = small_device();
  device.l2_bytes = 60LL << 20;
  AttentionProblem problem = many_heads();
  problem.heads_q = problem.heads_kv = 64;
  problem.seq_q = problem.seq_kv = 8192;  // 4 MiB per head: 64 MiB in 16, 32 MiB in 8.
  EXPECT_THAT(section_head_candidates(problem, device), ElementsAre(8, 16));
}

TEST(SectionHeads, KeepGroupsThatShareKAndVWhole) {
  AttentionProblem problem = many_heads();
  problem.heads_q = 24;
  problem.heads_kv = 8;
  // Three query heads per K and V head: 4 and 8 of those are 12 and 24 of 48 query heads.
  EXPECT_THAT(section_head_candidates(problem, small_device()), ElementsAre(12, 24));
}

TEST(SectionHeads, AreDroppedWhenTheyHoldEveryHeadOrFewerThanTwo) {
  AttentionProblem problem = many_heads();
  problem.batch = 1;
  problem.heads_q = problem.heads_kv = 8;
  EXPECT_THAT(section_head_candidates(problem, small_device()), ElementsAre(4));
  problem.seq_kv = 4096 * 6;  // 12 MiB per head: two fit, one fits in half.
  EXPECT_THAT(section_head_candidates(problem, small_device()), ElementsAre(2));
  problem.seq_kv = 4096 * 16;  // 32 MiB per head: none fits.
  EXPECT_THAT(section_head_candidates(problem, small_device()), IsEmpty());
}

TEST(SectionHeads, AreListedOnceWhenHalfAndAllRoundToTheSame) {
  DeviceInfo device = small_device();
  device.l2_bytes = 0;
  EXPECT_THAT(section_head_candidates(many_heads(), device), IsEmpty());
  AttentionProblem problem = many_heads();
  problem.heads_q = 32;
  problem.heads_kv = 1;  // One K and V head per batch entry; two batch entries.
  problem.batch = 3;
  problem.seq_kv = 4096 * 2;  // 4 MiB: half holds 2 (3 rounded down), all holds 4 of 3.
  EXPECT_THAT(section_head_candidates(problem, small_device()), ElementsAre(64));
}

}  // namespace
}  // namespace swr
