// SPDX-License-Identifier: MIT
#include "db/companion_files.h"

#include "core/files.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <sqlite3.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

thread_local std::string refusal;

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

/// Bytes 18 and 19 of a database's header are 2 with a write-ahead log.
bool is_of_write_ahead_mode(const fs::path& database) {
  constexpr std::size_t kVersions = 18;
  const std::string head = RegularFile(database).read(0, kVersions + 2);
  return head.size() == kVersions + 2 && (head[kVersions] == 2 || head[kVersions + 1] == 2);
}

std::string_view fault_of_journal(const fs::path& journal, const fs::path& database) {
  constexpr std::string_view kMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::error_code absent;
  const std::size_t bytes = fs::file_size(journal, absent);
  if (absent || bytes == 0) {
    return "";
  }
  if (is_of_write_ahead_mode(database)) {
    return "is not of this database, which has a write-ahead log";
  }
  // A journal's end names the file that several databases share.
  const std::size_t tail = bytes - std::min(bytes, kMagic.size());
  const bool names_another = RegularFile(journal).read(tail, kMagic.size()) == kMagic;
  return names_another ? "names another file, which SQLite would delete" : "";
}

int refuse(const fs::path& file, std::string_view fault) {
  refusal = "SQLite would use " + file.string() + ", which " + std::string(fault) +
            "; see who put it there, and remove it";
  return SQLITE_CANTOPEN;
}

fs::path without(std::string_view ending, const std::string& name) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

int check_companions(const std::string& name, int flags) try {
  const bool is_journal = (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0;
  const fs::path database = without(is_journal ? kJournal : kLog, name);
  if (const auto fault = fault_of(name, database); !fault.empty()) {
    return refuse(name, fault);
  }
  if (is_journal) {
    const auto fault = fault_of_journal(name, database);
    return fault.empty() ? SQLITE_OK : refuse(name, fault);
  }
  // SQLite opens the log's index by itself, right after the log.
  const fs::path index = database.string() + "-shm";
  const auto fault = fault_of(index, database);
  return fault.empty() ? SQLITE_OK : refuse(index, fault);
} catch (const std::exception& failure) {  // Must not pass through SQLite's C.
  refusal = failure.what();
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
    refusal.clear();
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

}  // namespace

const char* careful_file_system() { return file_system().name(); }

const std::string& companion_refusal() { return refusal; }

}  // namespace swr
