// SPDX-License-Identifier: MIT
#include "db/table_rows.h"

#include <SQLiteCpp/Exception.h>

namespace swr {

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
