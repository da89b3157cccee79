// SPDX-License-Identifier: MIT
#include "db/connection.h"
#include "db/migrations.h"
#include "tests/db/fixtures.h"

#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace swr {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::vector<std::string> columns_of(SQLite::Database& database, const std::string& table) {
  std::vector<std::string> names;
  SQLite::Statement row(database, "SELECT name FROM pragma_table_info(?)");
  row.bind(1, table);
  while (row.executeStep()) {
    names.push_back(row.getColumn(0).getString());
  }
  return names;
}

std::vector<std::string> axis_names() {
  std::vector<std::string> names;
  for (const Operation* const operation : operations()) {
    const Operation& op = *operation;
    for (const Axis& axis : axes(op)) {
      if (std::ranges::find(names, axis.name) == names.end()) {
        names.emplace_back(axis.name);
      }
    }
  }
  return names;
}

std::string dump(SQLite::Database& database) {
  std::string text = "application_id " + database.execAndGet("PRAGMA application_id").getString() +
                     "\nuser_version " + database.execAndGet("PRAGMA user_version").getString() +
                     "\n";
  SQLite::Statement row(database,
                        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY "
                        "type, name");
  while (row.executeStep()) {
    text += "\n" + row.getColumn(0).getString() + ";\n";
  }
  return text;
}

class SchemaTest : public ::testing::Test {
 protected:
  SQLite::Database open(const std::vector<Migration>& migrations, Store::Mode mode) const {
    return open_database(path_, mode, migrations);
  }
  void create_with_one_result() const {
    Store store(path_, Store::Mode::read_write);
    store.record(store.begin_run(some_run()), problem_of(4096), fictional_gpu(),
                 measured(tile(64, 64), 10.0));
  }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
  std::vector<Migration> today_ = built_in_migrations();
  std::vector<Migration> tomorrow_ = [this] {
    auto migrations = today_;
    migrations.push_back({static_cast<int>(today_.size()) + 1,
                          "ALTER TABLE result ADD COLUMN energy_joules REAL;"
                          "UPDATE result SET energy_joules = 1.5;"});
    return migrations;
  }();
};

TEST_F(SchemaTest, MigrationsAreNumberedFromOneWithoutGaps) {
  for (std::size_t i = 0; i < today_.size(); ++i) {
    EXPECT_EQ(today_[i].version, static_cast<int>(i) + 1);
  }
}

TEST_F(SchemaTest, TheVariantTableHasExactlyTheAxes) {
  auto database = open(today_, Store::Mode::read_write);
  auto columns = columns_of(database, "variant");
  ASSERT_EQ(columns[0], "id");
  ASSERT_EQ(columns[1], "op");
  columns.erase(columns.begin(), columns.begin() + 2);
  EXPECT_EQ(columns, axis_names());
}

/// The view is for people: swr's own connections refuse views.
TEST_F(SchemaTest, TheViewShowsEveryAxis) {
  create_with_one_result();
  SQLite::Database database(path_.string());
  EXPECT_THAT(columns_of(database, "all_results"), IsSupersetOf(axis_names()));
}

TEST_F(SchemaTest, TheViewHasARowPerResult) {
  create_with_one_result();
  SQLite::Database database(path_.string());
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM all_results").getInt(), 1);
  EXPECT_EQ(database.execAndGet("SELECT time_us FROM all_results").getDouble(), 10.0);
}

TEST_F(SchemaTest, EqualsItsGoldenDump) {
  auto database = open(today_, Store::Mode::read_write);
  if (std::getenv("SWR_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(SWR_SCHEMA_GOLDEN) << dump(database);
  }
  EXPECT_EQ(dump(database), bytes_of(SWR_SCHEMA_GOLDEN));
}

/// The document's part about a table.
std::string section(const std::string& document, const std::string& table) {
  const auto begin = document.find("\n## " + table + "\n");
  if (begin == std::string::npos) {
    return "";
  }
  return document.substr(begin, document.find("\n## ", begin + 1) - begin);
}

TEST_F(SchemaTest, EveryTableAndColumnIsDocumented) {
  auto database = open(today_, Store::Mode::read_write);
  const std::string document = bytes_of(SWR_SCHEMA_DOCUMENT);
  for (const char* table : {"device", "problem", "variant", "run", "result", "sample", "decision",
                            "finalist", "gpu_reference"}) {
    for (const std::string& column : columns_of(database, table)) {
      EXPECT_THAT(section(document, table), HasSubstr("\n| `" + column + "` |")) << table;
    }
  }
  EXPECT_THAT(document, HasSubstr("## The view all_results"));
}

TEST_F(SchemaTest, StoresReadableText) {
  create_with_one_result();
  auto database = open(today_, Store::Mode::read_only);
  EXPECT_EQ(database.execAndGet("SELECT \"order\" || ' ' || smem_swizzle FROM variant").getString(),
            "cyclic on");
  EXPECT_THAT(database.execAndGet("SELECT started_at FROM run").getString(),
              ::testing::MatchesRegex("[0-9-]+T[0-9:.]+Z"));
}

TEST_F(SchemaTest, UsesAWriteAheadLog) {
  auto database = open(today_, Store::Mode::read_write);
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "wal");
}

