// SPDX-License-Identifier: MIT
// The folder of a spec: the only place from which files that the spec names are read.
#pragma once

#include "core/files.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

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

/// Of a source or a header, without a byte order mark, which NVRTC takes for a word.
/// Throws: Error{unreadable} for a byte of 0, where NVRTC would stop reading.
std::string source_text(const std::string& path, const std::string& text);

// The headers that a source may include from its spec's folder.

/// Texts by path below the spec's folder: what `text`, the file `file`, names in its directives,
/// and what these name (core/header_names.h), comments and dead branches included. Names that lead
/// to no file of the folder are left to the compiler, which has these headers and CUDA's alone.
/// Throws: Error{invalid_argument} for too many; what SpecFolder::read() throws.
std::map<std::string, std::string> headers_below(const SpecFolder& folder, const std::string& file,
                                                 const std::string& text,
                                                 const std::vector<std::string>& include_folders);

}  // namespace swr::kernel_spec
