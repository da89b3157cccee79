// SPDX-License-Identifier: MIT
#include "db/table.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>

namespace swr {
namespace {

std::string quote(std::string_view column) { return "\"" + std::string(column) + "\""; }

/// Each column through `format`, joined.
template <typename Format>
std::string join(const Cells& cells, std::string_view separator, Format&& format) {
  std::string joined;
  for (const NamedCell& cell : cells) {
    joined += joined.empty() ? std::string_view{} : separator;
    joined += format(cell.column);
  }
  return joined;
}

/// Binds to the parameters from `index` on.
void bind_all(SQLite::Statement& statement, const Cells& cells, int index = 1) {
  for (const NamedCell& cell : cells) {
    if (const auto* integer = std::get_if<long long>(&cell.value)) {
      statement.bind(index, static_cast<std::int64_t>(*integer));
    } else if (const auto* real = std::get_if<double>(&cell.value)) {
      statement.bind(index, *real);
    } else if (const auto* text = std::get_if<std::string>(&cell.value)) {
      statement.bind(index, *text);
    }
    ++index;  // An unbound parameter is NULL.
  }
}

}  // namespace

long long insert_row(SQLite::Database& database, std::string_view table, const Cells& cells) {
  SQLite::Statement insert(database, "INSERT INTO " + quote(table) + " (" +
                                         join(cells, ", ", quote) + ") VALUES (" +
                                         join(cells, ", ", [](const auto&) { return "?"; }) + ")");
  bind_all(insert, cells);
  insert.exec();
  return database.getLastInsertRowid();
}

std::optional<long long> find_row(SQLite::Database& database, std::string_view table,
                                  const Cells& cells) {
  SQLite::Statement find(database, "SELECT id FROM " + quote(table) + " WHERE " +
                                       join(cells, " AND ", [](const auto& column) {
                                         return quote(column) + " = ?";
                                       }));
  bind_all(find, cells);
  return find.executeStep() ? std::optional<long long>(find.getColumn(0).getInt64()) : std::nullopt;
}

bool has_cells(SQLite::Database& database, std::string_view table, long long id,
               const Cells& cells) {
  SQLite::Statement find(
      database,
      "SELECT 1 FROM " + quote(table) + " WHERE " +
          join(cells, " AND ", [](const auto& column) { return quote(column) + " IS ?"; }) +
          " AND id = " + std::to_string(id));
  bind_all(find, cells);
  return find.executeStep();
}

long long find_or_insert_row(SQLite::Database& database, std::string_view table,
                             const Cells& cells) {
  const auto found = find_row(database, table, cells);
  return found ? *found : insert_row(database, table, cells);
}

int update_row(SQLite::Database& database, std::string_view table, const Cells& cells,
               const Cells& which) {
  const auto assigned = [](const auto& column) { return quote(column) + " = ?"; };
  const auto equal = [](const auto& column) { return quote(column) + " IS ?"; };
  SQLite::Statement update(database, "UPDATE " + quote(table) + " SET " +
                                         join(cells, ", ", assigned) + " WHERE " +
                                         join(which, " AND ", equal));
  bind_all(update, cells);
  bind_all(update, which, static_cast<int>(cells.size()) + 1);
  return update.exec();
}

std::string_view CellView::getString() const {
  const void* const bytes = sqlite3_value_blob(value_);
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value_));
  return bytes == nullptr ? std::string_view()
                          : std::string_view(static_cast<const char*>(bytes), size);
}

TableRows::TableRows(const SQLite::Database& database, const std::string& sql)
    : database_(database.getHandle()) {
  require(sqlite3_prepare_v2(database_, sql.c_str(), static_cast<int>(sql.size()), &statement_,
                             nullptr));
}

TableRows::~TableRows() { sqlite3_finalize(statement_); }

void TableRows::bind(const char* name, long long value) {
  require(sqlite3_bind_int64(statement_, sqlite3_bind_parameter_index(statement_, name), value));
}

void TableRows::bind(const char* name, const std::string& value) {
  require(sqlite3_bind_text(statement_, sqlite3_bind_parameter_index(statement_, name),
                            value.c_str(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
}

bool TableRows::next() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    require(code);
  }
  return code == SQLITE_ROW;
}

void TableRows::require(int code) const {
  if (code != SQLITE_OK) {
    throw SQLite::Exception(database_, code);
  }
}

}  // namespace swr
