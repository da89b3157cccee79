// SPDX-License-Identifier: MIT
// The instructions of templates/common/ptx.cuh that the portable GEMM uses, on the CPU, after the
// figures of the PTX ISA manual.
#pragma once

#include "tests/emulation/simt.h"
#include <swr/axes.h>

#include <cmath>
#include <cstdlib>

namespace swr::ptx {

inline void move(const emulation::Copy& copy) {
  std::byte* const target = emulation::shared(copy.shared, static_cast<std::size_t>(copy.bytes));
  std::memset(target, 0, static_cast<std::size_t>(copy.bytes));
  if (copy.source_bytes > 0) {
    std::memcpy(target, copy.global, static_cast<std::size_t>(copy.source_bytes));
  }
}

template <int Bytes>
void copy_async_partly(unsigned shared, const void* global, int source_bytes) {
  if (source_bytes < 0 || source_bytes > Bytes ||
      (source_bytes > 0 && reinterpret_cast<std::uintptr_t>(global) % Bytes != 0)) {
    std::abort();
  }
  const emulation::Copy copy{shared, global, Bytes, source_bytes};
  if (emulation::cta->copy_time == emulation::CopyTime::early) {
    move(copy);
  } else {
    emulation::pending_copies.back().push_back(copy);
  }
}

inline void commit_copies() { emulation::pending_copies.emplace_back(); }

template <int Pending>
void wait_copies() {
  auto& groups = emulation::pending_copies;
  while (groups.size() > Pending + 1) {
    for (const emulation::Copy& copy : groups.front()) {
      move(copy);
    }
    groups.erase(groups.begin());
  }
}

template <typename Value>
void store_shared(unsigned shared, Value value) {
  std::memcpy(emulation::shared(shared, sizeof value), &value, sizeof value);
}
inline unsigned load_shared_word(unsigned shared) {
  unsigned value;
  std::memcpy(&value, emulation::shared(shared, sizeof value), sizeof value);
  return value;
}

/// Element `column` of the 8-element row at a shared address.
inline unsigned row_element(unsigned address, unsigned column) {
  std::uint16_t element;
  std::memcpy(&element, emulation::shared(address, 16) + 2 * column, sizeof element);
  return element;
}

inline void load_matrices(unsigned (&fragment)[4], unsigned shared) {
  const auto rows = emulation::warp().exchange(shared);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = rows[8 * i + lane / 4];
    fragment[i] = row_element(row, lane % 4 * 2) | row_element(row, lane % 4 * 2 + 1) << 16;
  }
}

inline void load_matrices_transposed(unsigned (&fragment)[4], unsigned shared) {
  const auto rows = emulation::warp().exchange(shared);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    fragment[i] = row_element(rows[8 * i + lane % 4 * 2], lane / 4) |
                  row_element(rows[8 * i + lane % 4 * 2 + 1], lane / 4) << 16;
  }
}

inline float unpack_fp16(unsigned short bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 0x3ff;
  const float magnitude = exponent == 31 ? (fraction == 0 ? HUGE_VALF : std::nanf(""))
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <DType Type>
float decode(unsigned bits) {
  return Type == DType::fp16 ? unpack_fp16(static_cast<unsigned short>(bits))
                             : __uint_as_float(bits << 16);
}

/// Rounds to nearest even. Requires: finite and within the type's range.
template <DType Type>
unsigned encode(float value) {
  if constexpr (Type == DType::bf16) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  } else {
    const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
    if (value == 0.0F) {
      return sign;
    }
    int exponent = 0;
    std::frexp(std::fabs(value), &exponent);
    // The last place of a normal number is 2^(exponent - 11), of a subnormal one 2^-24.
    const int last_place = std::max(exponent - 11, -24);
    const auto places =
        static_cast<unsigned>(std::nearbyint(std::ldexp(std::fabs(value), -last_place)));
    return sign | ((static_cast<unsigned>(last_place + 24) << 10) + places);
  }
}

template <DType Type>
unsigned pack(float low, float high) {
  return encode<Type>(low) | encode<Type>(high) << 16;
}

struct Operands {
  unsigned a[4];
  unsigned b[2];
};

/// mma.sync m16n8k16.
template <DType Type>
void multiply_accumulate(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const auto lanes = emulation::warp().exchange(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const unsigned lane = threadIdx.x % 32;
  const auto half = [](unsigned packed, unsigned i) { return packed >> (16 * i) & 0xffffU; };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4;
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned in_quad = k % 8 / 2;
      const float left = decode<Type>(half(lanes[row * 4 + in_quad].a[k / 8 * 2 + i / 2], k % 2));
      const float right = decode<Type>(half(lanes[column * 4 + in_quad].b[k / 8], k % 2));
      c[i] += left * right;
    }
  }
}

}  // namespace swr::ptx
