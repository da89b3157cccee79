// SPDX-License-Identifier: MIT
// The schema of a database file and the marks by which it is told (db/schema.sql).
#pragma once

#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <optional>

namespace swr {

/// PRAGMA user_version of files with db/schema.sql.
inline constexpr int kSchemaVersion = 16;

/// SQLite's mark for the kind of a database file: "SWRD" for results of GPUs and of the model,
/// "SWRR" for those that recordings answered.
constexpr int application_id(Store::Content content) {
  return content == Store::Content::tuned ? 0x53575244 : 0x53575252;
}

/// What the file holds by its mark; empty for a file that is not swr's.
std::optional<Store::Content> content_of(SQLite::Database& database);

/// False for an empty file. `path` is for messages. Requires: a transaction, since it reads several
/// marks that another process may be writing.
/// Throws: Error{unreadable} for a database that is not swr's, of other content (no `content` takes
/// either), or of an older swr. Error{schema_too_new}.
bool has_schema(SQLite::Database& database, const std::filesystem::path& path,
                std::optional<Store::Content> content);

/// Gives an empty file the schema in one transaction. Safe when several processes do it at once.
void create_schema(SQLite::Database& database, const std::filesystem::path& path,
                   Store::Content content);

}  // namespace swr
