// SPDX-License-Identifier: MIT
// CUDA's own headers, which are handed to NVRTC with a source: what compiles it opens no file.
#pragma once

#include "core/header_names.h"
#include "generator/template_set.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr {

/// Reads a header when a source names it, and keeps it. Thread-safe.
class ToolkitHeaders {
 public:
  /// `folders`: first the most important; none where there is no toolkit.
  explicit ToolkitHeaders(std::vector<std::filesystem::path> folders)
      : folders_(std::move(folders)) {}

  /// The headers that `files` name and do not have, and what these name. Views of what is kept.
  std::vector<TemplateFile> named_by(std::span<const TemplateFile> files) const;

 private:
  struct Header {
    std::string text;
    std::vector<std::string> names;  ///< Paths of what it names.
  };
  /// The path at which compilers would find a name; empty where it is none of CUDA's.
  std::string place_of(const HeaderName& name, std::string_view includer) const;
  const Header& read(const std::string& path) const;

  std::vector<std::filesystem::path> folders_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Header, std::less<>> headers_;  ///< By path below a folder.
};

}  // namespace swr
