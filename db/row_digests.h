// SPDX-License-Identifier: MIT
// A digest in each row of a database, by which values that changed on a disk or on the way are
// found before they decide anything. It tells damage, not intent: whoever can write to the file can
// write digests as well.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>

namespace swr {

/// Teaches a connection the functions that the rest of this file uses. Once for each connection.
/// Throws, as the following: SQLite::Exception.
void add_digest_functions(SQLite::Database& database);

/// Gives the rows that have none their digests. Part of every transaction that adds or changes
/// rows; whoever changes one sets its digest to NULL.
void seal_rows(SQLite::Database& database);

/// Sets the digests of all rows to NULL, before many of them change.
void unseal_rows(SQLite::Database& database);

/// True in SQL for a row of the table as it was written, and for one that nobody vouches for. For
/// who reads the rows anyway.
std::string is_unchanged(const SQLite::Database& database, const std::string& table);

/// Throws: Error{unreadable} naming the row, which changed since it was written.
[[noreturn]] void reject_changed_row(const std::filesystem::path& path, const std::string& table,
                                     const std::string& id);

/// Looks at every row of the table, with its samples or finalists. Throws: as
/// reject_changed_row().
void require_unchanged_rows(const SQLite::Database& database, const std::filesystem::path& path,
                            const std::string& table);

/// Looks at every row of every table, and at the tables' structure: a row that is not found any
/// more has no digest to differ from. Throws: as reject_changed_row().
void require_intact_rows(const SQLite::Database& database, const std::filesystem::path& path);

}  // namespace swr
