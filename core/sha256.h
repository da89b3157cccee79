// SPDX-License-Identifier: MIT
// Content digests of cubins and sources, and hashes of keys made of several numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// SHA-256 in lower-case hex, 64 characters.
std::string sha256_hex(std::span<const std::byte> data);
std::string sha256_hex(std::string_view text);

// Hashes of keys made of several numbers.

/// A hash with one more number in it. Its low bits serve as a place in a table.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ value) * kGoldenRatio;
  return hash ^ hash >> 29U;
}

}  // namespace swr
