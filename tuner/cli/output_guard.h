// SPDX-License-Identifier: MIT
// What no output of a command may replace: its database, what it reads, and anybody's database.
#pragma once

#include "tuner/cli/commands.h"

#include <filesystem>

namespace swr::cli {

/// The file that is written when `path` is: links are followed, whether or not their target exists.
std::filesystem::path link_target(const std::filesystem::path& path);

/// True for what is there and is no regular file, such as a pipe or a terminal: it is written to
/// and never replaced.
bool is_special(const std::filesystem::path& path);

/// Refuses a file whose replacing loses data: the command's database and SQLite's files beside it,
/// an input of the command, by any name or link, and every file that is an SQLite database.
/// Throws: Error{invalid_argument}.
void require_replaceable(const Session& session, const std::filesystem::path& path);

/// Refuses a directory that is replaced as a whole and holds the database or an input.
/// Throws: Error{invalid_argument}.
void require_replaceable_directory(const Session& session, const std::filesystem::path& directory);

/// Checks everything that the command line names for writing, before any work: each output by
/// require_replaceable(), that no two are one file, and that no database has the name of one of
/// the files that SQLite keeps beside another. Throws: Error{invalid_argument}.
void check_outputs(const Session& session);

}  // namespace swr::cli
