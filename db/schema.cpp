// SPDX-License-Identifier: MIT
#include "db/schema.h"

#include "core/embedded_file.h"
#include "db/kernels.h"
#include <swr/error.h>

#include <SQLiteCpp/Transaction.h>

#include <string>

namespace swr {

std::span<const EmbeddedFile> schema_files();

namespace {

int pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(std::string("PRAGMA ") + name).getInt();
}

void set_pragma(SQLite::Database& database, const char* name, int value) {
  database.exec(std::string("PRAGMA ") + name + " = " + std::to_string(value));
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

void require_version(int version, const std::filesystem::path& path) {
  const std::string of_file =
      "database " + path.string() + " has schema " + std::to_string(version) + ", this swr ";
  if (version > kSchemaVersion) {
    throw Error(ErrorCode::schema_too_new,
                of_file + "knows " + std::to_string(kSchemaVersion) +
                    "; use the newer swr that wrote it, or another file");
  }
  if (version < kSchemaVersion) {
    throw Error(ErrorCode::unreadable,
                of_file + "needs " + std::to_string(kSchemaVersion) +
                    "; scripts/convert_database of swr's sources writes it anew, with all rows: "
                    "scripts/convert_database " +
                    path.string() + " NEW");
  }
}

}  // namespace

std::optional<Store::Content> content_of(SQLite::Database& database) {
  const int mark = pragma(database, "application_id");
  for (const auto content : {Store::Content::tuned, Store::Content::replayed}) {
    if (mark == application_id(content)) {
      return content;
    }
  }
  return std::nullopt;
}

bool has_schema(SQLite::Database& database, const std::filesystem::path& path,
                std::optional<Store::Content> content) {
  const auto held = content_of(database);
  const int version = pragma(database, "user_version");
  if (!held && pragma(database, "application_id") == 0 && version == 0 &&
      database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0) {
    return false;
  }
  if (!held || version < 1) {
    throw Error(
        ErrorCode::unreadable,
        path.string() + " is a database of another program; choose another file for swr's results");
  }
  if (content && held != content) {
    reject_content(path, *held);
  }
  require_version(version, path);
  return true;
}

void create_schema(SQLite::Database& database, const std::filesystem::path& path,
                   Store::Content content) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  // Another process may have done it while this one waited for the lock.
  if (has_schema(database, path, content)) {
    return;
  }
  database.exec(std::string(schema_files().front().text));
  write_operation_views(database);
  set_pragma(database, "application_id", application_id(content));
  set_pragma(database, "user_version", kSchemaVersion);
  transaction.commit();
}

}  // namespace swr
