// SPDX-License-Identifier: MIT
// Proves the sizes that host code and the Hopper GEMM kernel share, over every tile the family can
// have.
#include "templates/gemm/hopper/config.h"

#include "tests/support/test.h"

namespace swr {
namespace {

std::vector<HopperGemmConfig> every_config() {
  std::vector<HopperGemmConfig> configs;
  for (const int tile_m : {64, 128, 256}) {
    for (int tile_n = 16; tile_n <= 256; tile_n += 16) {
      for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::nn, GemmLayout::tn}) {
        for (const OutputType output : {OutputType::bf16, OutputType::fp32}) {
          for (const auto& [cluster_m, cluster_n] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
            for (const auto& [dtype, tile_k] : {std::pair{DType::bf16, 64},
                                                {DType::bf16, 128},
                                                {DType::e4m3, 128},
                                                {DType::e5m2, 256}}) {
              if (is_fp8(dtype) && layout != GemmLayout::nt) {
                continue;
              }
              configs.push_back({.dtype = dtype,
                                 .output = output,
                                 .layout = layout,
                                 .reads_c = false,
                                 .tile_m = tile_m,
                                 .tile_n = tile_n,
                                 .tile_k = tile_k,
                                 .stages = 3,
                                 .mainloop = GemmMainloop::cooperative,
                                 .consumers = tile_m == 64 ? 1 : 2,
                                 .cluster_m = cluster_m,
                                 .cluster_n = cluster_n,
                                 .cluster_k = 1,
                                 .persistence = Persistence::persistent,
                                 .k_order = Order::cyclic,
                                 .split_k = true});
            }
          }
        }
      }
    }
  }
  return configs;
}

/// Bytes that all boxes of one operand bring to one CTA.
int boxed_bytes(const TensorBox& box, int panels, int sharers, int element_bytes) {
  return panels * sharers * box.columns * box.rows * element_bytes;
}

TEST(HopperGemmConfig, BoxesFillTheTiles) {
  for (const HopperGemmConfig& c : every_config()) {
    const int a_panels = (c.a_along_k() ? c.tile_k : c.tile_m) / c.panel_columns();
    const int b_panels = (c.b_along_k() ? c.tile_k : c.stored_tile_n()) / c.panel_columns();
    EXPECT_EQ(boxed_bytes(c.a_box(1 << 20), a_panels, c.cluster_n, c.element_bytes()),
              c.a_tile_bytes());
    EXPECT_EQ(boxed_bytes(c.b_box(), b_panels, c.cluster_m, c.element_bytes()), c.b_tile_bytes());
    EXPECT_EQ(c.loaded_bytes(1 << 20), c.stage_bytes());
    for (const TensorBox& box : {c.a_box(1 << 20), c.b_box(), c.c_box()}) {
      EXPECT_GE(box.rows, 1);
      EXPECT_LE(box.rows, 256);
      EXPECT_LE(box.columns * (box.swizzle_bytes / box.columns), 128);
    }
  }
}

TEST(HopperGemmConfig, FewRowsOfAAreLoadedWhenCHasFew) {
  for (const HopperGemmConfig& c : every_config()) {
    if (!c.a_along_k() || c.cluster_n > 1) {
      EXPECT_EQ(c.loaded_a_rows(1), c.tile_m);
      continue;
    }
    for (const int m : {1, 17, 64, 300}) {
      EXPECT_EQ(c.a_box(m).rows, min_of(c.tile_m, m));
      EXPECT_EQ(c.loaded_bytes(m),
                min_of(c.tile_m, m) * c.tile_k * c.element_bytes() + c.b_tile_bytes());
    }
  }
}

TEST(HopperGemmConfig, SwizzledAreasAreAlignedAndApart) {
  constexpr int kSwizzleBytes = 1024;
  for (const HopperGemmConfig& c : every_config()) {
    for (int stage = 0; stage < c.stages; ++stage) {
      EXPECT_EQ(c.a_offset(stage) % kSwizzleBytes, 0);
      EXPECT_EQ(c.b_offset(stage) % kSwizzleBytes, 0);
    }
    EXPECT_EQ(c.a_offset(c.stages), c.b_offset(0));
    EXPECT_EQ(c.b_offset(c.stages), c.staging_offset());
    EXPECT_EQ(c.staging_offset() % kSwizzleBytes, 0);
    EXPECT_EQ(c.work_offset() % 16, 0);
    EXPECT_EQ(c.barrier_offset() % 8, 0);
    EXPECT_GT(c.smem_bytes(), c.vote_offset());
  }
}

TEST(HopperGemmConfig, SumsOfATileFitWhereAClusterExchangesThem) {
  for (HopperGemmConfig c : every_config()) {
    c.cluster_k = 2;
    c.stages = 2;
    EXPECT_GE(c.staging_offset(), c.tile_m * c.tile_n * 4);
    EXPECT_GE(c.staging_offset(), c.b_offset(c.stages));
    EXPECT_EQ(c.staging_offset() % 1024, 0);
  }
}

TEST(HopperGemmConfig, PanelsOfCCoverTheTile) {
  for (const HopperGemmConfig& c : every_config()) {
    std::vector<bool> covered(static_cast<std::size_t>(c.tile_n), false);
    for (int panel = 0; panel < c.c_panels(); ++panel) {
      ASSERT_GE(c.c_panel_column(panel), 0);
      EXPECT_EQ(c.c_panel_column(panel) % 16, 0);
      ASSERT_LE(c.c_panel_column(panel) + c.c_panel_columns(), c.tile_n);
      for (int i = 0; i < c.c_panel_columns(); ++i) {
        covered[static_cast<std::size_t>(c.c_panel_column(panel) + i)] = true;
      }
    }
    EXPECT_EQ(covered, std::vector<bool>(covered.size(), true)) << c.tile_n;
    EXPECT_LE(16 * c.c_panel_columns() * c.output_bytes(), c.staging_slot_bytes());
  }
}

TEST(HopperGemmConfig, BlockScalesLieBehindEverythingElse) {
  for (HopperGemmConfig c : every_config()) {
    c.scaling = Scaling::block;
    EXPECT_EQ(c.scales_offset() % 16, 0);
    EXPECT_GE(c.scales_offset(), c.vote_offset() + 4 * c.consumers);
    EXPECT_EQ(c.smem_bytes(), c.scales_offset() + c.stages * c.tile_m * 4);
  }
}

TEST(HopperGemmConfig, GatedTilesHaveHalfTheColumnsOfC) {
  for (HopperGemmConfig c : every_config()) {
    if (c.layout != GemmLayout::nt || c.tile_n % 32 != 0) {
      continue;
    }
    c.gated = true;
    EXPECT_EQ(c.c_panels() * c.c_panel_columns() >= c.tile_n / 2, true);
    EXPECT_EQ(c.b_box().rows, c.tile_n / 2);
    GemmParams params;
    params.m = params.k = 1;
    params.n = 1000;
    EXPECT_EQ(c.schedule(params).columns() * c.cluster_n,
              ceil_div(ceil_div(1000, c.tile_n / 2), c.cluster_n) * c.cluster_n);
  }
}

TEST(HopperGemmConfig, WarpgroupsTradeNoMoreRegistersThanTheCtaHas) {
  for (const HopperGemmConfig& c : every_config()) {
    if (c.trades_registers()) {
      EXPECT_LE(c.producer_registers() + 2 * c.consumer_registers(), 3 * 168);
      EXPECT_EQ(c.producer_registers() % 8, 0);
      EXPECT_EQ(c.consumer_registers() % 8, 0);
    }
  }
}

}  // namespace
}  // namespace swr
