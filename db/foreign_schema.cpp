// SPDX-License-Identifier: MIT
#include "db/foreign_schema.h"

#include "core/printable.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>

#include <map>
#include <string>
#include <utility>

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

}  // namespace

void require_plain_schema(const SQLite::Database& database, const std::filesystem::path& path) {
  require_none(database, kVirtualTables, path);
  require_none(database, kComputedValues, path);
}

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

}  // namespace swr
