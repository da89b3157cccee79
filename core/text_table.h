// SPDX-License-Identifier: MIT
// Text for a terminal of known width: broken lines, and a plain table whose columns are as wide as
// their widest cell, and that fits a terminal where its width is known.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// The text in lines of at most `width` characters, broken at spaces; a longer word has a line of
/// its own and stays whole, so that keys and paths can be copied. 0 is any width.
/// Requires: the text is one line.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

/// Every line of the text that is too long, broken as above; what follows is indented as the line
/// is and by two more. 0 leaves the text as it is.
std::string wrap_lines(std::string_view text, std::size_t width);

/// How a table is written.
struct TableStyle {
  /// Characters of a line that the table may take; 0 is any number, as for files and pipes.
  std::size_t width = 0;
  /// Escape codes around the first row, and behind it; empty for none.
  std::string first_row_begin = {};
  std::string first_row_end = {};
};

class TextTable {
 public:
  enum class Align { left, right };

  struct Column {
    std::string title;
    Align align = Align::right;
    /// Where the width does not suffice, columns are left out in this order, 1 first; 0 stays.
    int leave_out = 0;
    /// Cells may go on in the next line, at spaces.
    bool wraps = false;
  };

  explicit TextTable(std::vector<Column> columns);

  /// Requires: one cell per column.
  void add_row(std::vector<std::string> cells);

  /// Two spaces between columns, none at the end of a line. A table that is wider than the style
  /// allows says once, above, what is the same in all rows; then cells go on in the next line; then
  /// columns are left out, which a line below the table names. One whose columns all stay may
  /// still be too wide.
  void print(std::ostream& out, const TableStyle& style = {}) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace swr
