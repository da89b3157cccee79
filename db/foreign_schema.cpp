// SPDX-License-Identifier: MIT
#include "db/foreign_schema.h"

#include "core/printable.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>

namespace swr {
namespace {

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

}  // namespace

void require_plain_schema(const SQLite::Database& database, const std::filesystem::path& path) {
  require_none(database, kVirtualTables, path);
  require_none(database, kComputedValues, path);
}

}  // namespace swr
