// SPDX-License-Identifier: MIT
// Spelling tables for enumerations whose enumerators count up from zero.
#pragma once

#include <swr/error.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// The enumerators' names joined by ", ".
inline std::string join_spellings(std::span<const std::string_view> spellings) {
  std::string joined;
  for (const auto spelling : spellings) {
    joined += joined.empty() ? "" : ", ";
    joined += spelling;
  }
  return joined;
}

template <typename Enum>
std::string_view enum_text(std::span<const std::string_view> spellings, Enum value) {
  return spellings[static_cast<std::size_t>(value)];
}

/// Throws: Error{invalid_argument} listing the accepted spellings; `what` names the enumeration.
template <typename Enum>
Enum parse_enum(std::span<const std::string_view> spellings, std::string_view text,
                std::string_view what) {
  for (std::size_t i = 0; i < spellings.size(); ++i) {
    if (spellings[i] == text) {
      return static_cast<Enum>(i);
    }
  }
  throw Error(ErrorCode::invalid_argument, "unknown " + std::string(what) + " '" +
                                               std::string(text) + "'; choose one of " +
                                               join_spellings(spellings));
}

}  // namespace swr
