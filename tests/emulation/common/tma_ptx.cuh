// SPDX-License-Identifier: MIT
// The instructions of templates/common/tma_ptx.cuh that portable kernels and loading warps use, on
// the CPU.
#pragma once

#include "tests/emulation/simt.h"
#include <swr/tensor_map.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace swr::ptx {

/// What a map stands for: 2-byte elements (head_dim, seq, heads, batch), innermost first.
struct MappedTensor {
  const void* base = nullptr;
  std::array<int, 4> sizes{};
  std::array<long long, 4> strides{};  ///< In elements.
  TensorBox box;
};

/// A map of a tensor that outlives it.
inline TensorMap map_of(const MappedTensor& tensor) {
  TensorMap map{};
  map.opaque[0] = reinterpret_cast<std::uintptr_t>(&tensor);
  return map;
}

inline void prefetch_tensormap(const TensorMap& /*map*/) {}

inline void mbarrier_init(unsigned barrier, unsigned arrivals) {
  emulation::transaction_barrier(barrier) =
      emulation::TransactionBarrier(static_cast<int>(arrivals));
}
inline void fence_mbarrier_init() {}
inline void fence_proxy_async() {}
inline void mbarrier_arrive(unsigned barrier) { emulation::transaction_barrier(barrier).arrive(); }
inline void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  emulation::transaction_barrier(barrier).expect(static_cast<int>(bytes));
}
inline void mbarrier_wait(unsigned barrier, unsigned parity) {
  emulation::wait(emulation::transaction_barrier(barrier), parity);
}

struct BoxCorner {
  int column;
  int row;
  int head;
  int batch;
};

/// The element at a place of a map, nullptr outside.
inline const std::uint16_t* mapped_element(const MappedTensor& tensor,
                                           const std::array<int, 4>& place) {
  long long offset = 0;
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0 || place[i] >= tensor.sizes[i]) {
      return nullptr;
    }
    offset += place[i] * tensor.strides[i];
  }
  return static_cast<const std::uint16_t*>(tensor.base) + offset;
}

/// Lines of 128 bytes swap their 16-byte chunks, of each 64 or 128 bytes, by bits 7 to 9 of the
/// shared address.
inline unsigned swizzled_address(unsigned address, int swizzle_bytes) {
  const unsigned chunks = static_cast<unsigned>(swizzle_bytes) / 16 - 1;
  return address ^ ((address >> 7 & chunks) << 4);
}

/// `move(in_shared, in_tensor)` for every element of a box; the latter is nullptr outside.
template <typename Move>
void for_each_in_box(unsigned shared, const MappedTensor& tensor, BoxCorner corner,
                     const Move& move) {
  for (int row = 0; row < tensor.box.rows; ++row) {
    for (int column = 0; column < tensor.box.columns; ++column) {
      const auto within = static_cast<unsigned>(2 * (row * tensor.box.columns + column));
      const unsigned address = swizzled_address(shared + within, tensor.box.swizzle_bytes);
      move(emulation::shared(address, 2),
           mapped_element(tensor,
                          {corner.column + column, corner.row + row, corner.head, corner.batch}));
    }
  }
}

inline void move_box(unsigned shared, const MappedTensor& tensor, BoxCorner corner) {
  for_each_in_box(shared, tensor, corner, [](std::byte* target, const std::uint16_t* source) {
    const std::uint16_t element = source == nullptr ? 0 : *source;
    std::memcpy(target, &element, sizeof element);
  });
}
/// To the tensor; what lies outside of it is not written.
inline void move_box_back(const MappedTensor& tensor, BoxCorner corner, unsigned shared) {
  for_each_in_box(shared, tensor, corner, [](const std::byte* source, const std::uint16_t* target) {
    if (target != nullptr) {
      std::memcpy(const_cast<std::uint16_t*>(target), source, sizeof *target);
    }
  });
}

