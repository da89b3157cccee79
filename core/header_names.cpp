// SPDX-License-Identifier: MIT
#include "core/header_names.h"

#include <algorithm>
#include <filesystem>

namespace swr {
namespace {

/// One past the line that begins at `begin`, with those that a backslash joins to it.
std::size_t end_of_line(std::string_view text, std::size_t begin) {
  for (std::size_t at = text.find('\n', begin); at != text.npos; at = text.find('\n', at + 1)) {
    const std::size_t last = at > begin && text[at - 1] == '\r' ? at - 1 : at;
    if (last == begin || text[last - 1] != '\\') {
      return at + 1;
    }
  }
  return text.size();
}

bool may_name_headers(std::string_view line) {
  return line.find('#') != line.npos || line.find("%:") != line.npos;
}

/// Where the name ends that begins behind `open`; npos where none does.
std::size_t end_of_name(std::string_view line, std::size_t open) {
  constexpr std::size_t kLongest = 1024;
  const char close = line[open] == '<' ? '>' : '"';
  const auto rest = line.substr(open + 1, kLongest);
  const auto end = std::ranges::find_if(
      rest, [&](char c) { return c == close || static_cast<unsigned char>(c) < ' '; });
  const bool is_name = end != rest.end() && *end == close && end != rest.begin();
  return is_name ? open + 1 + static_cast<std::size_t>(end - rest.begin()) : line.npos;
}

bool is_include_next(std::string_view before) {
  return before.substr(0, before.find_last_not_of(" \t") + 1).ends_with("include_next");
}

}  // namespace

std::string with_header_paths(std::string_view text,
                              const std::function<std::string(const HeaderName&)>& path_of) {
  constexpr int kMostTried = 65'536;  // More are no directives, and would take long.
  std::string changed;
  std::size_t kept = 0;
  int tried = 0;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = end_of_line(text, begin);
    const std::string_view line = text.substr(0, end);
    std::size_t at = may_name_headers(line.substr(begin)) ? begin : line.npos;
    while ((at = line.find_first_of("\"<", at)) != line.npos && ++tried <= kMostTried) {
      const std::size_t close = end_of_name(line, at);
      const auto name = close == line.npos ? "" : line.substr(at + 1, close - at - 1);
      const auto before = text.substr(begin, at - begin);
      const std::string path =
          name.empty() ? "" : path_of({name, line[at] == '"', is_include_next(before)});
      ++at;
      if (!path.empty()) {
        changed.append(text, kept, at - kept).append(path);
        kept = close;
        at = close + 1;
      }
    }
  }
  return changed.append(text, kept);
}

std::vector<std::string> header_places(const HeaderName& name, std::string_view includer,
                                       std::span<const std::string> folders) {
  std::vector<std::filesystem::path> where{""};
  if (name.is_quoted && !name.is_next) {
    where.insert(where.begin(), std::filesystem::path(includer).parent_path());
  }
  where.insert(where.end(), folders.begin(), folders.end());
  if (name.is_next) {
    const auto own = std::ranges::find_if(where, [&](const std::filesystem::path& folder) {
      return (folder / name.text).lexically_normal() == includer;
    });
    where.erase(where.begin(), own == where.end() ? where.begin() : own + 1);
  }
  std::vector<std::string> places;
  for (const std::filesystem::path& folder : where) {
    const std::filesystem::path place = (folder / name.text).lexically_normal();
    if (place.is_relative() && place.has_filename() && place != "." && *place.begin() != "..") {
      places.push_back(place.string());
    }
  }
  return places;
}

}  // namespace swr
