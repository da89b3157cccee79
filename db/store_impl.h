// SPDX-License-Identifier: MIT
// What a Store is: store.cpp writes to it, query.cpp reads.
#pragma once

#include "db/connection.h"
#include "db/table.h"
#include <swr/store.h>

#include <SQLiteCpp/Transaction.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace swr {

/// Begins `kernel` of references that are another library's calls.
inline constexpr std::string_view kPeerPrefix = "against ";

struct Store::Impl {
  std::filesystem::path path;
  Mode mode;
  SQLite::Database database;

  /// Runs `action` in a transaction of its own.
  template <typename Write>
  long long write(Write&& action) {
    if (mode == Mode::read_only) {
      throw Error(ErrorCode::not_writable, "database " + path.string() +
                                               " was opened for reading; open it read_write to "
                                               "record results");
    }
    return with_database_errors(path, [&] {
      SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
      const long long id = action();
      seal_rows(database);
      transaction.commit();
      return id;
    });
  }

  /// Adds what was counted after the rest of a row, whose column `awaited` is NULL until then.
  void add_later(long long result_id, const Cells& cells, const char* awaited, const char* what) {
    write([&] {
      const Cells which{{"id", result_id}, {awaited, std::monostate{}}};
      Cells changed = cells;
      changed.push_back({"digest", std::monostate{}});
      if (update_row(database, "result", changed, which) == 0) {
        throw Error(ErrorCode::invalid_argument,
                    "database " + path.string() + " has no result " + std::to_string(result_id) +
                        " that waits for " + what + "; record() returns the id of a row");
      }
      return result_id;
    });
  }
};

}  // namespace swr
