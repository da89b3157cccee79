// SPDX-License-Identifier: MIT
// Words in sources and specs, which somebody else wrote: without regular expressions, whose syntax
// a name may contain and whose matching recurses by the length of the text.
#pragma once

#include "core/ascii.h"

#include <cstddef>
#include <string_view>

namespace swr {

inline bool is_name_character(char c) { return ascii::is_alphanumeric(c) || c == '_'; }

/// Where `word` stands from `from` on and is not part of a longer word; npos where it does not, as
/// for a word that is empty.
inline std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
  for (auto at = word.empty() ? text.npos : text.find(word, from); at != text.npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_name_character(text[at - 1]);
    if (begins && (end == text.size() || !is_name_character(text[end]))) {
      return at;
    }
  }
  return text.npos;
}

}  // namespace swr
