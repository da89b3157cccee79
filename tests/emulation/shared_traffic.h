// SPDX-License-Identifier: MIT
// How many passes over the banks of shared memory the accesses of a kernel take, and how many they
// would take without conflicts.
//
// Shared memory has 32 banks of 4 bytes and serves 128 bytes per pass. The lanes of a warp access
// it in groups that ask for 128 bytes together: all 32 with 4 bytes each, 16 with 8, 8 with 16;
// ldmatrix asks for the eight rows of one matrix at a time. Lanes of a group that touch different
// words of the same bank take a pass each (CUDA C++ Programming Guide, shared memory).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace emulation {

enum class Access { ldmatrix, load, store, async_copy };
inline constexpr std::size_t kAccessKinds = 4;

struct Passes {
  long long instructions = 0;
  long long taken = 0;
  long long needed = 0;

  long long conflicts() const { return taken - needed; }
  Passes& operator+=(const Passes& other) {
    instructions += other.instructions;
    taken += other.taken;
    needed += other.needed;
    return *this;
  }
};

struct SharedTraffic {
  std::array<Passes, kAccessKinds> by_kind;

  const Passes& operator[](Access kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
  Passes& operator[](Access kind) { return by_kind[static_cast<std::size_t>(kind)]; }
  SharedTraffic& operator+=(const SharedTraffic& other) {
    for (std::size_t i = 0; i < kAccessKinds; ++i) {
      by_kind[i] += other.by_kind[i];
    }
    return *this;
  }
};

struct LaneAddress {
  unsigned lane;
  unsigned address;
};

/// Passes of one instruction whose lanes, in ascending order, access `bytes` (4, 8 or 16) each.
inline Passes passes_of(const std::vector<LaneAddress>& lanes, unsigned bytes) {
  constexpr unsigned kBanks = 32;
  const unsigned lanes_per_group = 128 / bytes;
  Passes passes{.instructions = 1};
  for (std::size_t i = 0; i < lanes.size();) {
    const unsigned group = lanes[i].lane / lanes_per_group;
    std::vector<unsigned> words;
    for (; i < lanes.size() && lanes[i].lane / lanes_per_group == group; ++i) {
      for (unsigned word = 0; word < bytes / 4; ++word) {
        words.push_back(lanes[i].address / 4 + word);
      }
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<int, kBanks> words_of_bank{};
    for (const unsigned word : words) {
      ++words_of_bank[word % kBanks];
    }
    passes.taken += *std::max_element(words_of_bank.begin(), words_of_bank.end());
    passes.needed += 1;
  }
  return passes;
}

/// Collects the accesses of the threads of a CTA. Lanes of a warp execute the same instruction when
/// it is of the same epoch (barriers, exchanges and commits passed) and the same number in it.
class TrafficLog {
 public:
  explicit TrafficLog(int threads) : places_(static_cast<std::size_t>(threads)) {}

  void start_next_epoch(unsigned thread) {
    ++places_[thread].epoch;
    places_[thread].number = 0;
  }

  void add(unsigned thread, Access kind, unsigned address, unsigned bytes) {
    Place& place = places_[thread];
    accesses_[{thread / 32, place.epoch, place.number++, kind, bytes}].push_back(
        {thread % 32, address});
  }

  /// An access of a whole warp.
  void add(Access kind, const std::vector<LaneAddress>& lanes, unsigned bytes) {
    whole_warps_[kind] += passes_of(lanes, bytes);
  }

  SharedTraffic total() const {
    SharedTraffic traffic = whole_warps_;
    for (const auto& [instruction, lanes] : accesses_) {
      traffic[instruction.kind] += passes_of(lanes, instruction.bytes);
    }
    return traffic;
  }

 private:
  struct Place {
    long long epoch = 0;
    long long number = 0;
  };
  struct Instruction {
    unsigned warp;
    long long epoch;
    long long number;
    Access kind;
    unsigned bytes;
    auto operator<=>(const Instruction&) const = default;
  };

  std::vector<Place> places_;
  std::map<Instruction, std::vector<LaneAddress>> accesses_;
  SharedTraffic whole_warps_;
};

}  // namespace emulation
