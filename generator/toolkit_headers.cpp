// SPDX-License-Identifier: MIT
#include "generator/toolkit_headers.h"

#include "core/files.h"

#include <algorithm>
#include <set>
#include <system_error>

namespace swr {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

/// The file of a path below one of the folders; empty where there is none.
std::filesystem::path find_file(const std::vector<std::filesystem::path>& folders,
                                const std::string& path) {
  for (const std::filesystem::path& folder : folders) {
    std::error_code unknown;
    if (std::filesystem::is_regular_file(folder / path, unknown)) {
      return folder / path;
    }
  }
  return {};
}

}  // namespace

std::string ToolkitHeaders::place_of(const HeaderName& name, std::string_view includer) const {
  for (const std::string& place : header_places(name, includer)) {
    if (headers_.contains(place) || !find_file(folders_, place).empty()) {
      return place;
    }
  }
  return "";
}

const ToolkitHeaders::Header& ToolkitHeaders::read(const std::string& path) const {
  const auto [known, is_new] = headers_.try_emplace(path);
  Header& header = known->second;
  if (is_new) {
    const std::string text = read_regular_file(find_file(folders_, path), kMostBytes);
    header.text = with_header_paths(text, [&](const HeaderName& name) {
      std::string place = place_of(name, path);
      if (!place.empty()) {
        header.names.push_back(place);
      }
      return place;
    });
  }
  return header;
}

std::vector<TemplateFile> ToolkitHeaders::named_by(std::span<const TemplateFile> files) const {
  const std::lock_guard lock(mutex_);
  std::set<std::string, std::less<>> seen;
  std::vector<std::string> names;
  for (const TemplateFile& file : files) {
    seen.emplace(file.path);
    with_header_paths(file.text, [&](const HeaderName& name) {
      if (place_of(name, "") == name.text) {
        names.emplace_back(name.text);
      }
      return std::string();
    });
  }
  std::vector<TemplateFile> found;
  while (!names.empty()) {
    const auto [path, is_new] = seen.insert(std::move(names.back()));
    names.pop_back();
    if (is_new) {
      const Header& header = read(*path);
      found.push_back({.path = headers_.find(*path)->first, .text = header.text});
      names.insert(names.end(), header.names.begin(), header.names.end());
    }
  }
  return found;
}

}  // namespace swr
