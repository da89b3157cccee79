// SPDX-License-Identifier: MIT
#include "core/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

namespace swr {
namespace {

std::string text_of(double value, std::chars_format format, int precision) {
  std::array<char, 512> buffer{};  // The largest number has 309 digits before its point.
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision).ptr;
  return {buffer.data(), end};
}

/// Divides by `step` until the value is below it, choosing one unit further each time.
std::string scaled_text(double value, double step, std::span<const std::string_view> units) {
  constexpr int kDigits = 4;
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return significant_text(value, kDigits) + " " + std::string(units[unit]);
}

}  // namespace

std::string fixed_text(double value, int decimals) {
  return text_of(value, std::chars_format::fixed, decimals);
}

std::string general_text(double value, int digits) {
  return text_of(value, std::chars_format::general, digits);
}

std::string significant_text(double value, int digits) {
  constexpr double kLargest = 1e15;
  if (!std::isfinite(value) || std::abs(value) > kLargest) {
    return "-";
  }
  const double magnitude = std::abs(value);
  const int before_point =
      magnitude < 1.0 ? 1 : static_cast<int>(std::floor(std::log10(magnitude))) + 1;
  return fixed_text(value, std::max(0, digits - before_point));
}

std::string uncertain_text(double value, double relative_error) {
  constexpr int kDigits = 4;
  const double error = std::abs(value) * relative_error;
  if (!(error > 0)) {
    return significant_text(value, kDigits);
  }
  // One digit of the error, and the value to the same place.
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(error))));
  return fixed_text(value, decimals) + " ± " + fixed_text(error, decimals);
}

std::string grouped_text(long long value) {
  std::string text = std::to_string(value);
  const std::size_t first_digit = value < 0 ? 1 : 0;
  for (std::size_t position = text.size(); position > first_digit + 3;) {
    position -= 3;
    text.insert(position, 1, ',');
  }
  return text;
}

std::string count_text(long long value) {
  constexpr long long kKeepAllDigits = 10000;
  constexpr std::array<std::string_view, 5> kUnits{"", "k", "M", "G", "T"};
  return std::abs(value) < kKeepAllDigits ? grouped_text(value)
                                          : scaled_text(static_cast<double>(value), 1000, kUnits);
}

std::string time_text(double time_us) {
  constexpr std::array<std::string_view, 3> kUnits{"us", "ms", "s"};
  return scaled_text(time_us, 1000, kUnits);
}

std::string bytes_text(long long bytes) {
  constexpr std::array<std::string_view, 4> kUnits{"B", "KiB", "MiB", "GiB"};
  return scaled_text(static_cast<double>(bytes), 1024, kUnits);
}

std::string percent_text(double share) {
  constexpr double kPercent = 100.0;
  return std::to_string(std::lround(share * kPercent)) + " %";
}

std::string percent_text(double share, int digits) {
  return significant_text(100.0 * share, digits) + " %";
}

std::string change_text(double before, double after) {
  if (before == 0.0) {
    return "-";
  }
  const double percent = 100.0 * (after - before) / before;
  return (percent > 0 ? "+" : "") + fixed_text(percent, 1) + " %";
}

}  // namespace swr
