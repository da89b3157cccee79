// SPDX-License-Identifier: MIT
// Files that are not what they should be: each gives one clear line and loses nothing.
#include "db/connection.h"
#include "db/history.h"
#include "db/merge.h"
#include "tests/db/edited_file.h"
#include "tests/db/fixtures.h"
#include <swr/lookup.h>

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

namespace swr {
namespace {

class DamageTest : public ::testing::Test {
 protected:
  void create(int results = 1) const {
    Store store(path_, Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    for (int i = 0; i < results; ++i) {
      store.record(run, problem_of(4096 + i), fictional_gpu(), measured(tile(64, 64), 10.0));
    }
  }
  void decide() const {
    Store store(path_, Store::Mode::read_write);
    store.record_decision(store.begin_run(some_run()), problem_of(4096), fictional_gpu(),
                          std::array{Finalist{.result = measured(tile(64, 64), 10.0)}}, 0.01);
  }
  Error open_error(Store::Mode mode) const {
    return error_of([&] { Store(path_, mode); });
  }
  void write_file(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
};

constexpr auto kReadOnly = Store::Mode::read_only;
constexpr auto kReadWrite = Store::Mode::read_write;

TEST_F(DamageTest, AMissingFileCannotBeReadAndIsNotCreated) {
  const Error error = open_error(kReadOnly);
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_THAT(error.what(), HasSubstr(path_.string()));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(DamageTest, MissingDirectoriesAreCreatedForWriting) {
  const auto nested = directory_.path() / "share" / "swr" / "tuned.db";
  Store(nested, kReadWrite).begin_run(some_run());
  EXPECT_TRUE(std::filesystem::exists(nested));
}

TEST_F(DamageTest, ATextFileIsNoDatabaseAndStaysAsItWas) {
  const std::string text = "These are the results of a long week of tuning, in plain text.\n";
  write_file(text);
  EXPECT_EQ(open_error(kReadOnly).code(), ErrorCode::unreadable);
  const Error error = open_error(kReadWrite);
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("no SQLite database"));
  EXPECT_EQ(bytes_of(path_), text);
}

TEST_F(DamageTest, AnotherProgramsDatabaseIsRefusedAndStaysAsItWas) {
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE bookmark (url TEXT)");
  const std::string before = bytes_of(path_);
  const Error error = open_error(kReadWrite);
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("another program"));
  EXPECT_EQ(bytes_of(path_), before);
}

TEST_F(DamageTest, AnEmptyFileHasNothingToRead) {
  write_file("");
  EXPECT_EQ(open_error(kReadOnly).code(), ErrorCode::unreadable);
}

TEST_F(DamageTest, ATruncatedFileIsDamaged) {
  create();
  std::filesystem::resize_file(path_, 5000);
  const Error error = error_of([&] { (void)Store(path_, kReadOnly).winners(); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr(path_.string()));
}

TEST_F(DamageTest, ADamagedPageIsReportedWhenItIsReached) {
  create(100);
  long long offset = 0;
  {
    SQLite::Database database(path_.string());
    offset = database
                 .execAndGet(
                     "SELECT (rootpage - 1) * (SELECT page_size FROM "
                     "pragma_page_size) FROM sqlite_master WHERE name = 'result'")
                 .getInt64();
  }
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offset);
  file << std::string(4096, '\xa5');
  file.close();
  const Error error = open_error(kReadOnly);
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("damaged"));
}

/// As a disk may do it: the value stays one that could be true.
TEST_F(DamageTest, AValueThatNobodyWroteIsFound) {
  for (const char* const change :
       {"UPDATE result SET median_us = 9.5", "UPDATE result SET registers_per_thread = 1",
        "UPDATE result SET problem_id = 2 WHERE id = 1", "UPDATE device SET sm_count = 97",
        "UPDATE problem SET sizes = json_set(sizes, '$.seq_q', 4095) WHERE id = 1",
        "UPDATE variant SET axes = json_set(axes, '$.stages', 3)",
        "UPDATE run SET started_at = '1999-01-01T00:00:00.000Z'", "UPDATE sample SET time_us = 9.5",
        "DELETE FROM sample WHERE result_id = 2", "UPDATE finalist SET ratio = 1.5",
        "UPDATE finalist SET result_id = 1", "UPDATE decision SET winner_id = 2"}) {
    create(2);
    decide();
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE).exec(change);
    for (const Error& error : {open_error(kReadOnly), open_error(kReadWrite),
                               error_of([&] { (void)read_history(path_); })}) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable) << change;
      EXPECT_THAT(error.what(), HasSubstr("changed since it was written")) << change;
    }
    std::filesystem::remove(path_);
  }
}

