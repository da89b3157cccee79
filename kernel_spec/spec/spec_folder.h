// SPDX-License-Identifier: MIT
// The folder of a spec: the only place from which files that the spec names are read.
#pragma once

#include "core/files.h"

#include <cstddef>
#include <filesystem>
#include <string>

namespace swr::kernel_spec {

/// Of one file of a source.
constexpr std::size_t kMostSourceBytes = std::size_t{16} << 20;

class SpecFolder {
 public:
  /// Throws: Error{not_found} when there is no such folder.
  explicit SpecFolder(const std::filesystem::path& folder);

  /// Throws: Error{invalid_argument} for a path that leaves the folder, also by a link;
  /// Error{not_found}; Error{unreadable} for what is longer or no regular file.
  std::string read(const std::string& path, std::size_t most_bytes) const;
  /// False for what is no regular file, and for one that may not be read.
  bool has(const std::string& path) const;

 private:
  /// -1 for a file that is not there.
  FileDescriptor find(const std::string& path) const;
  bool is_left_by(const std::string& path, const FileDescriptor& found) const;

  std::filesystem::path folder_;
  FileDescriptor descriptor_;
};

}  // namespace swr::kernel_spec
