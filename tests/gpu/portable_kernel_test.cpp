// SPDX-License-Identifier: MIT
// Variants of the portable family against the reference: every value of every axis, ragged sizes,
// every head_dim class, both types, masks, grouped heads, strides and alignments. Shapes are small,
// so that the program also runs under compute-sanitizer.
#include "tests/gpu/variant_case.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

AttentionVariant tiled(int tile_m, int tile_n, int warps, int stages = 2) {
  return {.tile_m = tile_m, .tile_n = tile_n, .warps = warps, .stages = stages};
}

std::vector<VariantCase> tile_cases() {
  constexpr std::array<std::array<int, 3>, 15> kTiles{{{16, 16, 1},
                                                       {32, 16, 1},
                                                       {32, 32, 2},
                                                       {48, 96, 3},
                                                       {64, 16, 4},
                                                       {64, 32, 2},
                                                       {64, 64, 4},
                                                       {64, 80, 4},
                                                       {64, 128, 4},
                                                       {80, 80, 5},
                                                       {96, 48, 6},
                                                       {128, 64, 4},
                                                       {128, 32, 8},
                                                       {128, 128, 8},
                                                       {256, 64, 16}}};
  std::vector<VariantCase> cases;
  for (const auto& [tile_m, tile_n, warps] : kTiles) {
    cases.push_back({"tile_" + text(tile_m) + "x" + text(tile_n) + "x" + text(warps),
                     common_problem(), tiled(tile_m, tile_n, warps)});
  }
  for (int stages = 1; stages <= 4; ++stages) {
    cases.push_back(
        {"stages_" + text(stages) + "_tile_64x64x4", common_problem(), tiled(64, 64, 4, stages)});
    cases.push_back(
        {"stages_" + text(stages) + "_tile_80x80x5", common_problem(), tiled(80, 80, 5, stages)});
    cases.push_back(
        {"stages_" + text(stages) + "_tile_16x16x1", common_problem(), tiled(16, 16, 1, stages)});
  }
  return cases;
}

AttentionVariant scheduled(Order order, Persistence persistence, int workers) {
  AttentionVariant variant = tiled(32, 32, 2);
  variant.order = order;
  variant.persistence = persistence;
  variant.workers = workers;
  return variant;
}

std::vector<VariantCase> schedule_cases() {
  std::vector<VariantCase> cases;
  for (const Order order : {Order::cyclic, Order::sawtooth}) {
    const std::string prefix = std::string(to_string(order)) + "_";
    for (const int workers : {0, 1, 3, 48}) {
      cases.push_back({prefix + "persistent_workers_" + text(workers), common_problem(),
                       scheduled(order, Persistence::persistent, workers)});
    }
    cases.push_back({prefix + "pairs", common_problem(), scheduled(order, Persistence::pairs, 0)});
  }
  AttentionProblem no_mask = common_problem();
  no_mask.causal = false;
  cases.push_back({"sawtooth_persistent_without_mask", no_mask,
                   scheduled(Order::sawtooth, Persistence::persistent, 3)});
  AttentionVariant one_stage = scheduled(Order::sawtooth, Persistence::persistent, 3);
  one_stage.stages = 1;
  cases.push_back({"sawtooth_persistent_one_stage", no_mask, one_stage});
  one_stage.stages = 4;
  cases.push_back({"sawtooth_persistent_four_stages", common_problem(), one_stage});
  return cases;
}

