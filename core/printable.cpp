// SPDX-License-Identifier: MIT
#include "core/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace swr {
namespace {

constexpr char kReplacement = '?';

/// Bytes of a character by its first; 0 for a byte that begins none. RFC 3629.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xc2 || first > 0xf4) {
    return 0;
  }
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// The code point of a character, whose first byte says its length.
std::uint32_t code_point_of(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  std::uint32_t code = bytes.size() == 1 ? first : first & (0xffU >> (bytes.size() + 1));
  for (const char byte : bytes.substr(1)) {
    code = (code << 6) | (static_cast<unsigned char>(byte) & 0x3f);
  }
  return code;
}

/// Ranges without a glyph of their own, of which terminals make more than a character.
bool is_control(std::uint32_t code) {
  static constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 8> kRanges{
      {{0x00, 0x1f},
       {0x7f, 0x9f},
       {0x061c, 0x061c},
       {0x200b, 0x200f},
       {0x2028, 0x202e},
       {0x2060, 0x206f},
       {0xd800, 0xdfff},
       {0xfeff, 0xfeff}}};
  return std::any_of(kRanges.begin(), kRanges.end(), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

/// The shortest form alone is UTF-8: longer ones would hide what they stand for.
bool is_shortest(std::uint32_t code, std::size_t length) {
  static constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[length] && code <= 0x10ffff;
}

/// Bytes of the character that the text begins with if it may be printed; else 0.
std::size_t printable_length(std::string_view text) {
  const std::size_t length = length_of(static_cast<unsigned char>(text.front()));
  const std::string_view rest = text.substr(1, length == 0 ? 0 : length - 1);
  if (length == 0 || rest.size() + 1 != length || !std::ranges::all_of(rest, is_continuation)) {
    return 0;
  }
  const std::uint32_t code = code_point_of(text.substr(0, length));
  return is_control(code) || !is_shortest(code, length) ? 0 : length;
}

std::string replaced(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const bool is_kept = kept.find(text.front()) != std::string_view::npos;
    const std::size_t length = is_kept ? 1 : printable_length(text);
    result += length == 0 ? std::string_view(&kReplacement, 1) : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return replaced(text, "\n\t"); }

std::string printable_line(std::string_view text) { return replaced(text, ""); }

}  // namespace swr
