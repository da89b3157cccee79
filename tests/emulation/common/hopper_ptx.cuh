// SPDX-License-Identifier: MIT
// The instructions of templates/common/hopper_ptx.cuh that loading warps, the softmax, attention
// backward and the epilogue of GEMM use, on the CPU.
#pragma once

#include "common/ptx.cuh"
#include "common/tma_ptx.cuh"

#include <cmath>
#include <cstring>

namespace swr::ptx {

inline bool mbarrier_test_wait(unsigned barrier, unsigned parity) {
  return emulation::transaction_barrier(barrier).has_passed(parity);
}

template <int Registers>
void setmaxnreg_inc() {}
template <int Registers>
void setmaxnreg_dec() {}

template <int Threads>
void bar_sync(int number) {
  emulation::sync_at(number, Threads);
}
template <int Threads>
void bar_arrive(int number) {
  emulation::arrive_at(number, Threads);
}

inline void fence_proxy_async_global() {}

inline float exp2_polynomial(float x) { return std::exp2(x); }

inline float2 ld_shared_v2_f32_in_place(unsigned shared) {
  return load_from_shared<float2>(shared);
}

/// stmatrix: `word(words, row, pair)` is what comes to a pair of elements of a row of a matrix,
/// from the words that the 32 lanes have of it.
template <typename Word>
void stmatrix_with(unsigned shared, const unsigned (&words)[4], const Word& word) {
  struct Operand {
    unsigned address;
    unsigned words[4];
  };
  Operand own{shared, {words[0], words[1], words[2], words[3]}};
  const auto store = [&](const auto& lanes, auto& results) {
    std::vector<emulation::LaneAddress> addresses;
    for (unsigned lane = 0; lane < 32; ++lane) {
      addresses.push_back({lane, lanes[lane].address});
      std::byte* const row = emulation::shared(lanes[lane].address, 16);
      for (unsigned pair = 0; pair < 4; ++pair) {
        const auto of_lane = [&](unsigned other) { return lanes[other].words[lane / 8]; };
        const unsigned both = word(of_lane, lane % 8, pair);
        std::memcpy(row + 4 * pair, &both, sizeof both);
      }
      results[lane] = 0;
    }
    emulation::cta->traffic.add(emulation::Access::store, addresses, 16);
  };
  emulation::collective<int>(own, store);
}
inline void stmatrix_x4(unsigned shared, unsigned a, unsigned b, unsigned c, unsigned d) {
  stmatrix_with(shared, {a, b, c, d}, [](const auto& of_lane, unsigned row, unsigned pair) {
    return of_lane(4 * row + pair);
  });
}
inline void stmatrix_x4_trans(unsigned shared, unsigned a, unsigned b, unsigned c, unsigned d) {
  stmatrix_with(shared, {a, b, c, d}, [](const auto& of_lane, unsigned row, unsigned pair) {
    const auto element = [&](unsigned column) {
      return of_lane(4 * column + row / 2) >> (16 * (row % 2)) & 0xffffU;
    };
    return element(2 * pair) | element(2 * pair + 1) << 16;
  });
}

// Copies without a tensor map, and those from shared memory, in bulk groups of a thread.

inline void check_bulk(unsigned shared, const void* global, unsigned bytes) {
  if (shared % 16 != 0 || reinterpret_cast<std::uintptr_t>(global) % 16 != 0 || bytes % 16 != 0) {
    emulation::fail("a bulk copy of what does not lie at multiples of 16 bytes");
  }
}
inline void cp_async_bulk_global_to_shared(unsigned shared, const void* global, unsigned bytes,
                                           unsigned barrier) {
  check_bulk(shared, global, bytes);
  emulation::transaction_barrier(barrier).complete_later(
      static_cast<int>(bytes), [shared, global, bytes] {
        for (unsigned at = 0; at < bytes; at += 16) {
          std::memcpy(emulation::shared(shared + at, 16),
                      static_cast<const std::byte*>(global) + at, 16);
        }
      });
}
inline void cp_async_bulk_shared_to_global(void* global, unsigned shared, unsigned bytes) {
  check_bulk(shared, global, bytes);
  emulation::thread().stores.issue([global, shared, bytes] {
    for (unsigned at = 0; at < bytes; at += 16) {
      std::memcpy(static_cast<std::byte*>(global) + at, emulation::shared(shared + at, 16), 16);
    }
  });
}
inline void cp_reduce_async_bulk_add_f32(float* global, unsigned shared, unsigned bytes) {
  check_bulk(shared, global, bytes);
  emulation::thread().stores.issue([global, shared, bytes] {
    for (unsigned at = 0; at < bytes; at += 4) {
      float value;
      std::memcpy(&value, emulation::shared(shared + at, 4), sizeof value);
      global[at / 4] += value;
    }
  });
}
inline void cp_async_bulk_tensor_4d_shared_to_global(const TensorMap& map, BoxCorner corner,
                                                     unsigned shared) {
  const auto& tensor = *reinterpret_cast<const MappedTensor*>(map.opaque[0]);
  emulation::thread().stores.issue(
      [&tensor, corner, shared] { move_box_back(tensor, corner, shared); });
}
/// A corner in a map of three dimensions, whose fourth is 1 here.
struct MatrixCorner {
  int column;
  int row;
  int item;
};
inline void cp_async_bulk_tensor_3d_shared_to_global(const TensorMap& map, MatrixCorner corner,
                                                     unsigned shared) {
  cp_async_bulk_tensor_4d_shared_to_global(map, {corner.column, corner.row, corner.item, 0},
                                           shared);
}
inline void cp_async_bulk_commit_group() { emulation::thread().stores.commit(); }
/// What has read shared memory has written as well.
template <int Pending = 0>
void cp_async_bulk_wait_group_read() {
  emulation::thread().stores.wait(Pending);
}
template <int Pending = 0>
void cp_async_bulk_wait_group() {
  emulation::thread().stores.wait(Pending);
}

// Products under way.

inline void wgmma_fence() {}
inline void wgmma_commit_group() { emulation::products().commit(); }
template <int Pending>
void wgmma_wait_group() {
  emulation::products().wait(Pending);
}
template <typename Registers>
void warpgroup_fence_operand(Registers& /*registers*/) {}

}  // namespace swr::ptx