std::vector<VariantCase> swizzle_cases() {
  std::vector<VariantCase> cases;
  for (const Persistence persistence :
       {Persistence::grid, Persistence::persistent, Persistence::pairs}) {
    const std::string suffix = "_" + std::string(to_string(persistence));
    AttentionVariant variant = scheduled(Order::cyclic, persistence, 0);
    variant.swizzle = AttentionSwizzle::head_fastest;
    cases.push_back({"head_fastest" + suffix, common_problem(), variant});
    variant.swizzle = AttentionSwizzle::head_sections;
    // Eight heads: 3 and 5 leave a shorter last section.
    for (const int section_heads : {2, 3, 5}) {
      variant.section_heads = section_heads;
      cases.push_back({"head_sections_" + text(section_heads) + suffix, common_problem(), variant});
    }
  }
  for (const int head_dim : {16, 48, 64, 80, 128}) {
    AttentionProblem problem = common_problem();
    problem.head_dim = head_dim;
    AttentionVariant variant = tiled(64, 32, 4);
    variant.smem_swizzle = false;
    cases.push_back({"smem_swizzle_off_head_dim_" + text(head_dim), problem, variant});
  }
  return cases;
}

/// Causal Q tiles with most keys first, in every schedule and mapping, with splits and packed
/// heads.
std::vector<VariantCase> longest_first_cases() {
  std::vector<VariantCase> cases;
  for (const Persistence persistence :
       {Persistence::grid, Persistence::persistent, Persistence::pairs, Persistence::snake}) {
    const std::string prefix = "longest_first_" + std::string(to_string(persistence));
    AttentionVariant variant = scheduled(Order::cyclic, persistence, 0);
    variant.longest_first = true;
    cases.push_back({prefix, common_problem(), variant});
    variant.kv_splits = 3;
    variant.pack_gqa = true;
    cases.push_back({prefix + "_packed_splits", common_problem(), variant});
    variant = scheduled(Order::right_to_left, persistence, 0);
    variant.longest_first = true;
    variant.swizzle = AttentionSwizzle::head_fastest;
    cases.push_back({prefix + "_head_fastest", common_problem(), variant});
    variant.swizzle = AttentionSwizzle::head_sections;
    variant.section_heads = 3;
    cases.push_back({prefix + "_sections", common_problem(), variant});
  }
  for (const int head_dim : {16, 48, 80, 96, 128, 160, 192, 256}) {
    AttentionProblem problem = common_problem();
    problem.head_dim = head_dim;
    AttentionVariant variant = tiled(64, 32, 4, 1);
    variant.longest_first = true;
    cases.push_back({"longest_first_head_dim_" + text(head_dim), problem, variant});
  }
  return cases;
}

AttentionVariant by_tma(AttentionVariant variant) {
  variant.kv_copy = KvCopy::tma;
  return variant;
}

/// K and V by tensor maps: every head_dim class, depth, length, schedule, layout and grouping.
/// Skipped on chips without the copy engine.
std::vector<VariantCase> tensor_map_cases() {
  std::vector<VariantCase> cases;
  for (const int head_dim : {16, 48, 64, 80, 96, 112, 128, 160, 192, 256}) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      AttentionProblem problem = common_problem();
      problem.head_dim = head_dim;
      problem.dtype = dtype;
      problem.causal = dtype == DType::fp16;
      cases.push_back({"tma_head_dim_" + text(head_dim) + "_" + std::string(to_string(dtype)),
                       problem, by_tma(tiled(64, 32, 4, head_dim > 128 ? 1 : 2))});
    }
  }
  for (int stages = 1; stages <= 4; ++stages) {
    for (const auto& [tile_m, tile_n, warps] :
         {std::array{16, 16, 1}, std::array{64, 64, 4}, std::array{80, 80, 5},
          std::array{128, 32, 4}, std::array{128, 64, 8}}) {
      cases.push_back({"tma_stages_" + text(stages) + "_tile_" + text(tile_m) + "x" + text(tile_n) +
                           "x" + text(warps),
                       common_problem(), by_tma(tiled(tile_m, tile_n, warps, stages))});
    }
    for (const Order order : {Order::cyclic, Order::sawtooth}) {
      AttentionVariant variant = by_tma(scheduled(order, Persistence::persistent, 3));
      variant.stages = stages;
      variant.longest_first = order == Order::cyclic;
      cases.push_back(
          {"tma_stages_" + text(stages) + "_persistent_" + std::string(to_string(order)),
           common_problem(), variant});
    }
  }
  append(cases,
         length_cases_of({{"tma", by_tma(tiled(64, 64, 4))},
                          {"tma_pairs", by_tma(scheduled(Order::sawtooth, Persistence::pairs, 0))}},
                         {1, 63, 200}));
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    AttentionProblem problem = common_problem();
    problem.batch = 3;
    problem.heads_q = 6;
    cases.push_back({order == MemoryOrder::bhsd ? "tma_bhsd" : "tma_bshd", problem,
                     by_tma(tiled(64, 32, 4)), order});
  }
  const AttentionProblem decode{
      .batch = 2, .heads_q = 16, .heads_kv = 2, .seq_q = 3, .seq_kv = 515, .head_dim = 128};
  for (const int kv_splits : {1, 3, 16}) {
    for (const bool pack_gqa : {false, true}) {
      for (const auto& [tile_m, warps] : {std::array{16, 1}, std::array{64, 4}}) {
        AttentionVariant variant = by_tma(tiled(tile_m, 32, warps, 3));
        variant.kv_splits = kv_splits;
        variant.pack_gqa = pack_gqa;
        cases.push_back({"tma_decode_splits_" + text(kv_splits) + (pack_gqa ? "_packed" : "") +
                             "_tile_" + text(tile_m),
                         decode, variant});
      }
    }
  }
  return cases;
}

