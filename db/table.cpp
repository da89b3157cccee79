// SPDX-License-Identifier: MIT
#include "db/table.h"

#include "core/sha256.h"
#include <swr/error.h>

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <sqlite3.h>
#include <string_view>

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

namespace {

/// Rows of another table that belong to one of this, and have a digest in common there.
struct Parts {
  const char* table;
  const char* owner;
  const char* values;
  const char* digest;
};

struct SealedTable {
  const char* name;
  const Parts* parts;
};

constexpr Parts kSamples{"sample", "result_id", "position, time_us", "samples_digest"};
constexpr Parts kFinalists{"finalist", "decision_id",
                           "result_id, ratio, ratio_low, ratio_high, tied", "finalists_digest"};
constexpr std::array<SealedTable, 8> kTables{{{"device", nullptr},
                                              {"kernel", nullptr},
                                              {"problem", nullptr},
                                              {"variant", nullptr},
                                              {"run", nullptr},
                                              {"result", &kSamples},
                                              {"decision", &kFinalists},
                                              {"gpu_reference", nullptr}}};

std::uint64_t with_bytes(std::uint64_t hash, const void* data, std::size_t bytes) {
  const auto* next = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  if constexpr (std::endian::native == std::endian::little) {
    for (; left >= sizeof(hash); left -= sizeof(hash), next += sizeof(hash)) {
      std::uint64_t word = 0;
      std::memcpy(&word, next, sizeof(word));
      hash = mixed(hash, word);
    }
  }
  while (left > 0) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(left, sizeof(word));
    for (std::size_t i = 0; i < taken; ++i) {
      word |= static_cast<std::uint64_t>(next[i]) << (8U * i);
    }
    hash = mixed(hash, word);
    next += taken;
    left -= taken;
  }
  return mixed(hash, bytes);
}

std::uint64_t with_value(std::uint64_t hash, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  hash = mixed(hash, static_cast<std::uint64_t>(type));
  switch (type) {
    case SQLITE_INTEGER:
      return mixed(hash, static_cast<std::uint64_t>(sqlite3_value_int64(value)));
    case SQLITE_FLOAT: {
      const double number = sqlite3_value_double(value);
      std::uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof(bits));
      return mixed(hash, bits);
    }
    case SQLITE_TEXT:
    case SQLITE_BLOB: {
      const void* const data = sqlite3_value_blob(value);
      return with_bytes(hash, data, static_cast<std::size_t>(sqlite3_value_bytes(value)));
    }
    default:
      return hash;
  }
}

std::uint64_t digest_of(int count, sqlite3_value** values) {
  std::uint64_t hash = static_cast<std::uint64_t>(count);
  for (int i = 0; i < count; ++i) {
    hash = with_value(hash, values[i]);
  }
  return hash;
}

void digest_row(sqlite3_context* context, int count, sqlite3_value** values) {
  sqlite3_result_int64(context, static_cast<sqlite3_int64>(digest_of(count, values)));
}

/// A sum, which is the same in any order.
void add_part(sqlite3_context* context, int count, sqlite3_value** values) {
  auto* const sum =
      static_cast<std::uint64_t*>(sqlite3_aggregate_context(context, sizeof(std::uint64_t)));
  if (sum == nullptr) {
    sqlite3_result_error_nomem(context);
    return;
  }
  *sum += digest_of(count, values);
}

void finish_parts(sqlite3_context* context) {
  const auto* const sum = static_cast<std::uint64_t*>(sqlite3_aggregate_context(context, 0));
  sqlite3_result_int64(context, sum != nullptr ? static_cast<sqlite3_int64>(*sum) : 0);
}

