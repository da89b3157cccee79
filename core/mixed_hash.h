// SPDX-License-Identifier: MIT
// Hashes of keys made of several numbers.
#pragma once

#include <cstdint>

namespace swr {

/// A hash with one more number in it. Its low bits serve as a place in a table.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ value) * kGoldenRatio;
  return hash ^ hash >> 29U;
}

}  // namespace swr
