// SPDX-License-Identifier: MIT
#pragma once

#include <swr/error.h>

#include <string>

namespace swr {

/// Throws Error with ErrorCode::invalid_argument: what somebody asked for cannot be had. The
/// message says what is wrong and what to do.
[[noreturn]] inline void reject(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

/// For checks of a call whose tensors may have no element: a size of 0 is as good as 1.
constexpr int at_least_one(int size) { return size == 0 ? 1 : size; }

}  // namespace swr
