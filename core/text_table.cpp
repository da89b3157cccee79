// SPDX-License-Identifier: MIT
#include "core/text_table.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace swr {

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) {
    widths_.push_back(column.title.size());
  }
}

void TextTable::add_row(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths_[i] = std::max(widths_[i], cells.at(i).size());
  }
  rows_.push_back(std::move(cells));
}

void TextTable::print(std::ostream& out, bool highlight_first) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
  }
  out << line(titles) << "\n";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const bool bold = highlight_first && i == 0;
    out << (bold ? "\x1b[1m" : "") << line(rows_[i]) << (bold ? "\x1b[0m" : "") << "\n";
  }
}

std::string TextTable::line(const std::vector<std::string>& cells) const {
  std::string text;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string padding(widths_[i] - cells[i].size(), ' ');
    text += i == 0 ? "" : "  ";
    text += columns_[i].align == Align::right ? padding + cells[i] : cells[i] + padding;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace swr
