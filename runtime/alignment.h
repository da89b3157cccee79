// SPDX-License-Identifier: MIT
// The alignment that a caller's tensors have.
#pragma once

#include <swr/error.h>

#include <cstdint>
#include <string>

namespace swr {

/// Collects the address bits in which an access may lie.
class Alignment {
 public:
  void add_pointer(const void* pointer, const char* name) {
    if (pointer == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  std::string("the tensor ") + name +
                      " has no memory; pass the address of its first element");
    }
    bits_ |= reinterpret_cast<std::uintptr_t>(pointer);
  }

  /// The stride of a dimension in elements. One that no step takes does not matter.
  void add_stride(long long stride, int extent, int element_bytes) {
    if (extent > 1) {
      bits_ |= static_cast<std::uintptr_t>(stride) * static_cast<std::uintptr_t>(element_bytes);
    }
  }

  /// The largest power of two, at most 16, that divides all.
  /// Throws: Error{invalid_argument} when that is less than an element.
  int bytes(int element_bytes) const {
    constexpr std::uintptr_t kLargest = 16;
    const std::uintptr_t all = bits_ | kLargest;
    const int largest = static_cast<int>(all & ~(all - 1));
    if (largest < element_bytes) {
      throw Error(ErrorCode::invalid_argument,
                  "the addresses and strides of the tensors must be multiples of " +
                      std::to_string(element_bytes) + " bytes, which the largest element has");
    }
    return largest;
  }

 private:
  std::uintptr_t bits_ = 0;
};

}  // namespace swr
