// SPDX-License-Identifier: MIT
#include "templates/common/smem_layout.h"

#include <gtest/gtest.h>

#include <set>

namespace swr {
namespace {

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
