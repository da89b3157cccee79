// SPDX-License-Identifier: MIT
// What calls of kernels for servers are checked by: each rule throws one sentence that says what to
// do, and costs next to nothing where it holds.
#pragma once

#include <swr/attention_params.h>
#include <swr/error.h>

#include <cstdint>
#include <string>

namespace swr {

/// Throws: Error{invalid_argument}, as all here.
inline void require_call(bool holds, const char* otherwise) {
  if (!holds) {
    throw Error(ErrorCode::invalid_argument, otherwise);
  }
}

inline void require_count(long long value, long long least, long long most, const char* name) {
  if (value < least || value > most) {
    throw Error(ErrorCode::invalid_argument,
                std::string(name) + " must be " + std::to_string(least) + " to " +
                    std::to_string(most) + ", not " + std::to_string(value));
  }
}

/// A pointer may be null.
inline void require_aligned(const void* pointer, const char* name, std::uintptr_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0) {
    throw Error(ErrorCode::invalid_argument, "the address of " + std::string(name) +
                                                 " must be a multiple of " + std::to_string(bytes) +
                                                 " bytes");
  }
}

/// The elements of a tensor.
inline void require_tensor(const void* pointer, const char* name) {
  constexpr std::uintptr_t kPieceBytes = 16;
  if (pointer == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "the tensor " + std::string(name) +
                    " has no memory; pass the address of its first element");
  }
  require_aligned(pointer, name, kPieceBytes);
}

/// Strides of dimensions that have more than one element.
inline void require_strides(const TensorStrides& strides, long long batch, long long heads,
                            long long rows, long long multiple, const char* name) {
  const auto check = [&](long long stride, long long extent, const char* dimension) {
    if (extent > 1 && stride % multiple != 0) {
      throw Error(ErrorCode::invalid_argument, "the stride of " + std::string(name) + " from " +
                                                   dimension + " must be a multiple of " +
                                                   std::to_string(multiple) + " elements, not " +
                                                   std::to_string(stride));
    }
  };
  check(strides.batch, batch, "one item of its first dimension to the next");
  check(strides.head, heads, "head to head");
  check(strides.seq, rows, "row to row");
}

}  // namespace swr
