// SPDX-License-Identifier: MIT
// Reads files that others may have put anything into the place of.
#pragma once

#include "core/file_descriptor.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <sys/stat.h>

namespace swr {

/// Whether a path's last name may be a symbolic link to the file that is meant.
enum class Links { followed, refused };

/// A regular file that is open for reading. Opening waits for nobody: others, such as pipes, could
/// keep their reader for ever, and are refused.
class RegularFile {
 public:
  /// Throws: Error{not_found} when it cannot be opened, as a link that is refused;
  /// Error{unreadable} when it is no regular file.
  explicit RegularFile(std::filesystem::path path, Links links = Links::followed);

  /// As of the opening.
  const struct stat& status() const { return status_; }
  /// What is there from `offset` on, at most `most_bytes`; shorter only at the file's end.
  /// Throws: Error{unreadable}.
  std::string read(std::size_t offset, std::size_t most_bytes) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  struct stat status_ {};
};

/// The whole of a RegularFile. Throws: also Error{unreadable} when it is longer than `most_bytes`.
std::string read_regular_file(const std::filesystem::path& path, std::size_t most_bytes,
                              Links links = Links::followed);

}  // namespace swr