inline void cp_async_bulk_tensor_4d_global_to_shared(unsigned shared, const TensorMap& map,
                                                     BoxCorner corner, unsigned barrier) {
  if (shared % 128 != 0) {
    emulation::fail("a swizzled box at an address that is no multiple of 128");
  }
  const auto& tensor = *reinterpret_cast<const MappedTensor*>(map.opaque[0]);
  emulation::transaction_barrier(barrier).complete_later(
      2 * tensor.box.rows * tensor.box.columns,
      [shared, &tensor, corner] { move_box(shared, tensor, corner); });
}

inline bool elect_sync() {
  return emulation::collective<bool>(threadIdx.x % 32, [](const auto& lanes, auto& results) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      results[lane] = lanes[lane] == 0;
    }
  });
}

/// A map of five dimensions as the driver is asked to encode it: innermost first, strides in bytes.
struct EncodedMap {
  std::uintptr_t address = 0;
  std::array<unsigned long long, 5> sizes{};
  std::array<unsigned long long, 4> strides{};
  std::array<unsigned, 5> box{};
  int swizzle_bytes = 128;

  int box_bytes() const {
    unsigned elements = 1;
    for (const unsigned size : box) {
      elements *= size;
    }
    return static_cast<int>(2 * elements);
  }
};
/// The map itself outlives it.
inline TensorMap map_of(const EncodedMap& encoded) {
  TensorMap map{};
  map.opaque[0] = reinterpret_cast<std::uintptr_t>(&encoded);
  return map;
}

/// 16 bytes at a time: columns of boxes are multiples of 8. Addresses wrap modulo 2^64.
inline void move_box(unsigned shared, const EncodedMap& map, const std::array<int, 5>& corner) {
  constexpr unsigned kChunk = 8;
  const auto chunks = static_cast<unsigned>(map.box_bytes()) / 16;
  for (unsigned chunk = 0; chunk < chunks; ++chunk) {
    unsigned index = chunk * kChunk;
    std::uintptr_t address = map.address;
    bool is_inside = true;
    for (std::size_t d = 0; d < 5; ++d) {
      const auto place = corner[d] + static_cast<long long>(index % map.box[d]);
      index /= map.box[d];
      is_inside = is_inside && place >= 0 && static_cast<unsigned long long>(place) < map.sizes[d];
      address += static_cast<std::uintptr_t>(place) * (d == 0 ? 2 : map.strides[d - 1]);
    }
    std::byte* const target =
        emulation::shared(swizzled_address(shared + 16 * chunk, map.swizzle_bytes), 16);
    if (is_inside) {
      std::memcpy(target, reinterpret_cast<const void*>(address), 16);
    } else {
      std::memset(target, 0, 16);
    }
  }
}
inline void copy_box(unsigned shared, const TensorMap& map, const std::array<int, 5>& corner,
                     unsigned barrier) {
  if (shared % 128 != 0) {
    emulation::fail("a swizzled box at an address that is no multiple of 128");
  }
  const auto& encoded = *reinterpret_cast<const EncodedMap*>(map.opaque[0]);
  emulation::transaction_barrier(barrier).complete_later(
      encoded.box_bytes(), [shared, &encoded, corner] { move_box(shared, encoded, corner); });
}

struct CutBoxCorner {
  int column;
  int cut;
  int row;
  int head;
  int back;
};
inline void cp_async_bulk_tensor_5d_global_to_shared(unsigned shared, const TensorMap& map,
                                                     CutBoxCorner corner, unsigned barrier) {
  copy_box(shared, map, {corner.column, corner.cut, corner.row, corner.head, corner.back}, barrier);
}
inline void cp_async_bulk_tensor_5d_global_to_shared(unsigned shared, const TensorMap& map,
                                                     int place, unsigned barrier) {
  copy_box(shared, map, {0, 0, 0, 0, place}, barrier);
}

}  // namespace swr::ptx
