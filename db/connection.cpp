// SPDX-License-Identifier: MIT
#include "db/connection.h"

#include "core/files.h"
#include "core/of_thread.h"
#include "core/printable.h"
#include "db/kernels.h"
#include "db/schema.h"
#include "db/table.h"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <fcntl.h>
#include <map>
#include <sqlite3.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

namespace fs = std::filesystem;

// The files that SQLite keeps beside a database, and believes: whoever can put one there could have
// it wait for ever, write through a link, change rows or delete a file. So each is looked at when
// SQLite opens it, however long the connection has been open.

std::string& refusal() {
  struct Refusal;
  return of_thread<std::string, Refusal>();
}

constexpr std::string_view kJournal = "-journal";
constexpr std::string_view kLog = "-wal";

/// Whoever may add a file to the folder could replace the database as well, unless it is sticky.
bool is_of_a_stranger(const struct stat& companion, const fs::path& database) {
  struct stat folder {};
  struct stat owner {};
  return stat(database.parent_path().c_str(), &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 &&
         companion.st_uid != geteuid() && companion.st_uid != 0 &&
         (stat(database.c_str(), &owner) != 0 || companion.st_uid != owner.st_uid);
}

/// What is wrong with the file, or nothing.
std::string_view fault_of(const fs::path& companion, const fs::path& database) {
  struct stat status {};
  if (lstat(companion.c_str(), &status) != 0) {
    return "";
  }
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
    return "is a link or no regular file";
  }
  return is_of_a_stranger(status, database) ? "is another user's" : "";
}

/// Bytes 18 and 19 of a database's header are 2 with a write-ahead log. SQLite alone may read them:
/// its locks of a file end when a process closes any descriptor of it.
bool is_of_write_ahead_mode(sqlite3_file& database) {
  std::array<char, 2> versions{};
  return database.pMethods->xRead(&database, versions.data(), versions.size(), 18) == SQLITE_OK &&
         (versions[0] == 2 || versions[1] == 2);
}

/// Requires: the name that SQLite gave when it opened the journal.
std::string_view fault_of_journal(const char* journal) {
  constexpr std::string_view kMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::error_code absent;
  const std::size_t bytes = fs::file_size(journal, absent);
  if (absent || bytes == 0) {
    return "";
  }
  if (is_of_write_ahead_mode(*sqlite3_database_file_object(journal))) {
    return "is not of this database, which has a write-ahead log";
  }
  // A journal's end names the file that several databases share.
  const std::size_t tail = bytes - std::min(bytes, kMagic.size());
  const bool names_another = RegularFile(journal).read(tail, kMagic.size()) == kMagic;
  return names_another ? "names another file, which SQLite would delete" : "";
}

int refuse(const fs::path& file, std::string_view fault) {
  refusal() = "SQLite would use " + file.string() + ", which " + std::string(fault) +
              "; see who put it there, and remove it";
  return SQLITE_CANTOPEN;
}

fs::path without(std::string_view ending, const std::string& name) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

int check_companions(const char* name, int flags) try {
  const bool is_journal = (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0;
  const fs::path database = without(is_journal ? kJournal : kLog, name);
  if (const auto fault = fault_of(name, database); !fault.empty()) {
    return refuse(name, fault);
  }
  if (is_journal) {
    const auto fault = fault_of_journal(name);
    return fault.empty() ? SQLITE_OK : refuse(name, fault);
  }
  // SQLite opens the log's index by itself, right after the log.
  const fs::path index = database.string() + "-shm";
  const auto fault = fault_of(index, database);
  return fault.empty() ? SQLITE_OK : refuse(index, fault);
} catch (const std::exception& failure) {  // Must not pass through SQLite's C.
  refusal() = failure.what();
  return SQLITE_CANTOPEN;
}

/// Registered as long as this library is loaded, under a name that no other copy of it has.
class CarefulFileSystem {
 public:
  CarefulFileSystem() : usual_(*sqlite3_vfs_find(nullptr)), careful_(usual_) {
    name_ = "swr-" + std::to_string(reinterpret_cast<std::uintptr_t>(this));
    careful_.zName = name_.c_str();
    careful_.pNext = nullptr;
    careful_.xOpen = open;
    sqlite3_vfs_register(&careful_, 0);
  }
  ~CarefulFileSystem() { sqlite3_vfs_unregister(&careful_); }
  CarefulFileSystem(const CarefulFileSystem&) = delete;
  CarefulFileSystem& operator=(const CarefulFileSystem&) = delete;

  const char* name() const { return name_.c_str(); }

 private:
  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* given);

  sqlite3_vfs usual_;
  sqlite3_vfs careful_;
  std::string name_;
};

