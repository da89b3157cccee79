// SPDX-License-Identifier: MIT
// 16-bit floats for tests: what their bits stand for, and those that are not finite.
#pragma once

#include <swr/axes.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace swr {

/// The bits of a 16-bit float, by its definition.
inline double value_of(unsigned bits, DType dtype) {
  const int fraction_bits = dtype == DType::fp16 ? 10 : 7;
  const int bias = dtype == DType::fp16 ? 15 : 127;
  const int exponents = dtype == DType::fp16 ? 32 : 256;
  const int exponent = static_cast<int>(bits >> fraction_bits) % exponents;
  const int fraction = static_cast<int>(bits) % (1 << fraction_bits);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == exponents - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits);
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
