// SPDX-License-Identifier: MIT
#include "db/migrations.h"

#include "core/embedded_file.h"
#include "db/kernels.h"
#include "db/old_values.h"
#include "db/operation_views.h"
#include "db/row_digests.h"
#include <swr/error.h>

#include <SQLiteCpp/Transaction.h>

#include <charconv>
#include <string>

namespace swr {

std::span<const EmbeddedFile> schema_files();

namespace {

/// Until then problems and variants had a column for each field and axis.
constexpr int kFirstWithoutColumns = 13;

int pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(std::string("PRAGMA ") + name).getInt();
}

void set_pragma(SQLite::Database& database, const char* name, int value) {
  database.exec(std::string("PRAGMA ") + name + " = " + std::to_string(value));
}

bool has_tables(SQLite::Database& database) {
  return database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() > 0;
}

int version_of(const EmbeddedFile& file) {
  int version = 0;
  std::from_chars(file.path.data(), file.path.data() + file.path.size(), version);
  return version;
}

/// What SQL cannot do of a step.
auto carrying_over(int version) -> decltype(Migration::carry_over) {
  switch (version) {
    case kFirstWithoutColumns:
      return carry_old_values_over;
    case kFirstSchemaWithKernels:
      return name_older_kernels;
    default:
      return nullptr;
  }
}

[[noreturn]] void reject_content(const std::filesystem::path& path, Store::Content held) {
  const bool replayed = held == Store::Content::replayed;
  throw Error(ErrorCode::unreadable,
              "database " + path.string() +
                  (replayed ? " holds results that recordings answered, not a GPU; ask with "
                              "--replayed, or name another file"
                            : " holds results of GPUs or of the model, and replayed ones are kept "
                              "apart; name another file"));
}

}  // namespace

std::optional<Store::Content> content_of(int mark) {
  for (const auto content : {Store::Content::tuned, Store::Content::replayed}) {
    if (mark == application_id(content)) {
      return content;
    }
  }
  return std::nullopt;
}

std::vector<Migration> built_in_migrations() {
  std::vector<Migration> migrations;
  for (const EmbeddedFile& file : schema_files()) {
    const int version = version_of(file);
    migrations.push_back({version, file.text, carrying_over(version)});
  }
  return migrations;
}

SchemaState schema_state(SQLite::Database& database, std::span<const Migration> migrations,
                         const std::filesystem::path& path, std::optional<Store::Content> content) {
  const int mark = pragma(database, "application_id");
  const int version = pragma(database, "user_version");
  if (mark == 0 && version == 0 && !has_tables(database)) {
    return SchemaState::empty;
  }
  const auto held = content_of(mark);
  if (!held || version < 1) {
    throw Error(
        ErrorCode::unreadable,
        path.string() + " is a database of another program; choose another file for swr's results");
  }
  if (content && held != content) {
    reject_content(path, *held);
  }
  const int newest = migrations.back().version;
  if (version > newest) {
    throw Error(ErrorCode::schema_too_new,
                "database " + path.string() + " has schema " + std::to_string(version) +
                    ", this swr knows up to " + std::to_string(newest) +
                    "; use the newer swr that wrote it, or another file");
  }
  return version == newest ? SchemaState::current : SchemaState::older;
}

void migrate(SQLite::Database& database, std::span<const Migration> migrations,
             const std::filesystem::path& path, Store::Content content) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  // Another process may have done it while this one waited for the lock.
  if (schema_state(database, migrations, path, content) == SchemaState::current) {
    return;
  }
  const int version = pragma(database, "user_version");
  // A step may change the columns that digests are of: what changed on a disk shows now or never.
  if (version >= kFirstSchemaWithKernels) {
    require_intact_rows(database, path);
  }
  for (const Migration& migration : migrations) {
    if (migration.version > version) {
      database.exec(std::string(migration.sql));
      if (migration.carry_over != nullptr) {
        migration.carry_over(database, path);
      }
    }
  }
  if (migrations.back().version >= kFirstSchemaWithViews) {
    write_operation_views(database);
  }
  if (version >= kFirstSchemaWithDigests) {
    unseal_rows(database);
  }
  set_pragma(database, "application_id", application_id(content));
  set_pragma(database, "user_version", migrations.back().version);
  transaction.commit();
}

}  // namespace swr