CarefulFileSystem& file_system() {
  static CarefulFileSystem only;
  return only;
}

int CarefulFileSystem::open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags,
                            int* given) {
  constexpr int kCompanions = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
  file->pMethods = nullptr;
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    refusal().clear();
  }
  if ((flags & SQLITE_OPEN_SUPER_JOURNAL) != 0) {
    return SQLITE_CANTOPEN;  // Of several databases; swr writes one at a time.
  }
  if ((flags & kCompanions) != 0) {
    if (const int refused = check_companions(name, flags); refused != SQLITE_OK) {
      return refused;
    }
  }
  sqlite3_vfs& usual = file_system().usual_;
  return usual.xOpen(&usual, name, file, flags, given);
}

/// The name of SQLite's usual file system (a VFS), which refuses to open a journal, a log or its
/// index that is no regular file of its own name, that a stranger put into a folder where all may
/// write, or a journal of which swr's databases have none: beside a database with a write-ahead
/// log, or one that names another file, which SQLite would delete. Safe from several threads.
const char* careful_file_system() { return file_system().name(); }

/// Why this thread was refused a companion since it last opened a database; empty when it was not.
const std::string& companion_refusal() { return refusal(); }

// What the file system and SQLite say.

/// A full disk is SQLITE_FULL, a quota or a limit of the process an input/output error.
bool is_about_writing(int extended_code) {
  switch (extended_code) {
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_DIR_FSYNC:
    case SQLITE_IOERR_TRUNCATE:
    case SQLITE_IOERR_SHMSIZE:
      return true;
    default:
      return false;
  }
}

Error not_found(const std::string& file) {
  return {
      ErrorCode::not_found,
      "database " + file + " does not exist; tune first, or name the file that holds the results"};
}

Error not_writable(const std::string& file, const std::string& cause) {
  return {ErrorCode::not_writable, "database " + file + " cannot be written" + cause +
                                       "; check its permissions and the space left"};
}

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
    throw not_found(path.string());
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

/// By the text alone: to ask SQLite for the columns of a virtual table is to call its module.
constexpr const char* kVirtualTables =
    "SELECT 'the virtual table ' || name FROM main.sqlite_master "
    "WHERE type = 'table' AND (rootpage = 0 OR sql LIKE '%virtual%') LIMIT 1";

/// Requires: no virtual table. Neither columns that are computed nor indexes of no column (-2) are
/// swr's.
constexpr const char* kComputedValues =
    "SELECT 'the generated column ' || c.name || ' of table ' || t.name "
    "FROM main.sqlite_master t, pragma_table_xinfo(t.name, 'main') c "
    "WHERE t.type = 'table' AND c.hidden <> 0 "
    "UNION ALL "
    "SELECT 'the index of expressions ' || i.name "
    "FROM main.sqlite_master i, pragma_index_xinfo(i.name, 'main') c "
    "WHERE i.type = 'index' AND c.cid = -2 LIMIT 1";

void require_none(const SQLite::Database& database, const char* query,
                  const std::filesystem::path& path) {
  SQLite::Statement row(database, query);
  if (row.executeStep()) {
    throw Error(ErrorCode::unreadable, "database " + path.string() + " has " +
                                           printable_line(row.getColumn(0).getString()) +
                                           ", which no database of swr has; do not use it unless "
                                           "you know who made it, and then drop that first");
  }
}

/// The text of each table and index by its name, without white space.
std::map<std::string, std::string> schema_of(const SQLite::Database& database) {
  std::map<std::string, std::string> texts;
  SQLite::Statement row(database,
                        "SELECT name, sql FROM main.sqlite_master "
                        "WHERE type IN ('table', 'index') AND sql IS NOT NULL");
  while (row.executeStep()) {
    std::string text = row.getColumn(1).getString();
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    texts.emplace(row.getColumn(0).getString(), std::move(text));
  }
  return texts;
}

[[noreturn]] void reject_change(const std::filesystem::path& path, const std::string& name) {
  throw Error(ErrorCode::not_writable,
              "database " + path.string() + " cannot be written: its " + printable_line(name) +
                  " is not as swr makes it, and SQLite would compute what was added there; merge "
                  "it into a new one with 'swr-tune db merge --out NEW --from " +
                  path.string() + "'");
}

/// Refuses virtual tables, whose modules read what they like, and generated columns and indexes of
/// expressions, which compute whatever the file says. Tables, views and indexes of columns that
/// somebody added are left alone: views and triggers are off, and nothing asks the others.
void require_plain_schema(const SQLite::Database& database, const std::filesystem::path& path) {
  require_none(database, kVirtualTables, path);
  require_none(database, kComputedValues, path);
}

