// SPDX-License-Identifier: MIT
// Layouts of shared memory, and sizes that follow from Hopper configurations.
#include "templates/attention/hopper/config.h"

#include "templates/common/smem_layout.h"
#include "tests/support/test.h"

namespace swr {
namespace {
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
