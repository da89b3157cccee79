// SPDX-License-Identifier: MIT
#include "db/connection.h"

#include "db/companion_files.h"
#include "db/database_error.h"
#include "db/foreign_schema.h"
#include "db/kernels.h"
#include "db/operation_views.h"
#include "db/row_digests.h"
#include "db/schema.h"
#include <swr/error.h>

#include <SQLiteCpp/Transaction.h>

#include <cstdint>
#include <fcntl.h>
#include <sqlite3.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// Whether this process may use the path, by its effective user.
bool may(const fs::path& path, int access) {
  return faccessat(AT_FDCWD, path.c_str(), access, AT_EACCESS) == 0;
}

void require_writable_directory(const fs::path& directory) {
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (failure || !may(directory, W_OK | X_OK)) {
    throw Error(ErrorCode::not_writable,
                "directory " + directory.string() +
                    " cannot be written, so the database cannot be kept there; choose another "
                    "place or change its permissions");
  }
}

void require_readable_file(const fs::path& path) {
  if (fs::is_directory(path)) {
    throw Error(ErrorCode::unreadable, path.string() + " is a directory; name a database file");
  }
  // Opening a pipe or a device could block for ever.
  if (!fs::is_regular_file(path) || !may(path, R_OK)) {
    throw Error(ErrorCode::unreadable,
                "database " + path.string() + " may not be read; change its permissions");
  }
}

/// What the file system says, before SQLite touches anything.
void check_file(const fs::path& path, Store::Mode mode) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  const bool exists = fs::exists(status);
  if (failure && status.type() != fs::file_type::not_found) {
    throw Error(ErrorCode::unreadable, "database " + path.string() + " cannot be reached (" +
                                           failure.message() + "); check the path");
  }
  if (!exists && mode == Store::Mode::read_only) {
    throw Error(ErrorCode::not_found,
                "database " + path.string() +
                    " does not exist; tune first, or name the file that holds the results");
  }
  if (exists) {
    require_readable_file(path);
  }
  if (mode == Store::Mode::read_write) {
    require_writable_directory(path.parent_path());
    if (exists && !may(path, W_OK)) {
      throw Error(ErrorCode::not_writable,
                  "database " + path.string() + " is write-protected; change its permissions");
    }
  }
}

/// The path as a URI that promises SQLite that nobody changes the file.
std::string immutable_uri(const fs::path& path) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    switch (c) {
      case '%':
        uri += "%25";
        break;
      case '?':
        uri += "%3f";
        break;
      case '#':
        uri += "%23";
        break;
      default:
        uri += c;
    }
  }
  return uri + "?immutable=1";
}

bool has_write_ahead_log(const fs::path& path) {
  std::error_code failure;
  const auto bytes = fs::file_size(path.string() + "-wal", failure);
  return !failure && bytes > 0;
}

/// The first read is what fails when a connection cannot work.
SQLite::Database open_and_read(const std::string& name, int flags,
                               std::chrono::milliseconds timeout) {
  // A connection serves one thread at a time: SQLite's own locks would cost half the reading time.
  SQLite::Database database(name, flags | SQLite::OPEN_NOMUTEX, static_cast<int>(timeout.count()),
                            careful_file_system());
  database.execAndGet("PRAGMA application_id");
  return database;
}

/// SQLite cannot open a WAL database where it may not create its shared-memory file. A file that
/// was closed cleanly has nothing outside itself, so it can be read as immutable.
SQLite::Database open_read_only(const fs::path& path, std::chrono::milliseconds timeout) {
  try {
    return open_and_read(path.string(), SQLite::OPEN_READONLY, timeout);
  } catch (const SQLite::Exception&) {
    if (may(path.parent_path(), W_OK)) {
      throw;
    }
  }
  if (has_write_ahead_log(path)) {
    throw Error(ErrorCode::unreadable,
                "database " + path.string() +
                    " was not closed cleanly and its directory is read-only; copy it together "
                    "with its -wal file to a writable directory");
  }
  return open_and_read(immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI, timeout);
}

void configure(SQLite::Database& database, int option, int value) {
  if (sqlite3_db_config(database.getHandle(), option, value, nullptr) != SQLITE_OK) {
    throw SQLite::Exception(database.getHandle());
  }
}

/// The file may come from anywhere. What swr asks is of tables; a view in the place of one could
/// compute for ever, and a trigger change what is stored.
void distrust(SQLite::Database& database) {
  constexpr int kMostBytesOfACell = 64 << 20;
  configure(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0);
  configure(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0);
  configure(database, SQLITE_DBCONFIG_DEFENSIVE, 1);
  sqlite3_limit(database.getHandle(), SQLITE_LIMIT_LENGTH, kMostBytesOfACell);
  add_digest_functions(database);
}

