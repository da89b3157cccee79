// SPDX-License-Identifier: MIT
#include "tests/support/attention.h"
#include "tests/support/fictional.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>

namespace swr {
namespace {

using testing::fictional_device;

AttentionProblem some_problem() {
  return {.batch = 2, .heads_q = 4, .heads_kv = 4, .seq_q = 512, .seq_kv = 512, .head_dim = 128};
}

/// Name of the constraint that fires, or "" when the variant is legal.
std::string fired(const AttentionVariant& variant, const AttentionProblem& problem = some_problem(),
                  const DeviceInfo& device = fictional_device()) {
  const auto dropped = check_constraints(problem, variant, device);
  return dropped ? dropped->constraint : "";
}

TEST(Constraints, AcceptTheDefaultVariantForEveryHeadDimOnEveryChip) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (const int smem : {101376, 166912, 232448}) {
      AttentionProblem problem = some_problem();
      problem.head_dim = head_dim;
      DeviceInfo device = fictional_device();
      device.smem_per_cta_bytes = smem;
      EXPECT_EQ(fired(attention(default_variant(problem, device)), problem, device), "")
          << head_dim;
    }
  }
}

TEST(Constraints, EachFiresOnItsOwnViolation) {
  EXPECT_EQ(fired({.tile_m = 80, .tile_n = 80, .warps = 4}), "tile_shape");
  EXPECT_EQ(fired({.tile_m = 64, .tile_n = 40}), "tile_shape");
  EXPECT_EQ(fired({.tile_m = 16, .tile_n = 64, .warps = 4}), "");
  EXPECT_EQ(fired({.tile_m = 16, .tile_n = 64, .warps = 8}), "tile_shape") << "8 keys to a warp";
  EXPECT_EQ(fired({.tile_m = 48, .tile_n = 64, .warps = 4}), "tile_shape");
  EXPECT_EQ(fired({.tile_m = 8, .tile_n = 64, .warps = 1}), "tile_shape");
  EXPECT_EQ(fired({.tile_m = 1024, .tile_n = 16, .warps = 64}), "threads");
  EXPECT_EQ(fired({.tile_m = 64, .tile_n = 128, .stages = 4}), "shared_memory");
  EXPECT_EQ(fired({.tile_m = 128, .tile_n = 128, .warps = 4, .stages = 1}), "registers");
  EXPECT_EQ(fired({.order = Order::sawtooth}), "local_iterations");
  EXPECT_EQ(fired({.workers = 4}), "worker_count");
  EXPECT_EQ(fired({.section_heads = 2}), "sections");
  EXPECT_EQ(fired({.swizzle = AttentionSwizzle::head_sections}), "sections");
  EXPECT_EQ(fired({.swizzle = AttentionSwizzle::head_sections, .section_heads = 8}), "sections");
  EXPECT_EQ(fired({.swizzle = AttentionSwizzle::head_sections, .section_heads = 2}), "");
}

TEST(Constraints, SplitsAndPackedHeadsNeedSomethingToDivideAndToPack) {
  AttentionProblem decode{.heads_q = 64, .heads_kv = 8, .seq_q = 1, .seq_kv = 4096};
  EXPECT_EQ(fired({.kv_splits = 64}, decode), "");
  EXPECT_EQ(fired({.kv_splits = 64, .pack_gqa = true}, decode), "");
  EXPECT_EQ(fired({.tile_n = 32, .stages = 1, .kv_splits = 64}, decode), "");
  decode.seq_kv = 64 * 7 + 1;
  EXPECT_EQ(fired({.kv_splits = 8}, decode), "");
  EXPECT_EQ(fired({.kv_splits = 9}, decode), "kv_splits") << "eight tiles";
  decode.heads_q = 8;
  EXPECT_EQ(fired({.pack_gqa = true}, decode), "pack_gqa");
  // 2 batches, 16384 / 64 tiles of 64 heads, 64 splits, 64 rows of 130 floats: 65 GiB.
  const AttentionProblem prefill{
      .batch = 2, .heads_q = 64, .heads_kv = 8, .seq_q = 16384, .seq_kv = 16384, .head_dim = 128};
  EXPECT_EQ(fired({.tile_n = 32, .kv_splits = 64}, prefill), "kv_splits");
}

TEST(Constraints, TensorMapsNeedAChipRowsAndAddressesThatSuitThem) {
  DeviceInfo device = fictional_device();
  device.sm_arch = 80;
  EXPECT_EQ(fired({.kv_copy = KvCopy::tma}, some_problem(), device), "kv_copy");
  for (const int sm_arch : {90, 120, 121}) {
    device.sm_arch = sm_arch;
    EXPECT_EQ(fired({.kv_copy = KvCopy::tma}, some_problem(), device), "");
  }
  EXPECT_EQ(fired({.smem_swizzle = false, .kv_copy = KvCopy::tma}, some_problem(), device),
            "kv_copy");
  AttentionProblem odd = some_problem();
  odd.alignment_bytes = 8;
  EXPECT_EQ(fired({.kv_copy = KvCopy::tma}, odd, device), "copy_alignment");
  EXPECT_EQ(fired({.kv_copy = KvCopy::cp_async}, odd, device), "");
}

TEST(Constraints, LongestFirstNeedsTilesOfDifferentLength) {
  AttentionProblem problem = some_problem();
  problem.causal = true;
  EXPECT_EQ(fired({.longest_first = true}, problem), "");
  problem.causal = false;
  EXPECT_EQ(fired({.longest_first = true}, problem), "longest_first");
}

