// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4) for packages that depend on nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace swr {

class Sha256 {
 public:
  /// The digest of `size` bytes in lower-case hex.
  static std::string hex(const void* data, std::size_t size) {
    Sha256 hash;
    for (const auto& block : padded_blocks(static_cast<const unsigned char*>(data), size)) {
      hash.add(block);
    }
    return hash.text();
  }

 private:
  using Block = std::array<unsigned char, 64>;
  using Word = std::uint32_t;

  /// The message, a one bit, zeros, and its length in bits, big end first.
  static std::vector<Block> padded_blocks(const unsigned char* data, std::size_t size) {
    std::vector<Block> blocks((size + 8) / 64 + 1, Block{});
    for (std::size_t i = 0; i < size; ++i) {
      blocks[i / 64][i % 64] = data[i];
    }
    blocks[size / 64][size % 64] = 0x80;
    const std::uint64_t bits = std::uint64_t{size} * 8;
    for (unsigned i = 0; i < 8; ++i) {
      blocks.back()[63 - i] = static_cast<unsigned char>(bits >> (8 * i));
    }
    return blocks;
  }

  static Word rotated(Word word, int by) { return word >> by | word << (32 - by); }

  static std::array<Word, 64> schedule(const Block& block) {
    std::array<Word, 64> words{};
    for (std::size_t i = 0; i < 64; ++i) {
      words[i / 4] = words[i / 4] << 8 | block[i];
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const Word early = words[i - 15];
      const Word late = words[i - 2];
      words[i] = words[i - 16] + (rotated(early, 7) ^ rotated(early, 18) ^ early >> 3) +
                 words[i - 7] + (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
    }
    return words;
  }

  void add(const Block& block) {
    const std::array<Word, 64> words = schedule(block);
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const Word mixed = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                         ((e & f) ^ (~e & g)) + kConstants[i] + words[i];
      const Word sum =
          (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + mixed;
      d = c;
      c = b;
      b = a;
      a = mixed + sum;
    }
    const std::array<Word, 8> round{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) {
      state_[i] += round[i];
    }
  }

  std::string text() const {
    std::string digits;
    for (const Word word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) {
        digits += "0123456789abcdef"[word >> shift & 15U];
      }
    }
    return digits;
  }

  static constexpr std::array<Word, 64> kConstants{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
      0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
      0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
      0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
      0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
      0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
      0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
      0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
      0xc67178f2};

  std::array<Word, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

}  // namespace swr
