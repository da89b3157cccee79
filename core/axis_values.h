// SPDX-License-Identifier: MIT
// Reading the values of axes, which come as integers or as text.
#pragma once

#include <swr/error.h>
#include <swr/variant.h>

#include <charconv>
#include <string>
#include <string_view>

namespace swr {

/// Throws: Error{invalid_argument} naming the axis when the value is no whole number.
inline long long require_integer(const AxisValue& value, std::string_view axis) {
  if (const auto* integer = std::get_if<long long>(&value)) {
    return *integer;
  }
  const auto& text = std::get<std::string>(value);
  long long parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw Error(ErrorCode::invalid_argument,
                std::string(axis) + " must be a whole number, not '" + text + "'");
  }
  return parsed;
}

/// Throws: Error{invalid_argument} naming the axis when the value is outside of [low, high].
inline int require_in_range(const AxisValue& value, std::string_view axis, int low, int high) {
  const long long parsed = require_integer(value, axis);
  if (parsed < low || parsed > high) {
    throw Error(ErrorCode::invalid_argument,
                std::string(axis) + " must be between " + std::to_string(low) + " and " +
                    std::to_string(high) + ", not " + std::to_string(parsed));
  }
  return static_cast<int>(parsed);
}

}  // namespace swr
