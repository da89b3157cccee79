// SPDX-License-Identifier: MIT
#include "db/database_error.h"

#include <sqlite3.h>
#include <string>

namespace swr {

Error database_error(const SQLite::Exception& failure, const std::filesystem::path& path) {
  const std::string file = path.string();
  const std::string cause = std::string(" (SQLite: ") + failure.what() + ")";
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
      return {ErrorCode::not_writable, "database " + file + " cannot be written" + cause +
                                           "; check its permissions and the space left"};
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
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
