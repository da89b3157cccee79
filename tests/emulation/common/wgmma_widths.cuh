// SPDX-License-Identifier: MIT
// wgmma.mma_async m64nNk16 of 16-bit elements, on the CPU: what scripts/write_wgmma writes for
// GPUs. A thread computes the sums that it holds. Operands lie in lines of 128 bytes, whose chunks
// are swizzled.
#pragma once

#include "tests/emulation/simt.h"
#include "tests/support/float16.h"
#include <swr/axes.h>

#include <array>
#include <cstring>

namespace swr::ptx {

/// A matrix descriptor (PTX ISA, "Matrix Descriptor Format").
class WgmmaOperand {
 public:
  WgmmaOperand(unsigned long long descriptor, bool transposed, DType type)
      : start_(static_cast<unsigned>(descriptor & 0x3fffU) << 4),
        panel_(static_cast<unsigned>(descriptor >> 16 & 0x3fffU) << 4),
        group_(static_cast<unsigned>(descriptor >> 32 & 0x3fffU) << 4),
        transposed_(transposed),
        type_(type) {
    if (descriptor >> 62 != 1) {
      emulation::fail("a wgmma operand whose lines are not swizzled over 128 bytes");
    }
  }

  /// `row` counts along M or N.
  float at(unsigned row, unsigned k) const {
    const unsigned offset = transposed_
                                ? row / 64 * panel_ + row % 64 * 2 + k / 8 * group_ + k % 8 * 128
                                : row / 8 * group_ + row % 8 * 128 + k * 2;
    const unsigned address = start_ + offset;
    std::uint16_t bits;
    std::memcpy(&bits, emulation::shared(address ^ (address >> 7 & 7U) << 4, 2), 2);
    return static_cast<float>(value_of(bits, type_));
  }

 private:
  unsigned start_;
  unsigned panel_;
  unsigned group_;
  bool transposed_;
  DType type_;
};

/// Two rows of A, that of the lane's quad and the one eight below.
using WgmmaRows = std::array<std::array<float, 16>, 2>;

inline WgmmaRows wgmma_rows(const WgmmaOperand& a) {
  const unsigned first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  WgmmaRows rows;
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned k = 0; k < 16; ++k) {
      rows[half][k] = a.at(first + 8 * half, k);
    }
  }
  return rows;
}

/// From the registers of the quad's lanes.
inline WgmmaRows wgmma_rows(const unsigned (&a)[4], DType type) {
  struct Pairs {
    unsigned words[2];
  };
  struct Row {
    unsigned words[8];
  };
  WgmmaRows rows;
  for (unsigned half = 0; half < 2; ++half) {
    const Row row = emulation::collective<Row>(
        Pairs{{a[half], a[2 + half]}}, [](const auto& lanes, auto& results) {
          for (unsigned lane = 0; lane < 32; ++lane) {
            for (unsigned word = 0; word < 8; ++word) {
              results[lane].words[word] = lanes[lane / 4 * 4 + word % 4].words[word / 4];
            }
          }
        });
    for (unsigned k = 0; k < 16; ++k) {
      rows[half][k] =
          static_cast<float>(value_of(row.words[k / 2] >> (16 * (k % 2)) & 0xffffU, type));
    }
  }
  return rows;
}

/// d, with what it held when `accumulate`, plus the product, for N columns.
template <int N>
void wgmma_add(float* d, const WgmmaRows& rows, const WgmmaOperand& b, bool accumulate) {
  for (unsigned j = 0; j < N / 8; ++j) {
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned column = 8 * j + threadIdx.x % 4 * 2 + i;
      float low = 0.0F;
      float high = 0.0F;
      for (unsigned k = 0; k < 16; ++k) {
        const float right = b.at(column, k);
        low += rows[0][k] * right;
        high += rows[1][k] * right;
      }
      d[4 * j + i] = (accumulate ? d[4 * j + i] : 0.0F) + low;
      d[4 * j + 2 + i] = (accumulate ? d[4 * j + 2 + i] : 0.0F) + high;
    }
  }
}

template <int N>
struct Wgmma {
  template <DType Type, bool TransposeA, bool TransposeB>
  static void mma_async(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                        bool accumulate) {
    const WgmmaOperand left(a, TransposeA, Type);
    const WgmmaOperand right(b, TransposeB, Type);
    emulation::products().issue(
        [&d, left, right, accumulate] { wgmma_add<N>(d, wgmma_rows(left), right, accumulate); });
  }
  template <DType Type, bool Accumulate, bool TransposeB>
  static void mma_async(float (&d)[N / 2], unsigned long long a, unsigned long long b) {
    mma_async<Type, false, TransposeB>(d, a, b, Accumulate);
  }
  template <DType Type, bool Accumulate, bool TransposeB>
  static void mma_async(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b) {
    const WgmmaRows rows = wgmma_rows(a, Type);
    const WgmmaOperand right(b, TransposeB, Type);
    emulation::products().issue([&d, rows, right] { wgmma_add<N>(d, rows, right, Accumulate); });
  }
};

}  // namespace swr::ptx
