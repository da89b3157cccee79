// SPDX-License-Identifier: MIT
// Kernels of users in a database: what it keeps of each, so that every process can read their rows.
#pragma once

#include "core/operation.h"

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>
#include <vector>

namespace swr {

/// Keeps the operation's spec where it is of a user and its spec is not there; with its view.
/// Requires: a transaction that is writing.
void keep_kernel(SQLite::Database& database, const Operation& operation);

/// Adds the file's kernels to those that this process knows, the newest first, as long as there is
/// room. Throws: Error{unreadable} naming the row of a spec that cannot be believed.
void restore_kernels(SQLite::Database& database, const std::filesystem::path& path);

/// The kernels of the file that this process knows.
std::vector<const Operation*> kernels_of(const SQLite::Database& database);
/// Those that it does not know.
std::vector<std::string> unknown_kernels(const SQLite::Database& database);

/// True in SQL for rows of problem and variant that this process can read, or that nobody can.
/// Requires: no other table of the query has a column `op`.
std::string is_readable_row(const SQLite::Database& database);

}  // namespace swr
