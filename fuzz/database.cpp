// SPDX-License-Identifier: MIT
// A database of others: the input changes cells, the schema and bytes of a valid one, which is then
// asked everything.
#include "db/history.h"
#include "fuzz/harness.h"
#include "fuzz/stored.h"
#include "tests/support/fictional_gpu.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/lookup.h>
#include <swr/store.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <array>
#include <cmath>
#include <sqlite3.h>

namespace swr::fuzz {
namespace {

struct Column {
  std::string table;
  std::string name;
};

std::vector<Column> columns_of(SQLite::Database& database) {
  std::vector<Column> columns;
  SQLite::Statement row(database,
                        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
                        "WHERE m.type = 'table' ORDER BY m.name, c.cid");
  while (row.executeStep()) {
    columns.push_back({row.getColumn(0).getString(), row.getColumn(1).getString()});
  }
  return columns;
}

void bind(SQLite::Statement& statement, Bytes& input) {
  switch (input.byte() % 5) {
    case 0:
      statement.bind(1);
      break;
    case 1:
      statement.bind(1, static_cast<std::int64_t>(static_cast<signed char>(input.byte())));
      break;
    case 2:
      statement.bind(1, input.value<std::int64_t>());
      break;
    case 3:
      statement.bind(1, input.value<double>());
      break;
    default:
      statement.bind(1, std::string(input.text(input.byte())));
  }
}

void change_cell(SQLite::Database& database, const std::vector<Column>& columns, Bytes& input) {
  const Column& column = columns[input.byte() % columns.size()];
  SQLite::Statement update(database,
                           "UPDATE " + column.table + " SET " + column.name +
                               " = ? WHERE rowid = " + std::to_string(1 + input.byte() % 8));
  bind(update, input);
  update.exec();
}

/// What a schema may do that looks like one of swr's.
void change_schema(SQLite::Database& database, Bytes& input) {
  static constexpr std::array kChanges{
      "DROP TABLE result",
      "ALTER TABLE result RENAME TO gone; CREATE VIEW result AS SELECT * FROM gone",
      "ALTER TABLE problem RENAME TO gone; CREATE VIEW problem AS WITH RECURSIVE n(id) AS "
      "(SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT * FROM gone, n",
      "ALTER TABLE device DROP COLUMN name",
      "PRAGMA user_version = 3",
      "PRAGMA user_version = 9999",
      "PRAGMA application_id = 0",
      "CREATE TRIGGER t AFTER UPDATE ON run BEGIN DELETE FROM result; END",
      "DELETE FROM run",
      "INSERT INTO device SELECT * FROM device"};
  database.exec(kChanges[input.byte() % kChanges.size()]);
}

void change_bytes(std::string& bytes, Bytes& input) {
  const std::size_t at = (input.value<std::uint32_t>() & 0xffffff) % bytes.size();
  const std::string_view patch = input.text(1 + input.byte() % 16);
  bytes.replace(at, patch.size(), patch);
}

std::string serialized(SQLite::Database& database) {
  sqlite3_int64 size = 0;
  unsigned char* const data = sqlite3_serialize(database.getHandle(), "main", &size, 0);
  std::string bytes(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  sqlite3_free(data);
  return bytes;
}

void load(SQLite::Database& database, const std::string& bytes) {
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
  bytes.copy(reinterpret_cast<char*>(copy), bytes.size());
  sqlite3_deserialize(database.getHandle(), "main", copy, size, size,
                      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  database.exec("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON");
}

/// As if somebody had edited the rows: else no change would come past their digests.
void vouch(SQLite::Database& database) {
  for (const char* table :
       {"device", "problem", "variant", "run", "result", "decision", "gpu_reference"}) {
    try {
      database.exec(std::string("UPDATE ") + table + " SET digest = NULL");
    } catch (const SQLite::Exception&) {
      // A table that was changed away.
    }
  }
}

/// The changes before the bytes of the file are changed.
std::string changed_content(unsigned changes, bool is_vouched_for, Bytes& input) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE);
  load(database, stored_database());
  static const std::vector<Column> kColumns = columns_of(database);
  for (; changes > 0 && !input.is_empty(); --changes) {
    try {
      if (input.byte() % 8 == 0) {
        change_schema(database, input);
      } else {
        change_cell(database, kColumns, input);
      }
    } catch (const SQLite::Exception&) {
      // A change that SQLite refuses.
    }
  }
  if (is_vouched_for) {
    vouch(database);
  }
  return serialized(database);
}

template <typename Ask>
void attempt(Ask&& ask) {
  try {
    ask();
  } catch (const Error& error) {
    require(error.code() != ErrorCode::database_locked, "nobody else has the file");
  }
}

void check(const Problem& problem, const VariantResult& result) {
  require(std::isfinite(result.time_us()) && result.time_us() >= 0.0, "a time can be believed");
  require(!check_constraints(problem, result.variant, fictional_gpu()), "an answer is legal");
}

void ask_store(const Store& store) {
  const Problem problem =
      AttentionProblem{.heads_q = 8, .heads_kv = 8, .seq_q = 4096, .seq_kv = 4096, .head_dim = 64};
  attempt([&] {
    if (const auto match = store.best(problem, fictional_gpu())) {
      check(problem, match->result);
    }
  });
  attempt([&] { (void)store.results(problem, fictional_gpu()); });
  attempt([&] { (void)store.winners(); });
  attempt([&] { (void)store.settings(); });
  attempt([&] { (void)store.references(1); });
  attempt([&] { (void)store.run_of(1); });
  for (const long long id : {1, 8}) {
    attempt([&] { (void)store.result(id); });
  }
  attempt([&] { (void)store.known_results(1, problem, fictional_gpu()); });
  attempt([&] { (void)store.known_decision(1, problem, fictional_gpu()); });
}

void ask_lookup(const std::filesystem::path& path) {
  const Lookup lookup(path);
  for (const Problem& problem :
       {Problem(AttentionProblem{.seq_q = 1, .seq_kv = 100000, .head_dim = 64}),
        Problem(GemmProblem{.m = 512, .n = 512, .k = 512})}) {
    const Answer answer = lookup.best(problem, fictional_gpu());
    require(!check_constraints(problem, answer.variant, fictional_gpu()), "an answer is legal");
    require(!answer.time_us || std::isfinite(*answer.time_us), "a time can be believed");
  }
}

}  // namespace

void run_one(std::string_view input) {
  constexpr unsigned kMostChanges = 8;
  Bytes changes(input);
  const unsigned first = changes.byte();
  std::string bytes = changed_content(first % kMostChanges, first / 32 != 0, changes);
  while (!changes.is_empty()) {
    change_bytes(bytes, changes);
  }
  const std::filesystem::path path = write_input("changed.db", bytes);
  // All readers, or one, which is faster.
  const unsigned reader = first / kMostChanges % 4;
  if (reader == 0 || reader == 1) {
    attempt([&] { ask_store(Store(path, Store::Mode::read_only)); });
  }
  if (reader == 0 || reader == 2) {
    attempt([&] { ask_lookup(path); });
  }
  if (reader == 0 || reader == 3) {
    attempt([&] { (void)read_history(path); });
  }
}

}  // namespace swr::fuzz
