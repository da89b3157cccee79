// SPDX-License-Identifier: MIT
// What a database may contain that SQLite would run while swr reads or writes its rows.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>

namespace swr {

/// Refuses virtual tables, whose modules read what they like, and generated columns and indexes of
/// expressions, which compute whatever the file says. Tables, views and indexes of columns that
/// somebody added are left alone: views and triggers are off, and nothing asks the others.
/// Throws: Error{unreadable} naming the first; SQLite::Exception.
void require_plain_schema(const SQLite::Database& database, const std::filesystem::path& path);

/// Refuses a database to be written in which tables and indexes of swr's are not, by their text,
/// those of `expected`, or have further indexes with a condition: checks, defaults and conditions
/// are computed with every row that is written. Whatever else was added is left alone.
/// Throws: Error{not_writable} naming the first; SQLite::Exception.
void require_expected_schema(const SQLite::Database& database, const SQLite::Database& expected,
                             const std::filesystem::path& path);

}  // namespace swr
