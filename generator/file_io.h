// SPDX-License-Identifier: MIT
// Files that several processes share: whole reads, atomic writes, advisory locks.
#pragma once

#include "core/file_descriptor.h"
#include "core/regular_file.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace swr {

/// The whole of a regular file; empty when it does not exist, cannot be read or is beyond 1 GiB.
std::optional<std::string> read_text(const std::filesystem::path& path,
                                     Links links = Links::followed);

/// Writes to a temporary file beside `path`, forces it to disk and renames it over `path`: readers
/// see the old content or the new, never a part.
/// Throws: Error{not_writable}.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> data);

/// Waits for the advisory lock on `path`, which is created when missing; held until the result is
/// destroyed. Excludes other threads and other processes for at most `longest`: whoever holds it
/// may have been stopped. Where the file system has no locks nothing is excluded either, so a lock
/// may save work but must not be what keeps data valid.
FileDescriptor lock_file(const std::filesystem::path& path, std::chrono::milliseconds longest);

}  // namespace swr
