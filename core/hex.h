// SPDX-License-Identifier: MIT
// Bytes as text.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace swr {

/// Two lower-case digits for each byte.
inline std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

}  // namespace swr
