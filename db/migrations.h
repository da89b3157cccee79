// SPDX-License-Identifier: MIT
// The schema as numbered steps: a new file runs all of them, an older one those it lacks.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace swr {

/// "SWRD", SQLite's mark for the kind of a database file.
inline constexpr int kApplicationId = 0x53575244;

struct Migration {
  /// Schema version after this step (PRAGMA user_version); consecutive from 1.
  int version = 0;
  std::string_view sql;
};

/// The steps in db/schema, in order; a file's number is its version.
std::vector<Migration> built_in_migrations();

enum class SchemaState { current, older, empty };

/// What the file needs. `path` is for messages. Requires: a transaction, since it reads several
/// marks that another process may be writing.
/// Throws: Error{unreadable} for a database that is not swr's; Error{schema_too_new}.
SchemaState schema_state(SQLite::Database& database, std::span<const Migration> migrations,
                         const std::filesystem::path& path);

/// Applies the missing steps in one transaction: afterwards the file has the newest schema, or is
/// as it was. Safe when several processes do it at once.
void migrate(SQLite::Database& database, std::span<const Migration> migrations,
             const std::filesystem::path& path);

}  // namespace swr
