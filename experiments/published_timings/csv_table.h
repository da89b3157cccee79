// SPDX-License-Identifier: MIT
// Rows of a file of comma-separated values whose first line names the columns; quotes hold commas.
#pragma once

#include <swr/error.h>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace swr {

class CsvTable {
 public:
  /// Throws: what read_regular_file() throws.
  explicit CsvTable(const std::filesystem::path& file);

  /// Goes to the next row; false at the end.
  bool next();

  /// Of the row. Throws: Error{unreadable} where there is no such column.
  const std::string& text(const std::string& column) const;

  /// Throws: Error{unreadable} naming file and line where the field is no number.
  template <typename Number>
  Number number(const std::string& column) const {
    const std::string& field = text(column);
    Number value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc{} || end != field.data() + field.size()) {
      reject("column " + column + " is \"" + field + "\"; write a number");
    }
    return value;
  }

  /// Empty where the field is.
  std::optional<double> optional_number(const std::string& column) const {
    return text(column).empty() ? std::nullopt : std::optional(number<double>(column));
  }

  /// Throws: Error{unreadable} naming file and line.
  [[noreturn]] void reject(const std::string& problem) const;

 private:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 28;

  std::filesystem::path file_;
  std::istringstream stream_;
  std::map<std::string, std::size_t> columns_;
  std::vector<std::string> fields_;
  int row_ = 0;
};

}  // namespace swr
