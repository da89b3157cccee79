// SPDX-License-Identifier: MIT
// Host arrays and their copies in device memory, each an allocation of its own so that
// compute-sanitizer sees accesses past its end.
#pragma once

#include "experiments/gpu_checks/serving_kernels.h"

#include <cstddef>
#include <vector>

namespace swr::gpu {

class DeviceArrays {
 public:
  DeviceArrays() = default;
  DeviceArrays(const DeviceArrays&) = delete;
  DeviceArrays& operator=(const DeviceArrays&) = delete;
  ~DeviceArrays() {
    for (const Copy& copy : copies_) {
      release(copy.device);
    }
  }

  template <typename Value>
  void add(std::vector<Value>& array) {
    const std::size_t bytes = array.size() * sizeof(Value);
    auto* const device = static_cast<char*>(allocate(bytes));
    upload(device, array.data(), bytes);
    copies_.push_back({reinterpret_cast<char*>(array.data()), device, bytes});
  }

  /// Where the copy of an array begins that was added.
  template <typename Value>
  void* device_of(const std::vector<Value>& array) const {
    const void* address = array.data();
    translate(address);
    return const_cast<void*>(address);
  }

  /// Pointers into arrays become pointers into their copies; null stays.
  template <typename... Pointers>
  void translate(Pointers&... pointers) const {
    (translate_one(pointers), ...);
  }

  void fetch_all() const {
    for (const Copy& copy : copies_) {
      download(copy.host, copy.device, copy.bytes);
    }
  }

  /// Arrays of `other`, none longer than that of `first`, take the places of those of `first`.
  template <typename Memory>
  void replace(Memory& other, Memory& first) const {
    for_each_pair(other, first, [](auto& array, void* device) {
      upload(device, array.data(), array.size() * sizeof(array[0]));
    });
  }
  template <typename Memory>
  void fetch_into(Memory& other, Memory& first) const {
    for_each_pair(other, first, [](auto& array, const void* device) {
      download(array.data(), device, array.size() * sizeof(array[0]));
    });
  }

 private:
  struct Copy {
    char* host;
    char* device;
    std::size_t bytes;
  };

  template <typename Pointer>
  void translate_one(Pointer& pointer) const {
    const auto* const address = reinterpret_cast<const char*>(pointer);
    for (const Copy& copy : copies_) {
      if (copy.host <= address && address < copy.host + copy.bytes) {
        pointer = reinterpret_cast<Pointer>(const_cast<char*>(copy.device + (address - copy.host)));
        return;
      }
    }
    pointer = nullptr;
  }

  template <typename Memory, typename Take>
  void for_each_pair(Memory& other, Memory& first, const Take& take) const {
    std::vector<void*> devices;
    first.for_each_array([&](auto& array, auto /*use*/) {
      devices.push_back(array.empty() ? nullptr : device_of(array));
    });
    std::size_t index = 0;
    other.for_each_array([&](auto& array, auto /*use*/) {
      void* const device = devices[index++];
      if (device != nullptr && !array.empty()) {
        take(array, device);
      }
    });
  }

  std::vector<Copy> copies_;
};

}  // namespace swr::gpu
