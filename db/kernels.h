// SPDX-License-Identifier: MIT
// Kernels of users in a database: what it keeps of each, so that every process can read their rows.
#pragma once

#include "core/operation.h"

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>
#include <vector>

namespace swr {

/// The first schema that holds specs.
inline constexpr int kFirstSchemaWithKernels = 15;

/// Names the operations in the file that this process does not know, which until then were told
/// from damage by their names: a word and eight letters of a digest. Requires: a transaction.
void name_older_kernels(SQLite::Database& database, const std::filesystem::path& path);

/// Keeps the operation's spec where it is of a user and its spec is not there; with its view.
/// Requires: a transaction that is writing.
void keep_kernel(SQLite::Database& database, const Operation& operation);

/// Adds the file's kernels to those that this process knows, the newest first, as long as there is
/// room. Nothing for a file of an older schema. Throws: Error{unreadable} naming the row of a spec
/// that cannot be believed.
void restore_kernels(SQLite::Database& database, const std::filesystem::path& path);

/// The kernels of the file that this process knows; none for a file of an older schema.
std::vector<const Operation*> kernels_of(const SQLite::Database& database);
/// Those that it does not know.
std::vector<std::string> unknown_kernels(const SQLite::Database& database);

/// True in SQL for rows of problem and variant that this process can read, or that nobody can.
/// Requires: no other table of the query has a column `op`.
std::string is_readable_row(const SQLite::Database& database);

}  // namespace swr
