// SPDX-License-Identifier: MIT
// Kernels of users in a database: what it keeps of each, so that every process can read their rows.
// And views for people who write SQL: for each operation one with a column for each of its fields
// and axes.
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

/// The name of the operation and "_results".
std::string view_name(const Operation& operation);

/// The view as SQL: fields, axes, then the columns of all_results. An axis that the variant's
/// family lacks is NULL; one that came later has its default in rows from before.
std::string view_sql(const Operation& operation);

/// Whether the view of every operation is there and as view_sql() says; of kernels of users those
/// that the file has.
bool has_operation_views(SQLite::Database& database);

/// Writes those that are missing or differ. Requires: a transaction.
void write_operation_views(SQLite::Database& database);
void write_operation_view(SQLite::Database& database, const Operation& operation);

}  // namespace swr