void set_up(SQLite::Database& database) {
  distrust(database);
  database.exec("PRAGMA foreign_keys = ON");
  // The file may come from anywhere: its views and triggers get no side effects.
  database.exec("PRAGMA trusted_schema = OFF");
}

/// Reads the marks as of one moment: another process may be creating the schema meanwhile. Of a
/// file that has one, nothing may be in it that computes.
bool has_schema_now(SQLite::Database& database, const fs::path& path,
                    std::optional<Store::Content> content) {
  const SQLite::Transaction snapshot(database);
  const bool has = has_schema(database, path, content);
  require_plain_schema(database, path);
  return has;
}

SQLite::Database open_for_reading(const fs::path& path, std::optional<Store::Content> content,
                                  std::chrono::milliseconds timeout) {
  SQLite::Database database = open_read_only(path, timeout);
  set_up(database);
  if (!has_schema_now(database, path, content)) {
    throw Error(ErrorCode::unreadable,
                "database " + path.string() + " is empty; tune first, or name another file");
  }
  restore_kernels(database, path);
  return database;
}

/// The newest row has the largest id; after the last there is, SQLite would choose at random.
void require_room_for_newer_rows(SQLite::Database& database, const fs::path& path) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 53;
  for (const std::string table : {"run", "result", "decision"}) {
    const auto id = database.execAndGet("SELECT coalesce(max(id), 0) FROM " + table).getInt64();
    if (id > kLargest) {
      throw Error(ErrorCode::unreadable, path.string() + ", table " + table +
                                             ": the row with the id " + std::to_string(id) +
                                             " would stay the newest for ever; `swr-tune db merge "
                                             "--out NEW --from " +
                                             path.string() + "` numbers rows anew");
    }
  }
}

SQLite::Database open_for_writing(const fs::path& path, Store::Content content,
                                  std::chrono::milliseconds timeout) {
  SQLite::Database database =
      open_and_read(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, timeout);
  set_up(database);
  if (!has_schema_now(database, path, content)) {
    create_schema(database, path, content);
  }
  require_expected_schema(database, open_in_memory(), path);
  restore_kernels(database, path);
  if (!has_operation_views(database)) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    write_operation_views(database);
    transaction.commit();
  }
  require_room_for_newer_rows(database, path);
  // Only now: the journal mode is stored in the file, and a foreign file must stay untouched.
  database.exec("PRAGMA journal_mode = WAL");
  // A commit survives the death of the process; the newest may be lost when the machine dies.
  database.exec("PRAGMA synchronous = NORMAL");
  return database;
}

/// Some steps, such as the switch to a write-ahead log, report a lock at once instead of waiting;
/// opening is harmless to repeat.
template <typename Open>
SQLite::Database until_unlocked(std::chrono::milliseconds timeout, Open&& open) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    try {
      return open();
    } catch (const SQLite::Exception& failure) {
      if (failure.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() >= deadline) {
        throw;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

SQLite::Database open_database(const fs::path& path, Store::Mode mode,
                               std::optional<Store::Content> content,
                               std::chrono::milliseconds busy_timeout) {
  if (path.empty()) {
    throw Error(ErrorCode::invalid_argument, "the database needs a file name");
  }
  // Absolute, so that SQLite's special names (":memory:", "file:...") are plain files here.
  const fs::path absolute = fs::absolute(path);
  check_file(absolute, mode);
  return with_database_errors(path, [&] {
    return until_unlocked(busy_timeout, [&] {
      return mode == Store::Mode::read_only
                 ? open_for_reading(absolute, content, busy_timeout)
                 : open_for_writing(absolute, content.value(), busy_timeout);
    });
  });
}

SQLite::Database open_exclusively(const fs::path& path, Store::Content content,
                                  std::chrono::milliseconds busy_timeout) {
  // Creates the file; SQLite excludes others only from the first access on.
  open_database(path, Store::Mode::read_write, content, busy_timeout);
  return with_database_errors(path, [&] {
    return until_unlocked(busy_timeout, [&] {
      SQLite::Database database(fs::absolute(path).string(),
                                SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                                static_cast<int>(busy_timeout.count()), careful_file_system());
      database.exec("PRAGMA locking_mode = EXCLUSIVE");
      database.execAndGet("PRAGMA application_id");
      distrust(database);
      database.exec("PRAGMA trusted_schema = OFF");
      return database;
    });
  });
}

SQLite::Database open_in_memory() {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  create_schema(database, "in memory", Store::Content::tuned);
  set_up(database);
  return database;
}

}  // namespace swr
