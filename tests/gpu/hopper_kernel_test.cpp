// SPDX-License-Identifier: MIT
// Variants of the Hopper family against the reference: every value of every axis, ragged sizes,
// every head_dim class, both types, masks, grouped heads and strides.
#include "tests/gpu/variant_case.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

AttentionVariant hopper(int tile_m, int tile_n, int stages = 2) {
  return {.family = Family::hopper,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .warps = tile_m / 16,
          .stages = stages,
          .mainloop = Mainloop::overlap_ordered};
}

std::vector<VariantCase> tile_cases() {
  std::vector<VariantCase> cases;
  for (const int tile_m : {64, 128, 192}) {
    for (const int tile_n : {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176}) {
      cases.push_back(
          {"tile_" + text(tile_m) + "x" + text(tile_n), common_problem(), hopper(tile_m, tile_n)});
    }
  }
  for (const int stages : {1, 2, 3, 4}) {
    cases.push_back({"stages_" + text(stages), common_problem(), hopper(128, 64, stages)});
  }
  return cases;
}

std::vector<VariantCase> mainloop_cases() {
  std::vector<VariantCase> cases;
  for (const Mainloop mainloop :
       {Mainloop::plain, Mainloop::mutex, Mainloop::overlap, Mainloop::overlap_ordered}) {
    for (const POperand p_operand : {POperand::registers, POperand::shared}) {
      for (const int tile_m : {64, 128, 192}) {
        AttentionVariant variant = hopper(tile_m, 64);
        variant.mainloop = mainloop;
        variant.p_operand = p_operand;
        cases.push_back({std::string(to_string(mainloop)) + "_p_" +
                             std::string(to_string(p_operand)) + "_tile_m_" + text(tile_m),
                         common_problem(), variant});
      }
    }
  }
  for (const int eighths : {0, 1, 2, 3, 4}) {
    for (const int unroll : {1, 2}) {
      AttentionVariant variant = hopper(128, 96);
      variant.exp2_fma_eighths = eighths;
      variant.unroll = unroll;
      cases.push_back(
          {"exp2_fma_" + text(eighths) + "_unroll_" + text(unroll), common_problem(), variant});
    }
  }
  return cases;
}

std::vector<VariantCase> schedule_cases() {
  std::vector<VariantCase> cases;
  for (const Order order : {Order::cyclic, Order::sawtooth, Order::right_to_left}) {
    for (const Persistence persistence :
         {Persistence::grid, Persistence::persistent, Persistence::pairs, Persistence::snake,
          Persistence::dynamic}) {
      for (const int workers : {0, 3}) {
        AttentionVariant variant = hopper(64, 32);
        variant.order = order;
        variant.persistence = persistence;
        variant.workers = workers;
        cases.push_back({std::string(to_string(order)) + "_" + std::string(to_string(persistence)) +
                             "_workers_" + text(workers),
                         common_problem(), variant});
      }
    }
  }
  for (const Persistence persistence : {Persistence::grid, Persistence::dynamic}) {
    AttentionVariant variant = hopper(128, 64);
    variant.persistence = persistence;
    variant.swizzle = AttentionSwizzle::head_fastest;
    const std::string suffix = "_" + std::string(to_string(persistence));
    cases.push_back({"head_fastest" + suffix, common_problem(), variant});
    variant.swizzle = AttentionSwizzle::head_sections;
    variant.section_heads = 3;
    cases.push_back({"head_sections_3" + suffix, common_problem(), variant});
  }
  return cases;
}

std::vector<VariantCase> length_cases() {
  AttentionVariant grid = hopper(128, 64);
  grid.persistence = Persistence::grid;
  AttentionVariant dynamic = grid;
  dynamic.persistence = Persistence::dynamic;
  return length_cases_of({{"grid", grid}, {"dynamic", dynamic}}, {1, 17, 129, 200});
}

/// Rows that see no key, with exponentials on either pipe: O = 0, whatever the polynomial's least
/// value is.
std::vector<VariantCase> hidden_row_cases() {
  std::vector<VariantCase> cases;
  for (const int eighths : {0, 2, 4}) {
    for (const Order order : {Order::cyclic, Order::sawtooth}) {
      AttentionProblem problem = common_problem();
      problem.seq_q = 500;
      problem.seq_kv = 54;
      AttentionVariant variant = hopper(128, 64);
      variant.order = order;
      variant.persistence = Persistence::persistent;
      variant.workers = 3;
      variant.exp2_fma_eighths = eighths;
      cases.push_back(
          {"exp2_fma_" + text(eighths) + "_" + std::string(to_string(order)), problem, variant});
    }
  }
  return cases;
}

std::vector<VariantCase> memory_cases() {
  std::vector<VariantCase> cases;
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int head_dim : {48, 64, 128}) {
      for (const bool with_lse : {false, true}) {
        AttentionProblem problem = common_problem();
        problem.head_dim = head_dim;
        cases.push_back({std::string(order == MemoryOrder::bhsd ? "bhsd" : "bshd") + "_head_dim_" +
                             text(head_dim) + (with_lse ? "_lse" : ""),
                         problem, hopper(128, 64), order, with_lse});
      }
    }
  }
  append(cases, head_cases_of(hopper(128, 64)));
  return cases;
}

class HopperKernel : public VariantTest {};

TEST_P(HopperKernel, MatchesTheReference) { expect_match(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Tiles, HopperKernel, ::testing::ValuesIn(tile_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Mainloops, HopperKernel, ::testing::ValuesIn(mainloop_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Schedules, HopperKernel, ::testing::ValuesIn(schedule_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Lengths, HopperKernel, ::testing::ValuesIn(length_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(HiddenRows, HopperKernel, ::testing::ValuesIn(hidden_row_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(HeadDims, HopperKernel,
                         ::testing::ValuesIn(head_dim_cases_of(hopper(128, 64), 330)), case_name);
INSTANTIATE_TEST_SUITE_P(Memory, HopperKernel, ::testing::ValuesIn(memory_cases()), case_name);

}  // namespace
}  // namespace swr
