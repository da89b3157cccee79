// SPDX-License-Identifier: MIT
#include "operations/attention/workload.h"
#include "tests/db/fixtures.h"
#include "tests/support/attention.h"
#include "tests/support/fictional.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/problem.h>
#include <swr/runtime.h>

namespace swr {
namespace {

AttentionProblem valid_problem() {
  return {.batch = 1, .heads_q = 8, .heads_kv = 2, .seq_q = 100, .seq_kv = 200, .head_dim = 80};
}

std::string rejection(const std::function<void(AttentionProblem&)>& change) {
  AttentionProblem problem = valid_problem();
  change(problem);
  try {
    validate(problem);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Problem, ValidatesWhatKernelsSupport) {
  EXPECT_EQ(rejection([](auto&) {}), "");
  EXPECT_EQ(rejection([](auto& p) { p.seq_q = 0; }), "seq must be at least 1, not 0");
  EXPECT_EQ(rejection([](auto& p) { p.head_dim = 63; }),
            "head-dim must be a multiple of 16 from 16 to 256, not 63");
  EXPECT_EQ(rejection([](auto& p) { p.head_dim = 272; }),
            "head-dim must be a multiple of 16 from 16 to 256, not 272");
  EXPECT_EQ(rejection([](auto& p) { p.heads_kv = 3; }),
            "heads (8) must be a multiple of kv-heads (3)");
  EXPECT_EQ(rejection([](auto& p) { p.alignment_bytes = 3; }),
            "alignment must be 2, 4, 8 or 16 bytes, not 3");
  EXPECT_NE(rejection([](auto& p) { p.seq_kv = 1 << 30; }), "");
  EXPECT_NE(rejection([](auto& p) { p.batch = 1 << 30; }), "");
}

double counted_flops(const AttentionProblem& problem) {
  long long visible = 0;
  for (int row = 0; row < problem.seq_q; ++row) {
    const int last_key = problem.causal ? row + problem.seq_kv - problem.seq_q : problem.seq_kv;
    visible += std::clamp(last_key + (problem.causal ? 1 : 0), 0, problem.seq_kv);
  }
  return 4.0 * problem.batch * problem.heads_q * problem.head_dim * static_cast<double>(visible);
}

TEST(Problem, FlopCountLeavesOutWhatTheMaskHides) {
  for (const bool causal : {false, true}) {
    for (const int seq_q : {1, 50, 100, 300}) {
      AttentionProblem problem = valid_problem();
      problem.causal = causal;
      problem.seq_q = seq_q;
      EXPECT_DOUBLE_EQ(flop_count(problem), counted_flops(problem)) << seq_q << causal;
    }
  }
}

TEST(Problem, CompulsoryBytesCountEachTensorOnce) {
  const CompulsoryBytes bytes = compulsory_bytes(valid_problem());
  EXPECT_EQ(bytes.write, 8 * 100 * 80 * 2);
  EXPECT_EQ(bytes.read, 8 * 100 * 80 * 2 + 2 * (2 * 200 * 80 * 2));
}

TEST(Problem, PrintsOnOneLine) {
  EXPECT_EQ(to_string(valid_problem()), "attention b1 h8/2 s100/200 d80 fp16");
}

constexpr TensorShape kShape{.batch = 3, .heads = 4, .seq = 5, .head_dim = 32};

TEST(TensorLayout, IsDenseAtFullAlignment) {
  const TensorLayout layout = make_layout(kShape, 16, MemoryOrder::bhsd);
  EXPECT_EQ(layout.strides.seq, 32);
  EXPECT_EQ(layout.strides.head, 5 * 32);
  EXPECT_EQ(layout.strides.batch, 4 * 5 * 32);
  EXPECT_EQ(layout.span_elements, 3 * 4 * 5 * 32);
}

TEST(TensorLayout, InterleavesHeadsInSequenceMajorOrder) {
  const TensorLayout layout = make_layout(kShape, 16, MemoryOrder::bshd);
  EXPECT_EQ(layout.strides.head, 32);
  EXPECT_EQ(layout.strides.seq, 4 * 32);
  EXPECT_EQ(layout.strides.batch, 5 * 4 * 32);
  EXPECT_EQ(layout.span_elements, 3 * 4 * 5 * 32);
}

TEST(TensorLayout, HasExactlyTheAlignmentAskedFor) {
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int alignment : {2, 4, 8}) {
      const TensorStrides strides = make_layout(kShape, alignment, order).strides;
      const long long common =
          2 * std::gcd(std::gcd(strides.batch, strides.head), std::gcd(strides.seq, 8LL));
      EXPECT_EQ(common, alignment);
    }
  }
}

template <typename Pointer>
Pointer at(std::uintptr_t address) {
  return reinterpret_cast<Pointer>(address);
}

/// Contiguous tensors at multiples of 4096.
AttentionCall contiguous_call() {
  AttentionCall call{.head_dim = 64};
  AttentionParams& p = call.params;
  p.q = at<const void*>(4096);
  p.k = at<const void*>(8192);
  p.v = at<const void*>(12288);
  p.o = at<void*>(16384);
  p.batch = 2;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seq_q = 100;
  p.seq_kv = 200;
  p.q_strides = p.o_strides = {4 * 100 * 64, 100 * 64, 64};
  p.k_strides = p.v_strides = {2 * 200 * 64, 200 * 64, 64};
  return call;
}

TEST(AttentionCall, PosesTheProblemOfItsTensors) {
  AttentionCall call = contiguous_call();
  call.causal = true;
  call.dtype = DType::bf16;
  const AttentionProblem expected{.batch = 2,
                                  .heads_q = 4,
                                  .heads_kv = 2,
                                  .seq_q = 100,
                                  .seq_kv = 200,
                                  .head_dim = 64,
                                  .dtype = DType::bf16,
                                  .causal = true,
                                  .alignment_bytes = 16};
  EXPECT_EQ(problem_of(call), expected);
}

TEST(AttentionCall, AlignmentIsThatOfTheWorstPointerOrStride) {
  AttentionCall call = contiguous_call();
  call.params.k = at<const void*>(8192 + 8);
  EXPECT_EQ(problem_of(call).alignment_bytes, 8);
  call.params.v_strides.seq = 66;
  EXPECT_EQ(problem_of(call).alignment_bytes, 4);
  call.params.o_strides.batch += 1;
  EXPECT_EQ(problem_of(call).alignment_bytes, 2);
}

TEST(AttentionCall, StridesOfSingleElementsDoNotMatter) {
  AttentionCall call = contiguous_call();
  call.params.batch = 1;
  for (TensorStrides* strides : {&call.params.q_strides, &call.params.k_strides,
                                 &call.params.v_strides, &call.params.o_strides}) {
    strides->batch = 1;
  }
  EXPECT_EQ(problem_of(call).alignment_bytes, 16);
}

TEST(AttentionCall, WhatNoKernelCanServeIsRefused) {
  const auto refusal = [](const AttentionCall& call) {
    const Error error = error_of([&] { (void)problem_of(call); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return std::string(error.what());
  };
  AttentionCall call = contiguous_call();
  call.params.v = nullptr;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("tensor V"));
  call = contiguous_call();
  call.params.q = at<const void*>(4097);
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("multiples of 2 bytes"));
  call = contiguous_call();
  call.head_dim = 40;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("head-dim"));
  call = contiguous_call();
  call.params.seq_kv = 0;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("seq-kv"));
  call = contiguous_call();
  call.params.heads_kv = 3;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("multiple"));
}