/// Refuses a database to be written in which tables and indexes of swr's are not, by their text,
/// those of `expected`, or have further indexes with a condition: checks, defaults and conditions
/// are computed with every row that is written. Whatever else was added is left alone.
void require_expected_schema(const SQLite::Database& database, const SQLite::Database& expected,
                             const std::filesystem::path& path) {
  const auto found = schema_of(database);
  const auto own = schema_of(expected);
  for (const auto& [name, text] : own) {
    const auto same = found.find(name);
    if (same == found.end() || same->second != text) {
      reject_change(path, name);
    }
  }
  SQLite::Statement conditional(database,
                                "SELECT i.name FROM main.sqlite_master t, "
                                "pragma_index_list(t.name, 'main') i "
                                "WHERE t.type = 'table' AND i.partial = 1");
  while (conditional.executeStep()) {
    const std::string name = conditional.getColumn(0).getString();
    if (!own.contains(name)) {
      reject_change(path, name);
    }
  }
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

Error database_error(const SQLite::Exception& failure, const std::filesystem::path& path) {
  const std::string file = path.string();
  const std::string cause = std::string(" (SQLite: ") + failure.what() + ")";
  if (const std::string& refusal = companion_refusal(); !refusal.empty()) {
    return {ErrorCode::unreadable, "database " + file + " is not opened: " + refusal};
  }
  constexpr int kPrimaryCodeMask = 0xff;
  switch (failure.getErrorCode() & kPrimaryCodeMask) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {
          ErrorCode::database_locked,
          "database " + file + " is locked by another process; wait for it to finish, or stop it"};
    case SQLITE_NOTADB:
      return {ErrorCode::unreadable,
              file + " is no SQLite database; choose another file, or move this one away"};
    case SQLITE_READONLY:
    case SQLITE_FULL:
    case SQLITE_PERM:
      return not_writable(file, cause);
    case SQLITE_IOERR:
      if (is_about_writing(failure.getExtendedErrorCode())) {
        return not_writable(file, cause);
      }
      [[fallthrough]];
    case SQLITE_CANTOPEN:
      if (std::error_code unknown; !fs::exists(path, unknown) && !unknown) {  // Removed since.
        return not_found(file);
      }
      return {ErrorCode::unreadable, "database " + file + " cannot be read" + cause +
                                         "; check its permissions and its directory's"};
    case SQLITE_CONSTRAINT:
      return {ErrorCode::invalid_argument, "database " + file + " refuses the row" + cause +
                                               "; its values break the schema's rules"};
    default:
      return {ErrorCode::unreadable, "database " + file + " is damaged" + cause +
                                         "; keep a copy, save what is left with `sqlite3 FILE "
                                         ".recover`, and name another file"};
  }
}

SQLite::Database open_database(const fs::path& path, Store::Mode mode,
                               std::optional<Store::Content> content,
                               std::chrono::milliseconds busy_timeout) {
  if (path.empty()) {
    throw Error(ErrorCode::invalid_argument, "the database needs a file name");
  }
  // Absolute, so that SQLite's special names (":memory:", "file:...") are plain files here.
  const fs::path absolute = without_links(path);
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

fs::path without_links(const fs::path& path) {
  std::error_code failure;
  const fs::path absolute = fs::absolute(path);
  const fs::path real = fs::canonical(absolute, failure);
  return failure ? absolute : real;
}

std::optional<std::string> newest_commit(const fs::path& path) try {
  constexpr std::size_t kCommit = 16;  // Before it are a counter and flags, which recovery resets.
  constexpr std::size_t kBytesOfCommit = 24;
  constexpr int kBytesOfRegion = 32 << 10;
  if (!fs::is_regular_file(path) || !has_write_ahead_log(path)) {
    return "";
  }
  const SQLite::Database database = open_read_only(path, std::chrono::milliseconds(0));
  sqlite3_file* file = nullptr;
  void volatile* index = nullptr;
  sqlite3_file_control(database.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (file == nullptr || file->pMethods == nullptr || file->pMethods->iVersion < 2 ||
      file->pMethods->xShmMap == nullptr ||
      file->pMethods->xShmMap(file, 0, kBytesOfRegion, 0, &index) != SQLITE_OK ||
      index == nullptr) {
    return std::nullopt;
  }
  // What somebody else half wrote meanwhile is no commit's.
  std::string commit(kBytesOfCommit, '\0');
  std::copy_n(static_cast<const char volatile*>(index) + kCommit, commit.size(), commit.begin());
  return commit;
} catch (const std::exception&) {
  return std::nullopt;
}

SQLite::Database open_in_memory() {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  create_schema(database, "in memory", Store::Content::tuned);
  set_up(database);
  return database;
}

}  // namespace swr
