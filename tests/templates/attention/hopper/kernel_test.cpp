// SPDX-License-Identifier: MIT
// The Hopper attention kernel compiles for every second width of wgmma, of which tiles of the
// default space and of GEMM have the others, and for every value of every axis. The tiles of the
// default space stay in registers at the largest head_dim they are offered for.
#include "operations/attention/space.h"
#include "tests/support/compile_once.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/generator.h>

namespace swr {
namespace {

const DeviceInfo kH200{.name = "sm_90",
                       .sm_arch = 90,
                       .sm_count = 132,
                       .l2_bytes = 60LL << 20,
                       .dram_gb_per_s = 4800.0,
                       .smem_per_cta_bytes = 227 * 1024,
                       .smem_per_sm_bytes = 228 * 1024,
                       .smem_reserved_per_cta_bytes = 1024,
                       .registers_per_sm = 65536,
                       .max_threads_per_sm = 2048,
                       .max_ctas_per_sm = 32};

AttentionProblem problem_of(int head_dim, bool causal) {
  return {.heads_q = 16,
          .heads_kv = 16,
          .seq_q = 4096,
          .seq_kv = 4096,
          .head_dim = head_dim,
          .causal = causal};
}

AttentionVariant hopper(int tile_m, int tile_n) {
  return {.family = Family::hopper,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .warps = tile_m / 16,
          .persistence = Persistence::dynamic,
          .mainloop = Mainloop::overlap_ordered};
}

/// The constraint that drops a variant once it is compiled; empty when none does.
std::string dropped_because(const AttentionProblem& problem, const AttentionVariant& variant) {
  static const Generator generator = test::generator_compiling_once();
  try {
    const CompiledKernel kernel = generator.compile(problem, variant, kH200.sm_arch);
    const auto dropped = check_compiled(problem, variant, kH200, kernel.resources);
    return dropped ? dropped->constraint + ": " + dropped->reason : "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(HopperKernel, EverySecondWidthCompiles) {
  constexpr int kWidestThatFitsRegisters = 224;
  for (const int tile_n : {16, 48, 80, 112, 144, 176, 208, kWidestThatFitsRegisters}) {
    const AttentionVariant variant = hopper(64, tile_n);
    const AttentionProblem problem = problem_of(64, false);
    ASSERT_FALSE(check_constraints(problem, variant, kH200)) << tile_n;
    // Wide tiles spill; none may fail to compile.
    const std::string reason = dropped_because(problem, variant);
    EXPECT_TRUE(reason.empty() || reason.starts_with("spills") ||
                reason.starts_with("serialized_wgmma"))
        << reason;
  }
}

TEST(HopperKernel, EveryValueOfEveryAxisCompiles) {
  const auto spaces = family_spaces();
  for (const AxisDefaults& defaults : spaces[1].axes) {
    const Axis* axis = find_axis(attention_operation(), defaults.axis);
    for (const std::string_view value : defaults.values) {
      Variant variant = hopper(128, 64);
      axis->set(variant, std::string(value));
      EXPECT_EQ(dropped_because(problem_of(64, true), variant.as<AttentionVariant>()), "")
          << to_key(variant);
    }
  }
}

class HopperTiles : public testing::TestWithParam<int> {};

TEST_P(HopperTiles, OfTheDefaultSpaceStayInRegisters) {
  const int head_dim = GetParam();
  for (const Tile& tile : family_spaces()[1].tiles_of(head_dim, 90)) {
    const AttentionVariant variant = hopper(tile.tile_m, tile.tile_n);
    const AttentionProblem problem = problem_of(head_dim, true);
    const auto forbidden = check_constraints(problem, variant, kH200);
    EXPECT_FALSE(forbidden) << to_key(variant) << " " << forbidden->reason;
    EXPECT_EQ(dropped_because(problem, variant), "") << to_key(variant);
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDims, HopperTiles, testing::Values(64, 96, 128, 160, 192, 256),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace swr