TEST_F(SchemaTest, AMigrationKeepsTheRows) {
  create_with_one_result();
  auto database = open(tomorrow_, Store::Mode::read_write);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), tomorrow_.back().version);
  EXPECT_EQ(database.execAndGet("SELECT energy_joules FROM result").getDouble(), 1.5);
  EXPECT_EQ(database.execAndGet("SELECT median_us FROM result").getDouble(), 10.0);
}

TEST_F(SchemaTest, RowsOfTheFirstSchemaBecomeWarmScreenings) {
  const std::vector<Migration> first{today_.front()};
  {
    auto database = open(first, Store::Mode::read_write);
    database.exec(
        "INSERT INTO device VALUES (1, 'Fictional F1', 90, 96, 41943040, 2000.0, 0, 102400, "
        "131072, "
        "1024, 65536, 2048, 32);"
        "INSERT INTO problem VALUES (1, 1, 8, 8, 4096, 4096, 64, 'fp16', 0, 16);"
        "INSERT INTO variant VALUES (1, 'portable', 64, 64, 4, 2, 'cyclic', 'grid', 0, "
        "'q_fastest', "
        "0, 'on');"
        "INSERT INTO run VALUES (1, '2026-01-01T00:00:00.000Z', '', '', '', '', '', 'warm', 1);"
        "INSERT INTO result (id, run_id, device_id, problem_id, variant_id, provenance, state, "
        "detail, registers_per_thread, spill_store_bytes, spill_load_bytes, stack_bytes, "
        "static_smem_bytes, smem_bytes, ctas_per_sm, cubin_digest, median_us, p95_us, "
        "relative_error, counters_missing_because) VALUES (1, 1, 1, 1, 1, 'measured', 'ok', '', "
        "100, 0, 0, 0, 0, 1024, 2, '', 10.0, 11.0, 0.001, 'not asked for');"
        "INSERT INTO sample VALUES (1, 0, 10.0);");
  }
  const Store store(path_, Store::Mode::read_write);
  const auto match = store.best(problem_of(4096), fictional_gpu());
  ASSERT_TRUE(match);
  const Measurement& measurement = *match->result.measurement();
  EXPECT_EQ(measurement.l2_state, L2State::warm);
  EXPECT_EQ(measurement.sampling, Sampling::screening);
  EXPECT_EQ(measurement.before, GpuCondition{});
  EXPECT_NE(measurement.condition_missing_because, "");
}

TEST_F(SchemaTest, VariantsOfBeforeThereWereSplitsHaveNone) {
  const std::vector<Migration> seven(today_.begin(), today_.begin() + 7);
  {
    auto database = open(seven, Store::Mode::read_write);
    database.exec(
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, "
        "'q_fastest', 0, 'on', 'plain', 'registers', 0, 1, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0);"
        "INSERT INTO variant VALUES (2, 'gemm', 'portable', 64, 64, 0, 2, '', 'grid', 0, '', 0, "
        "'', "
        "'', '', 0, 0, 32, 2, 2, 0, 0, 0, 'cyclic', 1, 'along_m', 1, 0);");
  }
  auto database = open(today_, Store::Mode::read_write);
  const auto text = [&](int id) {
    return database
        .execAndGet(
            "SELECT kv_splits || ' ' || pack_gqa || ' ' || unroll || ' ' || splits FROM "
            "variant WHERE id = " +
            std::to_string(id))
        .getString();
  };
  EXPECT_EQ(text(1), "1 off 1 0");
  EXPECT_EQ(text(2), "0  0 1");
}

TEST_F(SchemaTest, VariantsOfBeforeThereWereChoicesHaveLongTilesLastAndNoTensorMaps) {
  const std::vector<Migration> eight(today_.begin(), today_.begin() + 8);
  {
    auto database = open(eight, Store::Mode::read_write);
    database.exec(
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, 'q_fastest', 0, 'on', 5, 'on', 'plain', 'registers', 0, 1, 0, 0, 0, 0, 0, 0, '', 0, "
        "'', 0, 0);"
        "INSERT INTO variant VALUES (2, 'gemm', 'portable', 64, 64, 0, 2, '', 'grid', 0, '', 0, "
        "'', 0, '', '', '', 0, 0, 32, 2, 2, 0, 0, 0, 'cyclic', 1, 'along_m', 1, 0);");
  }
  auto database = open(today_, Store::Mode::read_write);
  const auto text = [&](int id) {
    return database
        .execAndGet(
            "SELECT kv_splits || ' ' || pack_gqa || ' ' || longest_first || ' ' || kv_copy || ' ' "
            "|| "
            "unroll FROM variant WHERE id = " +
            std::to_string(id))
        .getString();
  };
  EXPECT_EQ(text(1), "5 on off cp_async 1");
  EXPECT_EQ(text(2), "0    0");
}

