// SPDX-License-Identifier: MIT
// Reads files that others may have put anything into the place of.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace swr {

/// Whether a path's last name may be a symbolic link to the file that is meant.
enum class Links { followed, refused };

/// The whole of a regular file; others, such as pipes, could keep their reader waiting for ever.
/// Throws: Error{not_found} when it cannot be opened, as a link that is refused; Error{unreadable}
/// when it is no regular file, longer than `most_bytes` or cannot be read.
std::string read_regular_file(const std::filesystem::path& path, std::size_t most_bytes,
                              Links links = Links::followed);

}  // namespace swr
