// SPDX-License-Identifier: MIT
// Sizes that problems of every operation have.
#pragma once

#include <swr/axes.h>

#include <string_view>

namespace swr {

/// Bytes that must cross the memory bus at least once.
struct CompulsoryBytes {
  long long read = 0;   ///< Every input, once.
  long long write = 0;  ///< The output, once.
};

std::string_view to_string(DType value);
/// Of the 16-bit types. Throws: Error{invalid_argument} listing the accepted spellings.
DType parse_dtype(std::string_view text);

}  // namespace swr
