// SPDX-License-Identifier: MIT
// What somebody may have meant who wrote a word that is not known.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// Characters to insert, delete, replace or swap with their neighbour to come from one word to the
/// other: the optimal string alignment distance (Boytsov, Indexing methods for approximate
/// dictionary searching, 2011, section 2.2).
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The nearest of the words, the first of those equally near; none where more than a third of the
/// word, or of its nearest, would have to change. A word that one of the words begins with, and no
/// other, is near whatever is missing.
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> words);

}  // namespace swr
