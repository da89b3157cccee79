// SPDX-License-Identifier: MIT
// Copies of rows that the copy engine cannot take, run on the CPU: every element lands, nothing
// around the rows changes, and nothing outside of a matrix is read but what its first and last 16
// bytes share.
#include "gemm/portable/kernel.cuh"
#include "gemm/unaligned.cuh"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"

namespace swr {
namespace {

using Elements = std::vector<std::uint16_t>;

/// Rows of a batch in memory that ends with the last of them, `skipped` elements after 16 bytes.
struct OddMatrix {
  int items;
  int rows;
  int columns;
  int gap;  ///< Elements between rows.
  int skipped;

  int row_stride() const { return columns + gap; }
  Elements filled() const {
    Elements memory(static_cast<std::size_t>(skipped + items * rows * row_stride() - gap));
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i] = static_cast<std::uint16_t>(i * 40503U + 1);
    }
    return memory;
  }
  RowCopy copy(const Elements& from, Elements& to) const {
    return {.from = reinterpret_cast<const char*>(from.data() + skipped),
            .to = reinterpret_cast<char*>(to.data()),
            .item_stride = 2LL * rows * row_stride(),
            .row_stride = 2LL * row_stride(),
            .items = items,
            .rows = rows,
            .row_bytes = 2 * columns};
  }
};

constexpr std::uint16_t kPoison = 0xffff;
constexpr int kThreads = 64;

/// Room for rows of whole lines; std::vector begins at a multiple of 16 bytes.
Elements room_for(const OddMatrix& matrix) {
  const int pitch = (2 * matrix.columns + 127) / 128 * 64;
  return Elements(static_cast<std::size_t>(matrix.items * matrix.rows * pitch), kPoison);
}

void expect_copied(const OddMatrix& matrix, const Elements& from, const Elements& to) {
  const int pitch = (2 * matrix.columns + 127) / 128 * 64;
  for (int row = 0; row < matrix.items * matrix.rows; ++row) {
    for (int column = 0; column < pitch; ++column) {
      const auto target = to[static_cast<std::size_t>(row * pitch + column)];
      const auto source = static_cast<std::size_t>(matrix.skipped + row * matrix.row_stride());
      if (column < matrix.columns) {
        ASSERT_EQ(target, from[source + static_cast<std::size_t>(column)]) << row << " " << column;
      } else if (column >= (matrix.columns + 7) / 8 * 8) {
        ASSERT_EQ(target, kPoison) << "behind a row's last chunk";
      }
    }
  }
}

TEST(EmulatedRowCopies, BothMatricesArriveAtEveryOffset) {
  for (int skipped = 0; skipped < 8; ++skipped) {
    for (const int columns : {1, 7, 8, 9, 23, 64, 131}) {
      const OddMatrix a{1 + skipped % 2, 5, columns, skipped % 3, skipped};
      const OddMatrix b{1, 3, 2 * columns + 1, 0, 7 - skipped};
      const Elements from_a = a.filled();
      const Elements from_b = b.filled();
      Elements to_a = room_for(a);
      Elements to_b = room_for(b);
      const RowCopies copies{a.copy(from_a, to_a), b.copy(from_b, to_b)};
      emulation::run({.grid = 2, .threads = kThreads, .smem_bytes = 16},
                     [&] { copy_rows<kThreads>(copies); });
      expect_copied(a, from_a, to_a);
      expect_copied(b, from_b, to_b);
    }
  }
}

/// Of the two aligned neighbours every element of both is needed at some offset.
TEST(EmulatedRowCopies, AChunkIsShiftedByEveryEvenNumberOfBytes) {
  const Elements elements{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  uint4 halves[2];
  std::memcpy(halves, elements.data(), sizeof halves);
  for (unsigned first = 0; first < 8; ++first) {
    const uint4 chunk = shifted_chunk(halves[0], halves[1], 2 * first);
    std::uint16_t shifted[8];
    std::memcpy(shifted, &chunk, sizeof shifted);
    for (unsigned i = 0; i < 8; ++i) {
      EXPECT_EQ(shifted[i], first + i);
    }
  }
}

}  // namespace
}  // namespace swr