std::vector<VariantCase> length_cases() {
  return length_cases_of(
      {{"grid", tiled(64, 64, 4)}, {"pairs", scheduled(Order::sawtooth, Persistence::pairs, 0)}},
      {1, 17, 63, 65, 200});
}

std::vector<VariantCase> memory_cases() {
  std::vector<VariantCase> cases;
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int alignment : {2, 4, 8, 16}) {
      for (const int head_dim : {48, 64, 128}) {
        AttentionProblem problem = common_problem();
        problem.alignment_bytes = alignment;
        problem.head_dim = head_dim;
        problem.dtype = alignment == 4 ? DType::bf16 : DType::fp16;
        cases.push_back({std::string(order == MemoryOrder::bhsd ? "bhsd" : "bshd") + "_alignment_" +
                             text(alignment) + "_head_dim_" + text(head_dim),
                         problem, tiled(64, 32, 4), order});
      }
    }
  }
  append(cases, head_cases_of(tiled(64, 64, 4)));
  return cases;
}

/// A few query rows on long K and V: splits, packed heads and both, groups of 2 to 8 heads, rows
/// that fill no tile or several, more query rows than keys, splits without tiles under the mask.
std::vector<VariantCase> decode_cases() {
  struct Form {
    std::string name;
    int kv_splits;
    bool pack_gqa;
  };
  const std::vector<Form> forms{{"splits_2", 2, false},
                                {"splits_7", 7, false},
                                {"packed", 1, true},
                                {"packed_splits_3", 3, true},
                                {"packed_splits_16", 16, true}};
  constexpr std::array<std::array<int, 4>, 6> kShapes{{{1, 1000, 64, 8},
                                                       {1, 4096, 8, 1},
                                                       {4, 515, 6, 2},
                                                       {16, 700, 16, 2},
                                                       {70, 300, 4, 2},
                                                       {300, 290, 6, 2}}};
  std::vector<VariantCase> cases;
  for (const auto& [name, kv_splits, pack_gqa] : forms) {
    for (const auto& [seq_q, seq_kv, heads_q, heads_kv] : kShapes) {
      for (const bool causal : {false, true}) {
        for (const auto& [tile_m, tile_n, warps] :
             {std::array{16, 16, 1}, std::array{64, 16, 4}, std::array{32, 16, 1},
              std::array{16, 64, 4}, std::array{32, 64, 4}}) {
          const AttentionProblem problem{.batch = 2,
                                         .heads_q = heads_q,
                                         .heads_kv = heads_kv,
                                         .seq_q = seq_q,
                                         .seq_kv = seq_kv,
                                         .head_dim = 128,
                                         .causal = causal};
          AttentionVariant variant = tiled(tile_m, tile_n, warps, 3);
          variant.kv_splits = kv_splits;
          variant.pack_gqa = pack_gqa;
          cases.push_back({name + "_q_" + text(seq_q) + "_kv_" + text(seq_kv) + "_heads_" +
                               text(heads_q) + "_on_" + text(heads_kv) + "_tile_" + text(tile_m) +
                               "x" + text(warps) + (causal ? "_causal" : ""),
                           problem, variant});
        }
      }
    }
  }
  return cases;
}

