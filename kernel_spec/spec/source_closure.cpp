// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/source_closure.h"

#include "core/ascii.h"
#include <swr/error.h>

#include <algorithm>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr std::size_t kMostSourceBytes = std::size_t{1} << 20;
constexpr std::size_t kMostHeaders = 256;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, file + ": " + what);
}

/// The text without spliced lines: a backslash before a line's end joins it with the next.
std::string joined_lines(std::string_view text) {
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text.substr(i).starts_with("\\\r\n") ? 3 : 2;
    if (text[i] == '\\' && i + end <= text.size() && text[i + end - 1] == '\n') {
      i += end - 1;
    } else {
      joined += text[i];
    }
  }
  return joined;
}

/// Where a text in quotes ends that starts at `begin`; a line's end ends it, too.
std::size_t end_of_quoted(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != text[begin] && text[at] != '\n') {
    at += text[at] == '\\' ? 2 : 1;
  }
  return std::min(at + 1, text.size());
}

std::size_t end_of_raw(std::string_view text, std::size_t quote) {
  const std::size_t open = text.find('(', quote);
  if (open == text.npos) {
    return text.size();
  }
  const std::string close = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == text.npos ? text.size() : end + close.size();
}

/// Comments become spaces; what stands in quotes stays.
std::string without_comments(std::string_view text) {
  std::string plain;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text.find("*/", at + 2);
      plain += ' ';
      at = end == text.npos ? text.size() : end + 2;
    } else if (text[at] == '"' ||
               (text[at] == '\'' && at > 0 && !ascii::is_alphanumeric(text[at - 1]))) {
      const bool is_raw = text[at] == '"' && at > 0 && text[at - 1] == 'R';
      const std::size_t end = is_raw ? end_of_raw(text, at) : end_of_quoted(text, at);
      // A line within a raw text is none of the preprocessor's.
      for (const char c : text.substr(at, end - at)) {
        plain += is_raw && c == '\n' ? ' ' : c;
      }
      at = end;
    } else {
      plain += text[at++];
    }
  }
  return plain;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\v\f\r");
  if (first == text.npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\v\f\r") - first + 1);
}

/// What follows `include` in a directive; empty for other lines.
std::string_view included_part(std::string_view line) {
  line = trimmed(line);
  for (const std::string_view mark : {"#", "%:", "?\?="}) {
    if (line.starts_with(mark)) {
      line = trimmed(line.substr(mark.size()));
      for (const std::string_view word : {"include_next", "include", "import", "embed"}) {
        if (line.starts_with(word)) {
          return trimmed(line.substr(word.size()));
        }
      }
      return {};
    }
  }
  return {};
}

void require_plain(const std::string& name, const std::string& file) {
  const std::filesystem::path path(name);
  const bool goes_up = std::ranges::find(path, std::filesystem::path("..")) != path.end();
  if (path.is_absolute() || goes_up || name.find('\\') != name.npos) {
    refuse(file,
           "the include of '" + name + "' leaves the folder of its spec; name headers below it");
  }
}

}  // namespace

std::vector<std::string> included_names(const std::string& text, const std::string& file) {
  std::vector<std::string> names;
  const std::string plain = without_comments(joined_lines(text));
  std::string_view rest = plain;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view part = included_part(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.empty()) {
      continue;
    }
    const char close = part.front() == '<' ? '>' : '"';
    const std::size_t last = part.find(close, 1);
    if ((part.front() != '<' && part.front() != '"') || last == part.npos) {
      refuse(file, "the include of " + std::string(part) + " is computed; name the header itself");
    }
    names.emplace_back(part.substr(1, last - 1));
  }
  return names;
}

SourceClosure source_closure(const SpecFolder& folder, const std::string& file, std::string text,
                             const std::vector<std::string>& include_folders) {
  SourceClosure closure{std::move(text), {}};
  std::vector<std::pair<std::string, std::string>> unread{{file, closure.text}};
  while (!unread.empty()) {
    const auto [includer, including] = unread.back();
    unread.pop_back();
    for (const std::string& name : included_names(including, includer)) {
      require_plain(name, includer);
      if (closure.headers.contains(name)) {
        continue;
      }
      const auto beside = std::filesystem::path(includer).parent_path();
      std::vector<std::filesystem::path> places{beside / name, name};
      for (const std::string& include_folder : include_folders) {
        places.push_back(std::filesystem::path(include_folder) / name);
      }
      const auto found = std::ranges::find_if(
          places, [&](const auto& place) { return folder.has(place.string()); });
      if (found == places.end()) {
        continue;
      }
      if (closure.headers.size() == kMostHeaders) {
        refuse(file, "it includes more than " + std::to_string(kMostHeaders) + " headers");
      }
      closure.headers[name] = folder.read(found->string(), kMostSourceBytes);
      unread.emplace_back(found->string(), closure.headers[name]);
    }
  }
  return closure;
}

}  // namespace swr::kernel_spec