TEST_F(SchemaTest, GemmVariantsFromBeforeClustersAlongKHaveNone) {
  const std::vector<Migration> eight(today_.begin(), today_.begin() + 8);
  {
    auto database = open(eight, Store::Mode::read_write);
    database.exec(
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, "
        "'q_fastest', 0, 'on', 1, 'off', '', '', 0, 0, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0);"
        "INSERT INTO variant VALUES (2, 'gemm', 'hopper', 64, 64, 0, 2, '', 'grid', 0, '', 0, '', "
        "0, "
        "'', 'cooperative', '', 0, 0, 64, 0, 0, 1, 1, 2, 'cyclic', 3, 'along_m', 1, 0);");
  }
  auto database = open(today_, Store::Mode::read_write);
  const auto text = [&](int id) {
    return database
        .execAndGet(
            "SELECT kv_splits || ' ' || cluster_n || ' ' || cluster_k || ' ' || splits FROM "
            "variant "
            "WHERE id = " +
            std::to_string(id))
        .getString();
  };
  EXPECT_EQ(text(1), "1 0 0 0");
  EXPECT_EQ(text(2), "0 2 1 3");
}

TEST_F(SchemaTest, ResultsFromBeforeAccessesWereCountedWaitForThem) {
  const std::vector<Migration> eleven(today_.begin(), today_.begin() + 11);
  {
    auto database = open(eleven, Store::Mode::read_write);
    database.exec(
        "INSERT INTO device VALUES (1, 'Fictional F1', 90, 96, 41943040, 2000.0, 0, 102400, "
        "131072, 1024, 65536, 2048, 32);"
        "INSERT INTO problem (op, batch, heads_q, heads_kv, seq_q, seq_kv, head_dim, dtype, "
        "causal, "
        "m, n, k, output, layout, reads_c, alignment_bytes) VALUES ('attention', 1, 8, 8, 4096, "
        "4096, 64, 'fp16', 0, 0, 0, 0, '', '', 0, 16);"
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, 'q_fastest', 0, 'on', 1, 'off', 'off', 'cp_async', 'plain', 'registers', 0, 1, 0, 0, "
        "0, 0, 0, 0, 0, '', 0, '', 0, 0);"
        "INSERT INTO run (id, command, swr_version, templates_digest, nvrtc_version, "
        "driver_version, l2_state, seed) VALUES (1, '', '', '', '', '', 'warm', 1);"
        "INSERT INTO result (id, run_id, device_id, problem_id, variant_id, provenance, state, "
        "detail, registers_per_thread, spill_store_bytes, spill_load_bytes, stack_bytes, "
        "static_smem_bytes, smem_bytes, ctas_per_sm, cubin_digest, median_us, p95_us, "
        "relative_error, counters_missing_because) VALUES (7, 1, 1, 1, 1, 'measured', 'ok', '', "
        "100, 0, 0, 0, 0, 1024, 2, '', 10.0, 11.0, 0.001, 'not asked for');");
  }
  Store store(path_, Store::Mode::read_write);
  const VariantResult before = store.result(7).result;
  EXPECT_FALSE(before.measurement()->accesses);
  EXPECT_EQ(before.measurement()->accesses_missing_because, "");
  Measurement counted = *before.measurement();
  counted.accesses = AccessCounters{.smem_copy_conflicts = 3};
  store.record_accesses(7, counted);
  EXPECT_EQ(store.result(7).result.measurement()->accesses, counted.accesses);
}

TEST_F(SchemaTest, APredictionHasNoAccesses) {
  create_with_one_result();
  auto database = open(today_, Store::Mode::read_write);
  EXPECT_ANY_THROW(
      database.exec("UPDATE result SET provenance = 'predicted', median_us = NULL, "
                    "accesses_missing_because = ''"));
}

TEST_F(SchemaTest, AMigratedFileIsRefusedByTheOlderSwr) {
  create_with_one_result();
  open(tomorrow_, Store::Mode::read_write);
  for (const auto mode : {Store::Mode::read_write, Store::Mode::read_only}) {
    const Error error = error_of([&] { Store(path_, mode); });
    EXPECT_EQ(error.code(), ErrorCode::schema_too_new);
    EXPECT_THAT(error.what(), HasSubstr(path_.string()));
  }
  auto database = open(tomorrow_, Store::Mode::read_only);
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM result").getInt(), 1);
}

TEST_F(SchemaTest, AMigrationThatFailsLeavesTheFileAsItWas) {
  create_with_one_result();
  tomorrow_.push_back({tomorrow_.back().version + 1, "INSERT INTO no_such_table VALUES (1);"});
  EXPECT_EQ(error_of([&] { open(tomorrow_, Store::Mode::read_write); }).code(),
            ErrorCode::unreadable);
  EXPECT_EQ(Store(path_, Store::Mode::read_write).winners().size(), 1U);
}

TEST_F(SchemaTest, ReadingAnOlderFileMigratesACopyAndLeavesTheFile) {
  create_with_one_result();
  auto copy = open(tomorrow_, Store::Mode::read_only);
  EXPECT_EQ(copy.execAndGet("SELECT energy_joules FROM result").getDouble(), 1.5);
  EXPECT_EQ(Store(path_, Store::Mode::read_only).winners().size(), 1U);
}

}  // namespace
}  // namespace swr
