// SPDX-License-Identifier: MIT
#include "core/text_wrap.h"

#include <algorithm>

namespace swr {

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
