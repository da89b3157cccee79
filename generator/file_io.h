// SPDX-License-Identifier: MIT
// Files that several processes share: whole reads, atomic writes, advisory locks.
#pragma once

#include "core/file_descriptor.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

/// The whole file; empty when it does not exist or cannot be read.
std::optional<std::vector<std::byte>> read_bytes(const std::filesystem::path& path);
std::optional<std::string> read_text(const std::filesystem::path& path);

/// Writes to a temporary file beside `path`, forces it to disk and renames it over `path`: readers
/// see the old content or the new, never a part.
/// Throws: Error{not_writable}.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> data);

/// Waits for the advisory lock on `path`, which is created when missing; held until the result is
/// destroyed. Excludes other threads and other processes. Where the file system has no locks
/// nothing is excluded, so a lock may save work but must not be what keeps data valid.
FileDescriptor lock_file(const std::filesystem::path& path);

}  // namespace swr
