// SPDX-License-Identifier: MIT
// Rows as named values, and the SQL that puts them into a table. Columns are names of swr's own,
// values are always bound.
#pragma once

#include <SQLiteCpp/Database.h>

#include <optional>
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

/// The id of the row with exactly these values; empty when there is none.
/// True when the row has these cells.
bool has_cells(SQLite::Database& database, std::string_view table, long long id,
               const Cells& cells);

std::optional<long long> find_row(SQLite::Database& database, std::string_view table,
                                  const Cells& cells);

/// The same, inserted when missing.
long long find_or_insert_row(SQLite::Database& database, std::string_view table,
                             const Cells& cells);

/// Changes the rows whose columns have the values of `which`; returns their number.
int update_row(SQLite::Database& database, std::string_view table, const Cells& cells,
               const Cells& which);

}  // namespace swr
