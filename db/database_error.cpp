// SPDX-License-Identifier: MIT
#include "db/database_error.h"

#include "db/companion_files.h"

#include <sqlite3.h>
#include <string>

namespace swr {
namespace {

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

Error not_writable(const std::string& file, const std::string& cause) {
  return {ErrorCode::not_writable, "database " + file + " cannot be written" + cause +
                                       "; check its permissions and the space left"};
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

}  // namespace swr
