// SPDX-License-Identifier: MIT
#include "db/schema.h"

#include "core/sha256.h"
#include "db/connection.h"
#include "tests/db/fixtures.h"

#include <SQLiteCpp/Statement.h>

namespace swr {
namespace {

std::vector<std::string> columns_of(SQLite::Database& database, const std::string& table) {
  std::vector<std::string> names;
  SQLite::Statement row(database, "SELECT name FROM pragma_table_info(?)");
  row.bind(1, table);
  while (row.executeStep()) {
    names.push_back(row.getColumn(0).getString());
  }
  return names;
}

/// The texts of a schema for which `which` holds.
std::string dump(SQLite::Database& database, const std::string& which) {
  std::string text;
  SQLite::Statement row(database, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND " +
                                      which + " ORDER BY type, name");
  while (row.executeStep()) {
    text += row.getColumn(0).getString() + ";\n";
  }
  return text;
}

class SchemaTest : public ::testing::Test {
 protected:
  SQLite::Database open(Store::Mode mode) const { return open_database(path_, mode); }
  void create_with_one_result() const {
    Store store(path_, Store::Mode::read_write);
    store.record(store.begin_run(some_run()), problem_of(4096), fictional_gpu(),
                 measured(tile(64, 64), 10.0));
  }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
};

TEST_F(SchemaTest, EveryOperationHasAViewOfItsFieldsAndAxes) {
  open(Store::Mode::read_write);
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
    return dump(database, "true");
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

/// Another text needs another number: files with this one are there. Views are of operations.
TEST_F(SchemaTest, HasTheTextOfItsNumber) {
  auto database = open(Store::Mode::read_write);
  std::string schema = dump(database, "type <> 'view'");
  std::erase_if(schema, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_EQ(kSchemaVersion, 16);
  EXPECT_EQ(sha256_hex(schema), "0d6ba02c37a448b370c2f7e61d3345236f7e6c6496a2d367e1ea8bdcaa275976")
      << schema;
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
  auto database = open(Store::Mode::read_write);
  const std::string document = bytes_of(SWR_SCHEMA_DOCUMENT);
  for (const char* table : {"device", "kernel", "problem", "variant", "run", "result", "sample",
                            "decision", "finalist", "gpu_reference"}) {
    for (const std::string& column : columns_of(database, table)) {
      // The same in every table, and said once.
      if (column != "id" && column != "digest") {
        EXPECT_THAT(section(document, table), ContainsRegex("\n\\|[^|]*`" + column + "`[^|]*\\|"))
            << table;
      }
    }
  }
  EXPECT_THAT(document, HasSubstr("## The view all_results"));
  for (const Operation* const operation : operations()) {
    EXPECT_THAT(document, HasSubstr("`" + std::string(name_of(*operation)) + "_results`"));
  }
}

TEST_F(SchemaTest, StoresReadableText) {
  create_with_one_result();
  auto database = open(Store::Mode::read_only);
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
  auto database = open(Store::Mode::read_write);
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "wal");
}

TEST_F(SchemaTest, APredictionHasNoAccesses) {
  create_with_one_result();
  auto database = open(Store::Mode::read_write);
  EXPECT_ANY_THROW(
      database.exec("UPDATE result SET provenance = 'predicted', median_us = NULL, "
                    "accesses_missing_because = ''"));
}

TEST_F(SchemaTest, AFileOfAnotherNumberIsRefusedAndStays) {
  create_with_one_result();
  for (const auto& [version, code, advice] :
       {std::tuple{17, ErrorCode::schema_too_new, "use the newer swr"},
        std::tuple{12, ErrorCode::unreadable, "scripts/convert_database"}}) {
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
        .exec("PRAGMA user_version = " + std::to_string(version));
    const std::string before = bytes_of(path_);
    for (const auto mode : {Store::Mode::read_write, Store::Mode::read_only}) {
      const Error error = error_of([&] { Store(path_, mode); });
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(path_.string() + " has schema"));
      EXPECT_THAT(error.what(), HasSubstr(advice));
    }
    EXPECT_EQ(bytes_of(path_), before);
  }
}

}  // namespace
}  // namespace swr
