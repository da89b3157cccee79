// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <string_view>

namespace swr {

/// Without the blanks at both ends.
constexpr std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const auto first = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

}  // namespace swr