TEST(Constraints, SectionsOfPackedHeadsCountKAndVHeads) {
  const AttentionProblem decode{.heads_q = 64, .heads_kv = 8, .seq_q = 1, .seq_kv = 4096};
  AttentionVariant sections{.swizzle = AttentionSwizzle::head_sections, .section_heads = 8};
  EXPECT_EQ(fired(sections, decode), "");
  sections.pack_gqa = true;
  EXPECT_EQ(fired(sections, decode), "sections");
  sections.section_heads = 4;
  EXPECT_EQ(fired(sections, decode), "");
}

TEST(Constraints, OldArchitecturesAreRefused) {
  DeviceInfo turing = fictional_device();
  turing.sm_arch = 75;
  EXPECT_EQ(fired({}, some_problem(), turing), "architecture");
}

DeviceInfo hopper_device() {
  DeviceInfo device = fictional_device();
  device.sm_arch = 90;
  device.smem_per_cta_bytes = 232448;
  return device;
}

AttentionVariant hopper(int tile_m, int tile_n, int warps) {
  return {.family = Family::hopper, .tile_m = tile_m, .tile_n = tile_n, .warps = warps};
}

TEST(Constraints, OfTheHopperFamilyFireOnTheirOwnViolations) {
  const auto on_hopper = [](const AttentionVariant& variant) {
    return fired(variant, some_problem(), hopper_device());
  };
  EXPECT_EQ(on_hopper(hopper(128, 128, 8)), "");
  DeviceInfo blackwell = hopper_device();
  blackwell.sm_arch = 120;
  EXPECT_EQ(fired(hopper(128, 128, 8), some_problem(), blackwell), "architecture");
  EXPECT_EQ(on_hopper(hopper(256, 64, 16)), "tile_shape");
  EXPECT_EQ(on_hopper(hopper(128, 128, 4)), "tile_shape");
  EXPECT_EQ(on_hopper(hopper(128, 256, 8)), "shared_memory");
  AttentionVariant overlapped = hopper(192, 128, 12);
  overlapped.mainloop = Mainloop::overlap;
  EXPECT_EQ(on_hopper(overlapped), "registers");
  AttentionVariant plain_rows = hopper(128, 128, 8);
  plain_rows.smem_swizzle = false;
  EXPECT_EQ(on_hopper(plain_rows), "family_axes");
  AttentionVariant splits = hopper(128, 128, 8);
  splits.kv_splits = 2;
  EXPECT_EQ(on_hopper(splits), "family_axes");
  EXPECT_EQ(on_hopper({.mainloop = Mainloop::overlap}), "family_axes");
  EXPECT_EQ(on_hopper({.persistence = Persistence::dynamic}), "tile_counter");
  AttentionProblem wide = some_problem();
  wide.head_dim = 224;
  AttentionVariant narrow_tile = hopper(192, 16, 12);
  narrow_tile.p_operand = POperand::shared;
  EXPECT_EQ(fired(narrow_tile, wide, hopper_device()), "product_registers");
  wide.head_dim = 192;
  EXPECT_EQ(fired(narrow_tile, wide, hopper_device()), "");
  AttentionProblem unaligned = some_problem();
  unaligned.alignment_bytes = 8;
  EXPECT_EQ(fired(hopper(128, 128, 8), unaligned, hopper_device()), "copy_alignment");
}

TEST(Constraints, SerializedProductsAreRefusedAfterCompilation) {
  const KernelResources serialized{.registers_per_thread = 168, .wgmma_warnings = 1};
  const auto dropped =
      check_compiled(some_problem(), hopper(128, 128, 8), hopper_device(), serialized);
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->constraint, "serialized_wgmma");
}

TEST(Constraints, ReasonsCarryTheNumbers) {
  const auto dropped = check_constraints(
      some_problem(), AttentionVariant{.tile_n = 128, .stages = 4}, fictional_device());
  ASSERT_TRUE(dropped);
  EXPECT_NE(dropped->reason.find("278560"), std::string::npos) << dropped->reason;
  EXPECT_NE(dropped->reason.find("232448"), std::string::npos) << dropped->reason;
}

TEST(Constraints, SpillsAndMissingResidencyDropACompiledVariant) {
  KernelResources resources{.registers_per_thread = 128};
  EXPECT_FALSE(check_compiled(some_problem(), AttentionVariant{}, fictional_device(), resources));
  resources.spill_store_bytes = 60;
  resources.spill_load_bytes = 100;
  EXPECT_FALSE(check_compiled(some_problem(), AttentionVariant{}, fictional_device(), resources))
      << "few enough to be worth measuring";
  resources.spill_load_bytes = 104;
  EXPECT_EQ(
      check_compiled(some_problem(), AttentionVariant{}, fictional_device(), resources)->constraint,
      "spills");
  resources.spill_store_bytes = resources.spill_load_bytes = 4;
  EXPECT_EQ(
      check_compiled(some_problem(), hopper(128, 128, 8), hopper_device(), resources)->constraint,
      "spills");
  resources.spill_store_bytes = resources.spill_load_bytes = 0;
  DeviceInfo small = fictional_device();
  small.registers_per_sm = 8192;
  EXPECT_EQ(check_compiled(some_problem(), AttentionVariant{}, small, resources)->constraint,
            "residency");
}

TEST(Constraints, NamesAreUniqueAndDescribed) {
  std::set<std::string_view> names;
  for (const ConstraintInfo& info : constraints(attention_operation())) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty()) << info.name;
  }
}

}  // namespace
}  // namespace swr
