// SPDX-License-Identifier: MIT
// Refusing what somebody gave, and what they may have meant.
#pragma once

#include <swr/error.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// Throws Error with ErrorCode::invalid_argument: what somebody asked for cannot be had. The
/// message says what is wrong and what to do.
[[noreturn]] inline void reject(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

/// For checks of a call whose tensors may have no element: a size of 0 is as good as 1.
constexpr int at_least_one(int size) { return size == 0 ? 1 : size; }

// What somebody may have meant who wrote a word that is not known.

/// Characters to insert, delete, replace or swap with their neighbour to come from one word to the
/// other: the optimal string alignment distance (Boytsov, Indexing methods for approximate
/// dictionary searching, 2011, section 2.2).
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The nearest of the words, the first of those equally near; none where more than a third of the
/// word, or of its nearest, would have to change. A word that one of the words begins with, and no
/// other, is near whatever is missing.
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> words);

}  // namespace swr
