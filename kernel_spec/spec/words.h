// SPDX-License-Identifier: MIT
// Words in texts of specs, which somebody else wrote: without regular expressions, whose syntax a
// name may contain and whose matching recurses by the length of the text.
#pragma once

#include "core/ascii.h"

#include <string>
#include <string_view>

namespace swr::kernel_spec {

inline bool is_name_character(char c) { return ascii::is_alphanumeric(c) || c == '_'; }

/// A literal of C++ with this text, whatever it holds: how text of a spec goes into a source.
inline std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < ' ') {
      quoted += '\\';
      quoted += '0';
      quoted += static_cast<char>('0' + code / 8);
      quoted += static_cast<char>('0' + code % 8);
      continue;
    }
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + '"';
}

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

/// The text with `by` in place of each such word.
inline std::string with_word_replaced(std::string_view text, std::string_view word,
                                      std::string_view by) {
  std::string replaced;
  std::size_t begin = 0;
  for (auto at = find_word(text, word, 0); at != text.npos; at = find_word(text, word, begin)) {
    replaced.append(text.substr(begin, at - begin)).append(by);
    begin = at + word.size();
  }
  return replaced.append(text.substr(begin));
}

}  // namespace swr::kernel_spec
