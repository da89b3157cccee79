// SPDX-License-Identifier: MIT
// Several recorded spaces in one compact text file, and the reader of either form: this one and the
// JSON of a single space (core/recorded_space.h). docs/recorded_space.md describes both.
#pragma once

#include "core/recorded_space.h"

#include <filesystem>
#include <iosfwd>
#include <span>
#include <string_view>
#include <vector>

namespace swr {

/// The extension of such files.
inline constexpr std::string_view kRecordedSpacesExtension = ".spaces";

/// Writes the spaces in their order, with times in whole nanoseconds.
/// Requires: in each space at least one result, and all of one provenance.
void write_recorded_spaces(std::ostream& out, std::span<const RecordedSpace> spaces);

/// Reads the text of a compact file. Throws: Error{invalid_argument} naming the line and what is
/// wrong with it.
std::vector<RecordedSpace> parse_recorded_spaces(std::string_view text);

/// Reads a file of either form as untrusted input; the JSON form holds one space.
/// Throws: Error{not_found}; Error{unreadable} naming the file, the line and what is wrong with it.
std::vector<RecordedSpace> read_recorded_spaces(const std::filesystem::path& path);

}  // namespace swr
