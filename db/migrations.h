// SPDX-License-Identifier: MIT
// The schema as numbered steps: a new file runs all of them, an older one those it lacks.
#pragma once

#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace swr {

/// SQLite's mark for the kind of a database file: "SWRD" for results of GPUs and of the model,
/// "SWRR" for those that recordings answered.
constexpr int application_id(Store::Content content) {
  return content == Store::Content::tuned ? 0x53575244 : 0x53575252;
}

/// What a file of this mark holds; empty for a file that is not swr's.
std::optional<Store::Content> content_of(int mark);

struct Migration {
  /// Schema version after this step (PRAGMA user_version); consecutive from 1.
  int version = 0;
  std::string_view sql;
  /// What SQL cannot do, behind it in the same transaction; `path` is for messages.
  void (*carry_over)(SQLite::Database& database, const std::filesystem::path& path) = nullptr;
};

/// The steps in db/schema, in order; a file's number is its version.
std::vector<Migration> built_in_migrations();

enum class SchemaState { current, older, empty };

/// What the file needs. `path` is for messages. Requires: a transaction, since it reads several
/// marks that another process may be writing.
/// Throws: Error{unreadable} for a database that is not swr's or of other content; no `content`
/// takes either. Error{schema_too_new}.
SchemaState schema_state(SQLite::Database& database, std::span<const Migration> migrations,
                         const std::filesystem::path& path, std::optional<Store::Content> content);

/// Applies the missing steps in one transaction: afterwards the file has the newest schema, or is
/// as it was. Safe when several processes do it at once.
void migrate(SQLite::Database& database, std::span<const Migration> migrations,
             const std::filesystem::path& path, Store::Content content);

}  // namespace swr