/// What a lookup reads of a decision decides which of two ties counts.
TEST_F(DamageTest, AFinalistThatNobodyWroteIsFoundByALookup) {
  create();
  decide();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE finalist SET result_id = 1");
  const Error error = error_of([&] { Lookup{path_}; });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("changed since it was written"));
}

TEST_F(DamageTest, AnEditThatSomebodyVouchesForIsBelievedAndSealedAgain) {
  create();
  edit_file(path_, "UPDATE result SET median_us = 9.5");
  EXPECT_EQ(Store(path_, kReadOnly).winners().front().result.time_us(), 9.5);
  Store(path_, kReadWrite).begin_run(some_run());
  SQLite::Database database(path_.string());
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM result WHERE digest IS NULL").getInt(), 0);
}

TEST_F(DamageTest, AResultWhoseRunIsGoneIsNamed) {
  create();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec("PRAGMA foreign_keys = OFF; DELETE FROM run");
  const Error error = error_of([&] { Lookup{path_}; });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("there is no row 1 in table run"));
}

TEST_F(DamageTest, AMissingTableIsReportedWhenItIsReached) {
  create();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec("PRAGMA foreign_keys = OFF; DROP VIEW all_results; DROP TABLE variant");
  EXPECT_EQ(open_error(kReadOnly).code(), ErrorCode::unreadable);
}

/// Each of these would compute for ever.
TEST_F(DamageTest, AViewInThePlaceOfATableIsRefused) {
  for (const std::string table : {"problem", "result", "run", "device", "variant"}) {
    create();
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
        .exec(
            "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; DROP VIEW all_results;"
            "ALTER TABLE " +
            table + " RENAME TO kept; CREATE VIEW " + table +
            " AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT kept.* FROM kept, n");
    EXPECT_EQ(error_of([&] { (void)Store(path_, kReadOnly).winners(); }).code(),
              ErrorCode::unreadable)
        << table;
    std::filesystem::remove(path_);
  }
}

TEST_F(DamageTest, ATriggerOfOthersChangesNothing) {
  create();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec("CREATE TRIGGER steal AFTER INSERT ON result BEGIN DELETE FROM result; END");
  create();
  EXPECT_EQ(Store(path_, kReadOnly).results(problem_of(4096), fictional_gpu()).size(), 1U);
  SQLite::Database database(path_.string());
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM result").getInt(), 2);
}

/// Reading or writing a row would run what the file says.
TEST_F(DamageTest, ASchemaThatComputesIsRefused) {
  for (const char* const change :
       {"CREATE VIRTUAL TABLE notes USING fts5(text)",
        "ALTER TABLE result ADD COLUMN twice REAL AS (median_us * 2)",
        "CREATE TABLE notes (id INTEGER, text TEXT AS (hex(zeroblob(id))) STORED)",
        "CREATE INDEX slow ON result (hex(state))"}) {
    create();
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE).exec(change);
    for (const Error& error :
         {open_error(kReadOnly), open_error(kReadWrite), error_of([&] { Lookup{path_}; }),
          error_of([&] { (void)read_history(path_); })}) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable) << change;
      EXPECT_THAT(error.what(), HasSubstr("which no database of swr has")) << change;
    }
    std::filesystem::remove(path_);
  }
}

/// A virtual table whose row says that it has pages, as an ordinary one.
TEST_F(DamageTest, AVirtualTableInDisguiseIsRefused) {
  create();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec(
          "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('table', 'notes', "
          "'notes', 2, 'create /* */ virtual table notes using fts5(text)')");
  EXPECT_THAT(open_error(kReadOnly).what(), HasSubstr("the virtual table notes"));
}

/// What writing a row would compute; reading does not.
TEST_F(DamageTest, AFileWhoseTablesWereChangedIsReadAndNotWritten) {
  for (const char* const change :
       {"PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, "
        "'CHECK (sm_count > 0)', 'CHECK (hex(zeroblob(sm_count)) > 0)') WHERE name = 'device'",
        "CREATE INDEX slow ON result (state) WHERE hex(zeroblob(id)) > 'a'",
        "DROP INDEX result_unsealed"}) {
    create();
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE).exec(change);
    EXPECT_EQ(Store(path_, kReadOnly).winners().size(), 1U) << change;
    const Error error = open_error(kReadWrite);
    EXPECT_EQ(error.code(), ErrorCode::not_writable) << change;
    EXPECT_THAT(error.what(), HasSubstr("db merge --out NEW")) << change;
    std::filesystem::remove(path_);
  }
}

