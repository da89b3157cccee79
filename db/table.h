// SPDX-License-Identifier: MIT
// Rows as named values, and the SQL that puts them into a table. Columns are names of swr's own,
// values are always bound.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace swr {

/// A value for a column; monostate is NULL.
using Cell = std::variant<std::monostate, long long, double, std::string>;

struct NamedCell {
  std::string column;
  Cell value;
};
using Cells = std::vector<NamedCell>;

/// Inserts a row and returns its id.
long long insert_row(SQLite::Database& database, std::string_view table, const Cells& cells);

/// True when the row has these cells.
bool has_cells(SQLite::Database& database, std::string_view table, long long id,
               const Cells& cells);

/// The id of the row with exactly these values; empty when there is none.
std::optional<long long> find_row(SQLite::Database& database, std::string_view table,
                                  const Cells& cells);

/// The same, inserted when missing.
long long find_or_insert_row(SQLite::Database& database, std::string_view table,
                             const Cells& cells);

/// Changes the rows whose columns have the values of `which`; returns their number.
int update_row(SQLite::Database& database, std::string_view table, const Cells& cells,
               const Cells& which);

/// A value of the current row, by SQLiteCpp's names. Valid until the next step.
class CellView {
 public:
  explicit CellView(sqlite3_value* value) : value_(value) {}

  bool isInteger() const { return type() == SQLITE_INTEGER; }
  bool isFloat() const { return type() == SQLITE_FLOAT; }
  bool isText() const { return type() == SQLITE_TEXT; }
  bool isNull() const { return type() == SQLITE_NULL; }
  long long getInt64() const { return sqlite3_value_int64(value_); }
  double getDouble() const { return sqlite3_value_double(value_); }
  /// Empty for NULL. Valid until the next step.
  std::string_view getString() const;

 private:
  int type() const { return sqlite3_value_type(value_); }

  sqlite3_value* value_;
};

/// Walks the rows of a large table: several times faster than SQLiteCpp's columns, which count
/// references.
class TableRows {
 public:
  /// Throws, as the following: SQLite::Exception.
  TableRows(const SQLite::Database& database, const std::string& sql);
  ~TableRows();
  TableRows(const TableRows&) = delete;
  TableRows& operator=(const TableRows&) = delete;

  void bind(const char* name, long long value);
  void bind(const char* name, const std::string& value);

  /// Moves to the next row; false when there is none.
  bool next();

  /// Requires: nobody else uses the connection meanwhile.
  CellView cell(int column) const { return CellView(sqlite3_column_value(statement_, column)); }

 private:
  void require(int code) const;

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

// A digest in each row of a database, by which values that changed on a disk or on the way are
// found before they decide anything. It tells damage, not intent: whoever can write to the file can
// write digests as well.

/// Teaches a connection the functions that the rest of this file uses. Once for each connection.
/// Throws, as the following: SQLite::Exception.
void add_digest_functions(SQLite::Database& database);

/// Gives the rows that have none their digests. Part of every transaction that adds or changes
/// rows; whoever changes one sets its digest to NULL.
void seal_rows(SQLite::Database& database);

/// Sets the digests of all rows to NULL, before many of them change.
void unseal_rows(SQLite::Database& database);

/// True in SQL for a row of the table as it was written, and for one that nobody vouches for. For
/// who reads the rows anyway.
std::string is_unchanged(const SQLite::Database& database, const std::string& table);

/// Throws: Error{unreadable} naming the row, which changed since it was written.
[[noreturn]] void reject_changed_row(const std::filesystem::path& path, const std::string& table,
                                     const std::string& id);

/// Looks at every row of the table, with its samples or finalists. Throws: as
/// reject_changed_row().
void require_unchanged_rows(const SQLite::Database& database, const std::filesystem::path& path,
                            const std::string& table);

/// Looks at every row of every table, and at the tables' structure: a row that is not found any
/// more has no digest to differ from. Throws: as reject_changed_row().
void require_intact_rows(const SQLite::Database& database, const std::filesystem::path& path);

}  // namespace swr
