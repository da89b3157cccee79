// SPDX-License-Identifier: MIT
// A plain table whose columns are as wide as their widest cell.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace swr {

class TextTable {
 public:
  enum class Align { left, right };

  struct Column {
    std::string title;
    Align align = Align::right;
  };

  explicit TextTable(std::vector<Column> columns);

  /// Requires: one cell per column.
  void add_row(std::vector<std::string> cells);

  /// Two spaces between columns, none at the end of a line. `highlight_first` prints the first row
  /// in bold, for terminals.
  void print(std::ostream& out, bool highlight_first = false) const;

 private:
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace swr
