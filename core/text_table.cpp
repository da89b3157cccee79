// SPDX-License-Identifier: MIT
#include "core/text_table.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <utility>

namespace swr {
namespace {

constexpr std::size_t kGap = 2;
/// Cells narrower than this are hard to read in several lines.
constexpr std::size_t kNarrowestWrap = 16;

/// Characters of UTF-8: bytes but for those that go on with one.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

/// A table on its way into the width: what is left of its columns, and how wide they are.
class FittedTable {
 public:
  FittedTable(std::span<const TextTable::Column> columns,
              std::span<const std::vector<std::string>> rows)
      : columns_(columns), rows_(rows) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      shown_.push_back({.place = i, .width = width_of(i)});
    }
  }

  void fit(std::size_t width) {
    if (total() <= width) {
      return;
    }
    say_once_what_is_the_same();
    while (total() > width && shrink_a_wrapping_column(width)) {
    }
    while (total() > width && leave_one_out()) {
    }
  }

  void print(std::ostream& out, const TableStyle& style) const {
    print_list(out, same_, style.width);
    std::vector<std::string> titles;
    for (const TextTable::Column& column : columns_) {
      titles.push_back(column.title);
    }
    print_row(out, titles);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      out << (i == 0 ? style.first_row_begin : "");
      print_row(out, rows_[i], i == 0 ? style.first_row_end : "");
    }
    print_list(out, left_out_, style.width);
  }

 private:
  struct Shown {
    std::size_t place = 0;
    std::size_t width = 0;
  };

  std::size_t width_of(std::size_t place) const {
    std::size_t width = characters(columns_[place].title);
    for (const auto& row : rows_) {
      width = std::max(width, characters(row[place]));
    }
    return width;
  }

  std::size_t total() const {
    std::size_t total = 0;
    for (const Shown& column : shown_) {
      total += column.width + (&column == shown_.data() ? 0 : kGap);
    }
    return total;
  }

  bool is_the_same_everywhere(std::size_t place) const {
    return rows_.size() > 1 && std::ranges::all_of(rows_, [&](const auto& row) {
             return row[place] == rows_.front()[place];
           });
  }

  void say_once_what_is_the_same() {
    for (const Shown& column : shown_) {
      if (is_the_same_everywhere(column.place)) {
        same_ += (same_.empty() ? "in all rows: " : ", ") + columns_[column.place].title + " " +
                 rows_.front()[column.place];
      }
    }
    std::erase_if(shown_,
                  [this](const Shown& column) { return is_the_same_everywhere(column.place); });
  }

  /// The widest of them gives what is too much. False when there is none that can.
  bool shrink_a_wrapping_column(std::size_t width) {
    Shown* widest = nullptr;
    for (Shown& column : shown_) {
      const bool can = columns_[column.place].wraps && column.width > kNarrowestWrap;
      if (can && (widest == nullptr || column.width > widest->width)) {
        widest = &column;
      }
    }
    if (widest == nullptr) {
      return false;
    }
    const std::size_t excess = total() - width;
    const std::size_t most = widest->width - kNarrowestWrap;
    widest->width -= std::min(excess, most);
    return true;
  }

  bool leave_one_out() {
    const auto first = std::ranges::min_element(shown_, {}, [this](const Shown& column) {
      const int order = columns_[column.place].leave_out;
      return order == 0 ? INT32_MAX : order;
    });
    if (first == shown_.end() || columns_[first->place].leave_out == 0) {
      return false;
    }
    left_out_ +=
        (left_out_.empty() ? "too wide for this terminal: " : ", ") + columns_[first->place].title;
    shown_.erase(first);
    return true;
  }

  static void print_list(std::ostream& out, const std::string& list, std::size_t width) {
    if (!list.empty()) {
      out << wrap_lines(list, width) << "\n";
    }
  }

  void print_row(std::ostream& out, const std::vector<std::string>& cells,
                 const std::string& end = "") const {
    std::vector<std::vector<std::string>> parts;
    std::size_t lines = 1;
    for (const Shown& column : shown_) {
      const std::string& cell = cells[column.place];
      parts.push_back(columns_[column.place].wraps ? wrap(cell, column.width) : std::vector{cell});
      lines = std::max(lines, parts.back().size());
    }
    for (std::size_t i = 0; i < lines; ++i) {
      out << line(parts, i) << (i + 1 == lines ? end : "") << "\n";
    }
  }

  std::string line(const std::vector<std::vector<std::string>>& parts, std::size_t number) const {
    std::string text;
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      const std::string part = number < parts[i].size() ? parts[i][number] : "";
      const bool is_right = columns_[shown_[i].place].align == TextTable::Align::right;
      // A word that is wider than its column pushes the others.
      const std::size_t width = shown_[i].width;
      const std::string padding(width - std::min(width, characters(part)), ' ');
      text += i == 0 ? "" : std::string(kGap, ' ');
      text += is_right ? padding + part : part + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  std::span<const TextTable::Column> columns_;
  std::span<const std::vector<std::string>> rows_;
  std::vector<Shown> shown_;
  std::string same_;
  std::string left_out_;
};

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void TextTable::print(std::ostream& out, const TableStyle& style) const {
  FittedTable table(columns_, rows_);
  if (style.width > 0) {
    table.fit(style.width);
  }
  table.print(out, style);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  if (width == 0 || text.size() <= width) {
    return {std::string(text)};
  }
  std::vector<std::string> lines;
  while (text.size() > width) {
    // A space right behind the last character that fits is a good place too.
    std::size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) {
      end = text.find(' ', width);
    }
    // A word that is too long for any line need not begin one of its own.
    const std::size_t next = std::min(text.find_first_not_of(' ', end), text.size());
    const std::size_t next_end = std::min(text.find(' ', next), text.size());
    if (next_end - next > width) {
      end = next_end < text.size() ? next_end : std::string_view::npos;
    }
    if (end == std::string_view::npos) {
      break;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  if (!text.empty()) {
    lines.emplace_back(text);
  }
  return lines;
}

namespace {

constexpr std::size_t kHangingIndent = 2;
/// Text narrower than this is worse than one that the terminal breaks.
constexpr std::size_t kNarrowest = 20;

std::string wrap_line(std::string_view line, std::size_t width) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t further = indent + kHangingIndent;
  if (line.size() <= width || width < further + kNarrowest) {
    return std::string(line);
  }
  const std::string padding(further, ' ');
  // Lines after the first have less room, so all are broken for theirs.
  const auto parts = wrap(line.substr(indent), width - further);
  std::string text = std::string(indent, ' ') + parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    text += "\n" + padding + parts[i];
  }
  return text;
}

}  // namespace

std::string wrap_lines(std::string_view text, std::size_t width) {
  if (width == 0) {
    return std::string(text);
  }
  std::string wrapped;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    wrapped += wrap_line(text.substr(0, end), width);
    wrapped += end < text.size() ? "\n" : "";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapped;
}

}  // namespace swr