using test::fictional_hopper;

AttentionProblem some_problem() {
  return {.batch = 2, .heads_q = 4, .heads_kv = 4, .seq_q = 512, .seq_kv = 512, .head_dim = 128};
}

/// Name of the constraint that fires, or "" when the variant is legal.
std::string fired(const AttentionVariant& variant, const AttentionProblem& problem = some_problem(),
                  const DeviceInfo& device = fictional_hopper()) {
  const auto dropped = check_constraints(problem, variant, device);
  return dropped ? dropped->constraint : "";
}

TEST(Constraints, AcceptTheDefaultVariantForEveryHeadDimOnEveryChip) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (const int smem : {101376, 166912, 232448}) {
      AttentionProblem problem = some_problem();
      problem.head_dim = head_dim;
      DeviceInfo device = fictional_hopper();
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
  DeviceInfo device = fictional_hopper();
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
  DeviceInfo turing = fictional_hopper();
  turing.sm_arch = 75;
  EXPECT_EQ(fired({}, some_problem(), turing), "architecture");
}

DeviceInfo hopper_device() {
  DeviceInfo device = fictional_hopper();
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
      some_problem(), AttentionVariant{.tile_n = 128, .stages = 4}, fictional_hopper());
  ASSERT_TRUE(dropped);
  EXPECT_NE(dropped->reason.find("278560"), std::string::npos) << dropped->reason;
  EXPECT_NE(dropped->reason.find("232448"), std::string::npos) << dropped->reason;
}

TEST(Constraints, SpillsAndMissingResidencyDropACompiledVariant) {
  KernelResources resources{.registers_per_thread = 128};
  EXPECT_FALSE(check_compiled(some_problem(), AttentionVariant{}, fictional_hopper(), resources));
  resources.spill_store_bytes = 60;
  resources.spill_load_bytes = 100;
  EXPECT_FALSE(check_compiled(some_problem(), AttentionVariant{}, fictional_hopper(), resources))
      << "few enough to be worth measuring";
  resources.spill_load_bytes = 104;
  EXPECT_EQ(
      check_compiled(some_problem(), AttentionVariant{}, fictional_hopper(), resources)->constraint,
      "spills");
  resources.spill_store_bytes = resources.spill_load_bytes = 4;
  EXPECT_EQ(
      check_compiled(some_problem(), hopper(128, 128, 8), hopper_device(), resources)->constraint,
      "spills");
  resources.spill_store_bytes = resources.spill_load_bytes = 0;
  DeviceInfo small = fictional_hopper();
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
