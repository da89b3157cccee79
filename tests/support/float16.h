// SPDX-License-Identifier: MIT
// 16-bit floats for tests: what their bits stand for, and those that are not finite.
#pragma once

#include <swr/axes.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace swr {

/// What the bits of a 16-bit float stand for, by its definition.
inline double value_of(unsigned bits, DType dtype) {
  static const auto tables = [] {
    std::array<std::vector<double>, 2> of_types;
    for (const bool is_bf16 : {false, true}) {
      const int fraction_bits = is_bf16 ? 7 : 10;
      const int bias = is_bf16 ? 127 : 15;
      const int exponents = is_bf16 ? 256 : 32;
      for (int pattern = 0; pattern < 0x10000; ++pattern) {
        const int exponent = (pattern >> fraction_bits) % exponents;
        const int fraction = pattern % (1 << fraction_bits);
        const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
        const double magnitude =
            exponent < exponents - 1
                ? std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits)
            : fraction == 0 ? std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::quiet_NaN();
        of_types[is_bf16 ? 1 : 0].push_back(pattern >= 0x8000 ? -magnitude : magnitude);
      }
    }
    return of_types;
  }();
  return tables[dtype == DType::bf16 ? 1 : 0][bits];
}

/// The 16-bit float nearest to a value, ties to the even pattern; too large a value to infinity.
inline std::uint16_t bits_of(float value, DType dtype) {
  if (std::isnan(value)) {
    return 0x7fff;
  }
  if (dtype == DType::bf16) {
    const auto bits = std::bit_cast<unsigned>(value);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  constexpr float kSmallestTooLarge = 65520.0F;
  if (value == 0.0F || std::fabs(value) >= kSmallestTooLarge) {
    return static_cast<std::uint16_t>(value == 0.0F ? sign : sign | 0x7c00U);
  }
  int exponent = 0;
  std::frexp(std::fabs(value), &exponent);
  // The last place of a normal number is 2^(exponent - 11), of a subnormal one 2^-24.
  const int last_place = std::max(exponent - 11, -24);
  const auto places =
      static_cast<unsigned>(std::nearbyint(std::ldexp(std::fabs(value), -last_place)));
  return static_cast<std::uint16_t>(sign |
                                    ((static_cast<unsigned>(last_place + 24) << 10) + places));
}

/// Bits of what is not finite, and of 1.
struct Special {
  std::uint16_t nan;
  std::uint16_t plus_infinity;
  std::uint16_t minus_infinity;
  std::uint16_t one;
};

inline Special special(DType dtype) {
  return dtype == DType::bf16 ? Special{0x7fc0, 0x7f80, 0xff80, 0x3f80}
                              : Special{0x7e00, 0x7c00, 0xfc00, 0x3c00};
}

}  // namespace swr