TEST_F(DamageTest, TablesViewsAndIndexesThatSomebodyAddedAreLeftAlone) {
  create();
  SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
      .exec(
          "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); CREATE VIEW fast AS SELECT * "
          "FROM result WHERE median_us < 5; CREATE INDEX by_time ON result (median_us)");
  create();
  EXPECT_EQ(Store(path_, kReadOnly).winners().size(), 1U);
}

/// The newest row counts, and SQLite numbers those after the last id at random.
TEST_F(DamageTest, ARowThatNoneCouldFollowIsReadAndNotAddedTo) {
  create();
  edit_file(path_,
            "UPDATE result SET id = 9223372036854775807; "
            "UPDATE sample SET result_id = 9223372036854775807");
  EXPECT_THAT(open_error(kReadWrite).what(), HasSubstr("swr-tune db merge --out NEW"));
  EXPECT_EQ(Store(path_, kReadOnly).winners().size(), 1U);
}

TEST_F(DamageTest, AMergeCountsRunsOfAClockThatWasAhead) {
  create();
  edit_file(path_, "UPDATE run SET started_at = '2999-01-01T00:00:00.000Z'");
  EXPECT_EQ(merge_databases(directory_ / "merged.db", std::array{path_}).runs_ahead, 1U);
}

TEST_F(DamageTest, ADirectoryIsNoDatabase) {
  const Error error = error_of([&] { Store(directory_.path(), kReadWrite); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("directory"));
}

TEST_F(DamageTest, APipeIsRefusedInsteadOfBlocking) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0644), 0);
  EXPECT_EQ(open_error(kReadOnly).code(), ErrorCode::unreadable);
}

TEST_F(DamageTest, AFileWithoutReadPermissionIsUnreadable) {
  create();
  chmod(path_.c_str(), 0);
  const WithoutPrivileges nobody;
  EXPECT_EQ(open_error(kReadOnly).code(), ErrorCode::unreadable);
  EXPECT_EQ(open_error(kReadWrite).code(), ErrorCode::unreadable);
}

TEST_F(DamageTest, AReadOnlyDirectoryIsNotWritable) {
  chmod(directory_.path().c_str(), 0555);
  const WithoutPrivileges nobody;
  const Error error = open_error(kReadWrite);
  EXPECT_EQ(error.code(), ErrorCode::not_writable);
  EXPECT_THAT(error.what(), HasSubstr(directory_.path().string()));
}

TEST_F(DamageTest, AWriteProtectedFileIsNotWritable) {
  create();
  chmod(directory_.path().c_str(), 0777);
  chmod(path_.c_str(), 0444);
  const WithoutPrivileges nobody;
  EXPECT_EQ(open_error(kReadWrite).code(), ErrorCode::not_writable);
}

TEST_F(DamageTest, AFileClosedCleanlyIsReadFromAReadOnlyDirectory) {
  path_ = directory_ / "100% tuned? #1.db";
  create(3);
  chmod(path_.c_str(), 0444);
  chmod(directory_.path().c_str(), 0555);
  const WithoutPrivileges nobody;
  EXPECT_EQ(Store(path_, kReadOnly).winners().size(), 3U);
}

TEST_F(DamageTest, NamesWithAMeaningToSqliteArePlainFiles) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  Store(":memory:", kReadWrite).begin_run(some_run());
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(directory_ / ":memory:"));
  EXPECT_EQ(error_of([] { Store("", kReadWrite); }).code(), ErrorCode::invalid_argument);
}

