// SPDX-License-Identifier: MIT
#include "db/connection.h"
#include "db/migrations.h"
#include "tests/db/fixtures.h"
#include "tests/db/old_databases.h"

#include <SQLiteCpp/Statement.h>

#include <cstdlib>
#include <fstream>
#include <utility>

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

/// Of what `which` says, in SQL.
std::string dump(SQLite::Database& database, const std::string& which = "true") {
  std::string text = "application_id " + database.execAndGet("PRAGMA application_id").getString() +
                     "\nuser_version " + database.execAndGet("PRAGMA user_version").getString() +
                     "\n";
  SQLite::Statement row(database, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND (" +
                                      which + ") ORDER BY type, name");
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

  /// As today's schema has them, by id.
  std::vector<std::string> axes_of_all_variants() const {
    auto database = open(today_, Store::Mode::read_write);
    std::vector<std::string> axes;
    SQLite::Statement row(database, "SELECT axes FROM variant ORDER BY id");
    while (row.executeStep()) {
      axes.push_back(row.getColumn(0).getString());
    }
    return axes;
  }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
  std::vector<Migration> today_ = built_in_migrations();
  std::vector<Migration> tomorrow_ = [this] {
    auto migrations = today_;
    migrations.push_back({today_.back().version + 1,
                          "ALTER TABLE result ADD COLUMN energy_joules REAL;"
                          "UPDATE result SET energy_joules = 1.5;"});
    return migrations;
  }();
};

TEST_F(SchemaTest, MigrationsAreInOrder) {
  EXPECT_EQ(today_.front().version, 1);
  for (std::size_t i = 1; i < today_.size(); ++i) {
    EXPECT_LT(today_[i - 1].version, today_[i].version);
  }
}

TEST_F(SchemaTest, EveryOperationHasAViewOfItsFieldsAndAxes) {
  open(today_, Store::Mode::read_write);
  SQLite::Database database(path_.string(), SQLite::OPEN_READONLY);
  for (const Operation* const operation : operations()) {
    std::vector<std::string> names;
    for (const ProblemField& field : fields(*operation)) {
      names.emplace_back(field.name);
    }
    for (const Axis& axis : axes(*operation)) {
      names.emplace_back(axis.name);
    }
    auto columns = columns_of(database, std::string(name_of(*operation)) + "_results");
    ASSERT_GT(columns.size(), names.size());
    columns.resize(names.size());
    EXPECT_EQ(columns, names);
  }
}

TEST_F(SchemaTest, TheViewOfAnOperationShowsValuesAndDefaults) {
  create_with_one_result();
  SQLite::Database shell(path_.string(), SQLite::OPEN_READONLY);
  SQLite::Statement row(shell,
                        "SELECT seq_q, head_dim, dtype, causal, tile_m, \"order\", smem_swizzle, "
                        "kv_splits, kv_copy, mainloop, unroll, time_us, op FROM attention_results");
  ASSERT_TRUE(row.executeStep());
  std::string text;
  for (int i = 0; i < row.getColumnCount(); ++i) {
    text += row.isColumnNull(i) ? "NULL " : row.getColumn(i).getString() + " ";
  }
  EXPECT_EQ(text, "4096 64 fp16 0 64 cyclic on 1 cp_async NULL NULL 10.0 attention ");
  EXPECT_FALSE(row.executeStep());
  EXPECT_EQ(shell.execAndGet("SELECT count(*) FROM gemm_results").getInt(), 0);
}

TEST_F(SchemaTest, ViewsThatAreMissingOrDifferAreWrittenAnew) {
  create_with_one_result();
  const auto now = [this] {
    SQLite::Database database(path_.string(), SQLite::OPEN_READONLY);
    return dump(database);
  };
  const std::string before = now();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec(
          "DROP VIEW gemm_results; DROP VIEW attention_results; "
          "CREATE VIEW attention_results AS SELECT 1");
  EXPECT_EQ(Store(path_, Store::Mode::read_only).winners().size(), 1U);
  EXPECT_NE(now(), before);
  EXPECT_EQ(Store(path_, Store::Mode::read_write).winners().size(), 1U);
  EXPECT_EQ(now(), before);
}

TEST_F(SchemaTest, TheViewHasARowPerResult) {
  create_with_one_result();
  SQLite::Database database(path_.string());
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM all_results").getInt(), 1);
  EXPECT_EQ(database.execAndGet("SELECT time_us FROM all_results").getDouble(), 10.0);
}

/// Without the views of operations: neither an operation nor an axis changes the schema.
TEST_F(SchemaTest, EqualsItsGoldenDump) {
  auto database = open(today_, Store::Mode::read_write);
  const std::string schema = dump(database, "type <> 'view' OR name = 'all_results'");
  if (std::getenv("SWR_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(SWR_SCHEMA_GOLDEN) << schema;
  }
  EXPECT_EQ(schema, bytes_of(SWR_SCHEMA_GOLDEN));
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
  for (const char* table : {"device", "kernel", "problem", "variant", "run", "result", "sample",
                            "decision", "finalist", "gpu_reference"}) {
    for (const std::string& column : columns_of(database, table)) {
      EXPECT_THAT(section(document, table), HasSubstr("\n| `" + column + "` |")) << table;
    }
  }
  EXPECT_THAT(document, HasSubstr("## The view all_results"));
  for (const Operation* const operation : operations()) {
    EXPECT_THAT(document, HasSubstr("`" + std::string(name_of(*operation)) + "_results`"));
  }
}

TEST_F(SchemaTest, StoresReadableText) {
  create_with_one_result();
  auto database = open(today_, Store::Mode::read_only);
  EXPECT_EQ(database.execAndGet("SELECT op || kind || sizes FROM problem").getString(),
            R"(attention{"head_dim":64,"dtype":"fp16","causal":0,"alignment_bytes":16})"
            R"({"batch":1,"heads_q":8,"heads_kv":8,"seq_q":4096,"seq_kv":4096})");
  EXPECT_EQ(database.execAndGet("SELECT op || axes FROM variant").getString(),
            R"(attention{"family":"portable","tile_m":64,"tile_n":64,"warps":4,"stages":2,)"
            R"("order":"cyclic","persistence":"grid","workers":0,"swizzle":"q_fastest",)"
            R"("section_heads":0,"smem_swizzle":"on"})");
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

TEST_F(SchemaTest, AMigrationFindsWhatChangedOnTheDiskBefore) {
  create_with_one_result();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE result SET median_us = 9.0");
  for (const auto mode : {Store::Mode::read_only, Store::Mode::read_write}) {
    EXPECT_THAT(error_of([&] { open(tomorrow_, mode); }).what(), HasSubstr("is damaged"));
  }
}

/// A file of the first schema with a measured result.
constexpr const char* kFirstRows =
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
    "INSERT INTO sample VALUES (1, 0, 10.0);";

TEST_F(SchemaTest, RowsOfTheFirstSchemaBecomeWarmScreenings) {
  open(old_migrations(1), Store::Mode::read_write).exec(kFirstRows);
  const Store store(path_, Store::Mode::read_write);
  const auto match = store.best(problem_of(4096), fictional_gpu());
  ASSERT_TRUE(match);
  const Measurement& measurement = *match->result.measurement();
  EXPECT_EQ(measurement.l2_state, L2State::warm);
  EXPECT_EQ(measurement.sampling, Sampling::screening);
  EXPECT_EQ(measurement.before, GpuCondition{});
  EXPECT_NE(measurement.condition_missing_because, "");
}

TEST_F(SchemaTest, FilesOfEverySchemaAnswerAlikeWhetherReadOrCarriedOver) {
  for (int version = 1; version <= 12; ++version) {
    path_ = directory_.path() / (std::to_string(version) + ".db");
    open(old_migrations(1), Store::Mode::read_write).exec(kFirstRows);
    open(old_migrations(version), Store::Mode::read_write);
    const auto answer = [this](Store::Mode mode) {
      return Store(path_, mode).best(problem_of(4096), fictional_gpu());
    };
    const auto read = answer(Store::Mode::read_only);
    EXPECT_EQ(SQLite::Database(path_.string()).execAndGet("PRAGMA user_version").getInt(), version);
    const auto carried_over = answer(Store::Mode::read_write);
    ASSERT_TRUE(read && carried_over) << version;
    EXPECT_EQ(read->result.variant, tile(64, 64));
    EXPECT_EQ(carried_over->result.variant, tile(64, 64));
    EXPECT_EQ(carried_over->problem, problem_of(4096));
    EXPECT_EQ(carried_over->result.time_us(), 10.0);
    auto database = open(today_, Store::Mode::read_only);
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_FALSE(SQLite::Statement(database, "PRAGMA foreign_key_check").executeStep());
  }
}

/// What could not be believed, or known, stops the step: the file stays as it was.
TEST_F(SchemaTest, ARowThatCannotBeCarriedOverIsNamedAndTheFileStays) {
  for (const auto& [edit, complaint] :
       {std::pair{"UPDATE variant SET tile_m = -5", "row 1 in table variant: tile_m"},
        std::pair{"UPDATE variant SET \"order\" = 'sideways'", "row 1 in table variant: unknown"},
        std::pair{"UPDATE problem SET head_dim = 63", "row 1 in table problem: head-dim"},
        std::pair{"UPDATE problem SET op = 'convolution'", "unknown op 'convolution'"}}) {
    std::filesystem::remove(path_);
    open(old_migrations(1), Store::Mode::read_write).exec(kFirstRows);
    open(old_migrations(12), Store::Mode::read_write).exec(edit);
    const std::string before = bytes_of(path_);
    for (const auto mode : {Store::Mode::read_write, Store::Mode::read_only}) {
      const Error error = error_of([&] { Store(path_, mode); });
      EXPECT_EQ(error.code(), ErrorCode::unreadable);
      EXPECT_THAT(error.what(), HasSubstr(complaint));
    }
    EXPECT_EQ(bytes_of(path_), before);
  }
}

TEST_F(SchemaTest, VariantsThatDifferInColumnsWithoutAMeaningBecomeOne) {
  open(old_migrations(1), Store::Mode::read_write).exec(kFirstRows);
  open(old_migrations(12), Store::Mode::read_write)
      .exec(
          "CREATE TEMP TABLE copy AS SELECT * FROM variant; UPDATE copy SET id = 2, unroll = 2;"
          "INSERT INTO variant SELECT * FROM copy;"
          "CREATE TEMP TABLE again AS SELECT * FROM result;"
          "UPDATE again SET id = 2, variant_id = 2, median_us = 12.0;"
          "INSERT INTO result SELECT * FROM again");
  EXPECT_EQ(axes_of_all_variants().size(), 1U);
  EXPECT_EQ(Store(path_, Store::Mode::read_only)
                .best(problem_of(4096), fictional_gpu())
                ->result.time_us(),
            12.0);
}

TEST_F(SchemaTest, VariantsOfBeforeThereWereSplitsHaveNone) {
  {
    auto database = open(old_migrations(7), Store::Mode::read_write);
    database.exec(
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, "
        "'q_fastest', 0, 'on', 'plain', 'registers', 0, 1, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0);"
        "INSERT INTO variant VALUES (2, 'gemm', 'portable', 64, 64, 0, 2, '', 'grid', 0, '', 0, "
        "'', "
        "'', '', 0, 0, 32, 2, 2, 0, 0, 0, 'cyclic', 1, 'along_m', 1, 0);");
  }
  EXPECT_EQ(
      axes_of_all_variants(),
      std::vector<std::string>(
          {R"({"family":"portable","tile_m":64,"tile_n":64,"warps":4,"stages":2,)"
           R"("order":"cyclic","persistence":"grid","workers":0,"swizzle":"q_fastest",)"
           R"("section_heads":0,"smem_swizzle":"on"})",
           R"({"family":"portable","tile_m":64,"tile_n":64,"tile_k":32,"stages":2,"warps_m":2,)"
           R"("warps_n":2,"persistence":"grid","workers":0,"k_order":"cyclic","splits":1,)"
           R"("raster":"along_m","raster_group":1,"swizzle_stride":0})"}));
}

TEST_F(SchemaTest, VariantsOfBeforeThereWereChoicesHaveLongTilesLastAndNoTensorMaps) {
  {
    auto database = open(old_migrations(8), Store::Mode::read_write);
    database.exec(
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, 'q_fastest', 0, 'on', 5, 'on', 'plain', 'registers', 0, 1, 0, 0, 0, 0, 0, 0, '', 0, "
        "'', 0, 0);"
        "INSERT INTO variant VALUES (2, 'gemm', 'portable', 64, 64, 0, 2, '', 'grid', 0, '', 0, "
        "'', 0, '', '', '', 0, 0, 32, 2, 2, 0, 0, 0, 'cyclic', 1, 'along_m', 1, 0);");
  }
  EXPECT_EQ(
      axes_of_all_variants(),
      std::vector<std::string>(
          {R"({"family":"portable","tile_m":64,"tile_n":64,"warps":4,"stages":2,)"
           R"("order":"cyclic","persistence":"grid","workers":0,"swizzle":"q_fastest",)"
           R"("section_heads":0,"smem_swizzle":"on","kv_splits":5,"pack_gqa":"on"})",
           R"({"family":"portable","tile_m":64,"tile_n":64,"tile_k":32,"stages":2,"warps_m":2,)"
           R"("warps_n":2,"persistence":"grid","workers":0,"k_order":"cyclic","splits":1,)"
           R"("raster":"along_m","raster_group":1,"swizzle_stride":0})"}));
}

TEST_F(SchemaTest, GemmVariantsFromBeforeClustersAlongKHaveNone) {
  {
    auto database = open(old_migrations(8), Store::Mode::read_write);
    database.exec(
        "INSERT INTO variant VALUES (1, 'attention', 'portable', 64, 64, 4, 2, 'cyclic', 'grid', "
        "0, "
        "'q_fastest', 0, 'on', 1, 'off', '', '', 0, 0, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0);"
        "INSERT INTO variant VALUES (2, 'gemm', 'hopper', 64, 64, 0, 2, '', 'grid', 0, '', 0, '', "
        "0, "
        "'', 'cooperative', '', 0, 0, 64, 0, 0, 1, 1, 2, 'cyclic', 3, 'along_m', 1, 0);");
  }
  EXPECT_EQ(axes_of_all_variants(),
            std::vector<std::string>(
                {R"({"family":"portable","tile_m":64,"tile_n":64,"warps":4,"stages":2,)"
                 R"("order":"cyclic","persistence":"grid","workers":0,"swizzle":"q_fastest",)"
                 R"("section_heads":0,"smem_swizzle":"on"})",
                 R"({"family":"hopper","tile_m":64,"tile_n":64,"tile_k":64,"stages":2,)"
                 R"("mainloop":"cooperative","consumers":1,"cluster_m":1,"cluster_n":2,)"
                 R"("persistence":"grid","workers":0,"k_order":"cyclic","splits":3,)"
                 R"("raster":"along_m","raster_group":1,"swizzle_stride":0})"}));
}

TEST_F(SchemaTest, ResultsFromBeforeAccessesWereCountedWaitForThem) {
  {
    auto database = open(old_migrations(11), Store::Mode::read_write);
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
