// SPDX-License-Identifier: MIT
// Proves the sizes that host code and the Hopper GEMM kernel share, over every tile the family can
// have.
#include "templates/gemm/hopper/config.h"

#include "templates/attention/hopper/config.h"
#include "templates/common/smem_layout.h"
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

// Layouts of shared memory, and sizes that follow from Hopper configurations.

HopperAttentionConfig config_of(int head_dim, int tile_m, int tile_n, int stages) {
  return {.head_dim = head_dim,
          .dtype = DType::bf16,
          .causal = false,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .stages = stages,
          .mainloop = Mainloop::overlap_ordered,
          .order = Order::right_to_left,
          .persistence = Persistence::persistent,
          .p_operand = POperand::registers,
          .exp2_fma_eighths = 0,
          .unroll = 1};
}

std::vector<HopperAttentionConfig> every_tile() {
  std::vector<HopperAttentionConfig> configs;
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (int tile_m = 64; tile_m <= 192; tile_m += 64) {
      for (int tile_n = 32; tile_n <= 256; tile_n += 16) {
        for (const POperand p : {POperand::registers, POperand::shared}) {
          HopperAttentionConfig config = config_of(head_dim, tile_m, tile_n, 2);
          config.p_operand = p;
          configs.push_back(config);
        }
      }
    }
  }
  return configs;
}

TEST(HopperAttentionConfig, PlacesEverySwizzledTileAtAMultipleOf1024Bytes) {
  for (const HopperAttentionConfig& c : every_tile()) {
    for (const int offset : {c.q_offset(), c.k_offset(), c.v_offset(), c.p_offset()}) {
      ASSERT_EQ(offset % 1024, 0) << c.head_dim << " " << c.tile_m << "x" << c.tile_n;
    }
    ASSERT_EQ(c.q_tile_bytes() / c.consumers() % 1024, 0);
    ASSERT_EQ(c.kv_tile_bytes() % 1024, 0);
    ASSERT_EQ(c.p_tile_bytes() / c.consumers() % 1024, 0);
  }
}

TEST(HopperAttentionConfig, PanelsCoverTheHeadWithinTheLimitsOfATensorMap) {
  for (const HopperAttentionConfig& c : every_tile()) {
    ASSERT_GE(c.panels() * c.panel_columns(), c.head_dim);
    ASSERT_LT(c.panels() * c.panel_columns() - c.head_dim, 32) << "no more than the padding";
    for (const TensorBox box : {c.q_box(), c.kv_box()}) {
      ASSERT_LE(box.rows, 256);
      ASSERT_EQ(box.columns * 2, box.swizzle_bytes) << "one line of a box is one swizzle line";
    }
  }
}

TEST(HopperAttentionConfig, KeepsASecondQTileWhereItFits) {
  EXPECT_EQ(config_of(128, 128, 160, 2).q_slots(), 2);
  EXPECT_EQ(config_of(128, 128, 160, 2).smem_bytes(), 2 * 32768 + 4 * 40960 + 320);
  EXPECT_EQ(config_of(128, 128, 176, 2).q_slots(), 1);
  EXPECT_FALSE(config_of(128, 128, 176, 2).chains_q_tiles());
  HopperAttentionConfig grid = config_of(64, 192, 128, 2);
  grid.persistence = Persistence::grid;
  EXPECT_EQ(grid.q_slots(), 1) << "one Q tile per CTA needs one slot";
}

TEST(HopperAttentionConfig, TradesNoMoreRegistersThanTheCtaOwns) {
  for (const HopperAttentionConfig& c : every_tile()) {
    if (c.trades_registers()) {
      const int at_entry = 65536 / c.threads() / 8 * 8;
      ASSERT_LE(c.producer_registers() + c.consumers() * c.consumer_registers(),
                at_entry * (c.consumers() + 1));
    }
  }
}

constexpr int kBankLineBytes = 128;

/// ldmatrix reads eight rows at one chunk: distinct 16-byte bank groups mean no conflict.
int bank_groups_of_eight_rows(int first_row, int chunk, int chunks_per_row, bool swizzled) {
  std::set<int> groups;
  for (int row = first_row; row < first_row + 8; ++row) {
    groups.insert(smem_offset(row, chunk, chunks_per_row, swizzled) % kBankLineBytes / kChunkBytes);
  }
  return static_cast<int>(groups.size());
}

TEST(SmemLayout, SwizzledRowsNeverConflictForAnyHeadDim) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    const int chunks = head_dim / 8;
    for (int first_row = 0; first_row < 64; first_row += 8) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        EXPECT_EQ(bank_groups_of_eight_rows(first_row, chunk, chunks, true), 8)
            << "head_dim " << head_dim << " row " << first_row << " chunk " << chunk;
      }
    }
  }
}

TEST(SmemLayout, UnswizzledRowsOf128BytesAllConflict) {
  EXPECT_EQ(bank_groups_of_eight_rows(0, 3, 8, false), 1);
}

TEST(SmemLayout, EveryChunkHasAPlaceOfItsOwnInsideTheTile) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    const int chunks = head_dim / 8;
    for (const bool swizzled : {false, true}) {
      std::set<int> offsets;
      for (int row = 0; row < 48; ++row) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
          const int offset = smem_offset(row, chunk, chunks, swizzled);
          EXPECT_EQ(offset % kChunkBytes, 0);
          EXPECT_LT(offset, 48 * chunks * kChunkBytes);
          offsets.insert(offset);
        }
      }
      EXPECT_EQ(static_cast<int>(offsets.size()), 48 * chunks);
    }
  }
}

/// As the copy engine writes a box: chunks swap by bits 7 to 9 of the address.
TEST(SmemLayout, PanelsLieAsTheCopyEngineWritesThem) {
  for (const int panel_chunks : {4, 8}) {
    const TileLayout layout{48, panel_chunks, true};
    for (int row = 0; row < layout.rows; ++row) {
      for (int chunk = 0; chunk < 3 * panel_chunks; ++chunk) {
        const int plain = chunk / panel_chunks * layout.panel_bytes() +
                          (row * panel_chunks + chunk % panel_chunks) * kChunkBytes;
        EXPECT_EQ(layout.offset(row, chunk),
                  plain ^ ((plain >> 7 & (panel_chunks - 1)) * kChunkBytes))
            << row << " " << chunk;
      }
    }
  }
}

TEST(SmemLayout, PanelsNeverConflict) {
  for (const int panel_chunks : {4, 8}) {
    const TileLayout layout{32, panel_chunks, true};
    for (int first_row = 0; first_row < layout.rows; first_row += 8) {
      for (int chunk = 0; chunk < 2 * panel_chunks; ++chunk) {
        std::set<int> groups;
        for (int row = first_row; row < first_row + 8; ++row) {
          groups.insert(layout.offset(row, chunk) % kBankLineBytes / kChunkBytes);
        }
        EXPECT_EQ(groups.size(), 8U);
      }
    }
  }
}

}  // namespace
}  // namespace swr
