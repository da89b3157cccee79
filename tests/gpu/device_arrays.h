// SPDX-License-Identifier: MIT
// Arrays of a problem that the emulation's harness laid out on the host, and their copies on the
// device.
#pragma once

#include "driver/cuda_driver.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace swr {

/// What to do with the arrays is asked of `memory.for_each_array`, in the same order each time.
class DeviceArrays {
 public:
  template <typename Memory>
  explicit DeviceArrays(Memory& memory) {
    memory.for_each_array([this](auto& array, auto... /*use*/) {
      hosts_.push_back(std::as_writable_bytes(std::span(array)));
      buffers_.emplace_back(std::max<std::size_t>(hosts_.back().size(), 1));
    });
    upload(memory);
  }

  /// The arrays of this memory take the places of those at first; none is longer.
  template <typename Memory>
  void upload(Memory& memory) const {
    for_each(memory, [](const DeviceBuffer& buffer, std::span<std::byte> bytes, auto... /*use*/) {
      buffer.upload(bytes);
    });
  }
  template <typename Memory>
  void fetch(Memory& memory) const {
    for_each(memory, [](const DeviceBuffer& buffer, std::span<std::byte> bytes, auto... /*use*/) {
      buffer.download(bytes);
    });
  }
  /// Calls take(buffer, bytes of the array, use...) for the arrays that hold something.
  template <typename Memory, typename Take>
  void for_each(Memory& memory, const Take& take) const {
    std::size_t index = 0;
    memory.for_each_array([&](auto& array, auto... use) {
      const DeviceBuffer& buffer = buffers_[index++];
      if (!array.empty()) {
        take(buffer, std::as_writable_bytes(std::span(array)), use...);
      }
    });
  }

  /// Pointers into arrays of the first memory point to their copies; all others become null.
  template <typename... Pointers>
  void translate(Pointers&... pointers) const {
    (translate_one(pointers), ...);
  }

 private:
  template <typename Pointer>
  void translate_one(Pointer& pointer) const {
    const auto* const address = reinterpret_cast<const std::byte*>(pointer);
    pointer = nullptr;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].data() <= address && address < hosts_[i].data() + hosts_[i].size()) {
        const auto offset = static_cast<CUdeviceptr>(address - hosts_[i].data());
        // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
        pointer = reinterpret_cast<Pointer>(buffers_[i].address() + offset);
      }
    }
  }

  std::vector<std::span<std::byte>> hosts_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace swr