std::string in_quotes(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// Every column but the digest, in the order of the table.
std::string values_of(const SQLite::Database& database, const std::string& table) {
  std::string names;
  SQLite::Statement row(database, "SELECT name FROM pragma_table_info(?, 'main')");
  row.bind(1, table);
  while (row.executeStep()) {
    const std::string name = row.getColumn(0).getString();
    if (name != "digest") {
      names += (names.empty() ? "" : ", ") + in_quotes(name);
    }
  }
  return names;
}

std::string row_digest(const SQLite::Database& database, const std::string& table) {
  return "swr_digest(" + values_of(database, table) + ")";
}

std::string parts_digest(const SealedTable& table) {
  const Parts& parts = *table.parts;
  return "(SELECT swr_digest_all(" + std::string(parts.values) + ") FROM main." + parts.table +
         " AS part WHERE part." + parts.owner + " = " + table.name + ".id)";
}

void seal(SQLite::Database& database, const SealedTable& table) {
  const std::string name = table.name;
  const std::string unsealed =
      " FROM main." + name + " INDEXED BY " + name + "_unsealed WHERE digest IS NULL";
  if (database.execAndGet("SELECT count(*)" + unsealed).getInt64() == 0) {
    return;
  }
  const std::string where = " WHERE id IN (SELECT id" + unsealed + ")";
  if (table.parts != nullptr) {
    database.exec("UPDATE main." + name + " SET " + table.parts->digest + " = " +
                  parts_digest(table) + where);
  }
  database.exec("UPDATE main." + name + " SET digest = " + row_digest(database, table.name) +
                where);
}

[[noreturn]] void reject(const std::filesystem::path& path, std::string finding) {
  std::ranges::replace(finding, '\n', ' ');
  throw Error(ErrorCode::unreadable,
              "database " + path.string() + " is damaged (" + finding +
                  "); use a copy from before it was damaged, or save what is left with `sqlite3 "
                  "FILE .recover`");
}

[[noreturn]] void reject_changed(const std::filesystem::path& path, const std::string& what) {
  reject(path, what + " changed since it was written");
}

std::string name_of_row(const std::string& table, const std::string& id) {
  return "row " + id + " of table " + table;
}

/// The first row of the table for which `condition` holds; empty when there is none.
std::string first_id(const SQLite::Database& database, const std::string& table,
                     const std::string& condition) {
  SQLite::Statement row(database,
                        "SELECT id FROM main." + table + " WHERE " + condition + " LIMIT 1");
  return row.executeStep() ? row.getColumn(0).getString() : std::string();
}

void set_ignored_constraints(const SQLite::Database& database, bool are_ignored) {
  SQLite::Statement(
      database, std::string("PRAGMA ignore_check_constraints = ") + (are_ignored ? "ON" : "OFF"))
      .executeStep();
}

/// Pages, the order of rows, and that indexes have what tables have. What values are, their readers
/// check, who name them.
void require_structure(const SQLite::Database& database, const std::filesystem::path& path,
                       const std::string& table) {
  set_ignored_constraints(database, true);
  SQLite::Statement check(database, "PRAGMA integrity_check(" + in_quotes(table) + ")");
  const std::string finding = check.executeStep() ? check.getColumn(0).getString() : "ok";
  check.reset();
  set_ignored_constraints(database, false);
  if (finding != "ok") {
    reject(path, finding);
  }
}

/// Samples or finalists, of a table that has some.
void require_unchanged_parts(const SQLite::Database& database, const std::filesystem::path& path,
                             const SealedTable& table) {
  if (table.parts == nullptr) {
    return;
  }
  const std::string id = first_id(database, table.name,
                                  "digest IS NOT NULL AND " + std::string(table.parts->digest) +
                                      " IS NOT " + parts_digest(table));
  if (!id.empty()) {
    reject_changed(path, "what belongs to " + name_of_row(table.name, id));
  }
}

}  // namespace

void add_digest_functions(SQLite::Database& database) {
  constexpr int kAnyCount = -1;
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  sqlite3* const handle = database.getHandle();
  if (sqlite3_create_function_v2(handle, "swr_digest", kAnyCount, kFlags, nullptr, digest_row,
                                 nullptr, nullptr, nullptr) != SQLITE_OK ||
      sqlite3_create_function_v2(handle, "swr_digest_all", kAnyCount, kFlags, nullptr, nullptr,
                                 add_part, finish_parts, nullptr) != SQLITE_OK) {
    throw SQLite::Exception(handle);
  }
}

void seal_rows(SQLite::Database& database) {
  for (const SealedTable& table : kTables) {
    seal(database, table);
  }
}

void unseal_rows(SQLite::Database& database) {
  for (const SealedTable& table : kTables) {
    database.exec("UPDATE main." + std::string(table.name) + " SET digest = NULL");
  }
}

std::string is_unchanged(const SQLite::Database& database, const std::string& table) {
  return "(digest IS NULL OR digest IS " + row_digest(database, table) + ")";
}

void reject_changed_row(const std::filesystem::path& path, const std::string& table,
                        const std::string& id) {
  reject_changed(path, name_of_row(table, id));
}

void require_unchanged_rows(const SQLite::Database& database, const std::filesystem::path& path,
                            const std::string& table) {
  const std::string id = first_id(database, table, "NOT " + is_unchanged(database, table));
  if (!id.empty()) {
    reject_changed_row(path, table, id);
  }
  require_unchanged_parts(database, path, *std::ranges::find(kTables, table, &SealedTable::name));
}

void require_intact_rows(const SQLite::Database& database, const std::filesystem::path& path) {
  for (const SealedTable& table : kTables) {
    require_structure(database, path, table.name);
    if (table.parts != nullptr) {
      require_structure(database, path, table.parts->table);
    }
    require_unchanged_rows(database, path, table.name);
  }
}

}  // namespace swr