TEST_F(DamageTest, AHeldLockIsReportedWithTheFile) {
  SQLite::Database holder(path_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  const SQLite::Transaction lock(holder, SQLite::TransactionBehavior::IMMEDIATE);
  const Error error = error_of([&] {
    open_database(path_, kReadWrite, Store::Content::tuned, std::chrono::milliseconds(10));
  });
  EXPECT_EQ(error.code(), ErrorCode::database_locked);
  EXPECT_THAT(error.what(), HasSubstr(path_.string()));
}

struct Edit {
  const char* name;
  const char* sql;
  const char* complaint;
};

/// A row edited by hand must be recognised before its values reach a kernel's source.
class EditedRowTest : public DamageTest, public ::testing::WithParamInterface<Edit> {};

TEST_P(EditedRowTest, IsNamedWithItsTableAndValue) {
  create();
  edit_file(path_, GetParam().sql);
  const Store store(path_, kReadOnly);
  for (const Error& error : {error_of([&] { (void)store.winners(); }), error_of([&] {
                               (void)store.best(problem_of(4096), fictional_gpu());
                             })}) {
    EXPECT_EQ(error.code(), ErrorCode::unreadable);
    EXPECT_THAT(error.what(), HasSubstr("row 1 "));
    EXPECT_THAT(error.what(), HasSubstr(path_.string()));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Damage, EditedRowTest,
    ::testing::Values(
        Edit{"Axis", "UPDATE variant SET axes = json_set(axes, '$.tile_m', -5)", "tile_m"},
        Edit{"Stages", "UPDATE variant SET axes = json_set(axes, '$.stages', 4000000000)",
             "stages"},
        Edit{"AxisText", "UPDATE variant SET axes = json_set(axes, '$.order', 'cyclic}; evil(')",
             "order"},
        Edit{"Family", "UPDATE variant SET axes = json_set(axes, '$.family', 'hopper_next')",
             "family"},
        Edit{"AxisOfAnotherType", "UPDATE variant SET axes = json_set(axes, '$.tile_m', 64.5)",
             "tile_m"},
        Edit{"AxisWithoutText", "UPDATE variant SET axes = json_set(axes, '$.order', 1)", "order"},
        Edit{"MissingAxis", "UPDATE variant SET axes = json_remove(axes, '$.tile_m')", "tile_m"},
        Edit{"MissingFamily", "UPDATE variant SET axes = json_remove(axes, '$.family')", "family"},
        Edit{"AxisOfNobody", "UPDATE variant SET axes = json_set(axes, '$.turbo', 1)", "turbo"},
        Edit{"AxisOfAnotherFamily", "UPDATE variant SET axes = json_set(axes, '$.unroll', 1)",
             "unroll"},
        Edit{"AxisTwice", "UPDATE variant SET axes = replace(axes, '}', ',\"tile_m\":64}')",
             "tile_m"},
        Edit{"NoObject", "UPDATE variant SET axes = '{'", "axes"},
        Edit{"AList", "UPDATE problem SET kind = '[1]'", "kind"},
        Edit{"EndlessText",
             "UPDATE variant SET axes = '{\"family\":\"' || hex(zeroblob(9000)) || "
             "'\"}'",
             "axes"},
        Edit{"DeepText", "UPDATE problem SET sizes = replace(hex(zeroblob(900)), '0', '[')",
             "sizes"},
        Edit{"MissingSize", "UPDATE problem SET sizes = json_remove(sizes, '$.seq_q')", "seq_q"},
        Edit{"OperationOfAProblem", "UPDATE problem SET op = 'convolution'", "convolution"},
        Edit{"OperationOfAVariant", "UPDATE variant SET op = 'convolution'", "convolution"},
        Edit{"VariantOfAnotherOperation",
             "UPDATE variant SET op = 'gemm', axes = '{\"family\":\"portable\","
             "\"tile_m\":64,\"tile_n\":64,\"tile_k\":32,\"stages\":2,"
             "\"warps_m\":2,\"warps_n\":2,\"persistence\":\"grid\","
             "\"workers\":0,\"k_order\":\"cyclic\",\"splits\":1,"
             "\"raster\":\"along_n\",\"raster_group\":1,"
             "\"swizzle_stride\":0}'",
             "variant of gemm"},
        Edit{"State", "UPDATE result SET state = 'fine'", "result state"},
        Edit{"Provenance", "UPDATE result SET provenance = 'guessed'", "provenance"},
        Edit{"Registers", "UPDATE result SET registers_per_thread = 100000",
             "registers_per_thread"},
        Edit{"Time", "UPDATE result SET median_us = -1.0", "median_us"},
        Edit{"InfiniteTime", "UPDATE result SET median_us = 9e999", "median_us"},
        Edit{"NoTime", "UPDATE result SET median_us = NULL", "median_us"},
        Edit{"ZeroTime", "UPDATE result SET median_us = 0.0", "time"},
        Edit{"HalfCounters", "UPDATE result SET sectors_demanded = 3", "l2_lookups"},
        Edit{"Sample", "UPDATE sample SET time_us = -3.0", "time_us"},
        Edit{"DType", "UPDATE problem SET kind = json_set(kind, '$.dtype', 'fp8')", "dtype"},
        Edit{"HeadDim", "UPDATE problem SET kind = json_set(kind, '$.head_dim', 63)", "head-dim"},
        Edit{"Sequence", "UPDATE problem SET sizes = json_set(sizes, '$.seq_q', 5000000000)",
             "seq_q"},
        Edit{"SmCount", "UPDATE device SET sm_count = 0", "sm_count"},
        Edit{"Bandwidth", "UPDATE device SET dram_gb_per_s = -1.0", "dram_gb_per_s"}),
    [](const auto& edit) { return edit.param.name; });

}  // namespace
}  // namespace swr
