// SPDX-License-Identifier: MIT
// The instructions of templates/common/tma_ptx.cuh that the portable families use, on the CPU.
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

/// The element at a place of a map, 0 outside.
inline std::uint16_t mapped_element(const MappedTensor& tensor, const std::array<int, 4>& place) {
  long long offset = 0;
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0 || place[i] >= tensor.sizes[i]) {
      return 0;
    }
    offset += place[i] * tensor.strides[i];
  }
  return static_cast<const std::uint16_t*>(tensor.base)[offset];
}

/// Lines of 128 bytes swap their 16-byte chunks, of each 64 or 128 bytes, by bits 7 to 9 of the
/// shared address.
inline unsigned swizzled_address(unsigned address, int swizzle_bytes) {
  const unsigned chunks = static_cast<unsigned>(swizzle_bytes) / 16 - 1;
  return address ^ ((address >> 7 & chunks) << 4);
}

inline void move_box(unsigned shared, const MappedTensor& tensor, BoxCorner corner) {
  for (int row = 0; row < tensor.box.rows; ++row) {
    for (int column = 0; column < tensor.box.columns; ++column) {
      const std::uint16_t element = mapped_element(
          tensor, {corner.column + column, corner.row + row, corner.head, corner.batch});
      const auto within = static_cast<unsigned>(2 * (row * tensor.box.columns + column));
      const unsigned address = swizzled_address(shared + within, tensor.box.swizzle_bytes);
      std::memcpy(emulation::shared(address, sizeof element), &element, sizeof element);
    }
  }
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

}  // namespace swr::ptx