/// Every head_dim class, type, layout and alignment of split and packed kernels, and every
/// schedule. Names end with the tile.
std::vector<VariantCase> decode_axis_cases_of(AttentionVariant variant) {
  std::vector<VariantCase> cases;
  AttentionProblem problem{
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seq_q = 3, .seq_kv = 333, .causal = true};
  variant.kv_splits = 5;
  variant.pack_gqa = true;
  const std::string tile = "_tile_" + text(variant.tile_m) + "x" + text(variant.warps);
  for (const int head_dim : {16, 48, 64, 80, 96, 160, 192, 256}) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      problem.head_dim = head_dim;
      problem.dtype = dtype;
      AttentionVariant one_stage = variant;
      one_stage.stages = 1;
      cases.push_back(
          {"decode_head_dim_" + text(head_dim) + "_" + std::string(to_string(dtype)) + tile,
           problem, one_stage});
    }
  }
  problem.head_dim = 64;
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int alignment : {2, 8, 16}) {
      problem.alignment_bytes = alignment;
      cases.push_back({std::string(order == MemoryOrder::bhsd ? "bhsd" : "bshd") +
                           "_decode_alignment_" + text(alignment) + tile,
                       problem, variant, order, alignment == 16});
    }
  }
  problem.alignment_bytes = 16;
  for (const Order order : {Order::cyclic, Order::sawtooth, Order::right_to_left}) {
    for (const Persistence persistence :
         {Persistence::persistent, Persistence::pairs, Persistence::snake}) {
      variant.order = order;
      variant.persistence = persistence;
      variant.workers = persistence == Persistence::pairs ? 0 : 3;
      cases.push_back({"decode_" + std::string(to_string(order)) + "_" +
                           std::string(to_string(persistence)) + tile,
                       problem, variant});
    }
  }
  return cases;
}

/// Of warps that own rows, and of warps that share a block of rows and divide the keys.
std::vector<VariantCase> decode_axis_cases() {
  std::vector<VariantCase> cases = decode_axis_cases_of(tiled(64, 32, 4, 2));
  const std::vector<VariantCase> in_key_groups = decode_axis_cases_of(tiled(16, 64, 4, 2));
  cases.insert(cases.end(), in_key_groups.begin(), in_key_groups.end());
  return cases;
}

class PortableKernel : public VariantTest {};

TEST_P(PortableKernel, MatchesTheReference) { expect_match(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Tiles, PortableKernel, ::testing::ValuesIn(tile_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Schedules, PortableKernel, ::testing::ValuesIn(schedule_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Swizzles, PortableKernel, ::testing::ValuesIn(swizzle_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(LongestFirst, PortableKernel, ::testing::ValuesIn(longest_first_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(TensorMaps, PortableKernel, ::testing::ValuesIn(tensor_map_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Lengths, PortableKernel, ::testing::ValuesIn(length_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(HeadDims, PortableKernel,
                         ::testing::ValuesIn(head_dim_cases_of(tiled(64, 32, 4, 1), 130)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Decode, PortableKernel, ::testing::ValuesIn(decode_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(DecodeAxes, PortableKernel, ::testing::ValuesIn(decode_axis_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Memory, PortableKernel, ::testing::ValuesIn(memory_cases()), case_name);

}  // namespace
}  // namespace swr
