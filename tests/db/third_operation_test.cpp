// SPDX-License-Identifier: MIT
// A third operation is registered, and the database serves it: no migration, no file of db/ knows
// it.
#include "db/history.h"
#include "db/merge.h"
#include "tests/db/edited_file.h"
#include "tests/db/fictional_operation.h"
#include "tests/db/fixtures.h"
#include <swr/lookup.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

namespace swr {
namespace {

using fictional::Direction;
using fictional::ScanProblem;
using fictional::ScanVariant;

namespace fs = std::filesystem;

ScanProblem scan(int columns) { return {.rows = 16, .columns = columns}; }
ScanVariant threads(int count) { return {.threads = count}; }

class ThirdOperation : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_ / name.c_str(); }

  /// A file with one result for each of the two operations.
  fs::path worker(const std::string& name, int columns, int count, double median_us) const {
    Store store(path(name), Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    store.record(run, scan(columns), fictional_gpu(), measured(threads(count), median_us));
    store.record(run, problem_of(columns), fictional_gpu(), measured(tile(64, 64), median_us));
    return path(name);
  }

  static std::string first_row(const fs::path& file, const std::string& query) {
    SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
    SQLite::Statement row(database, query);
    std::string text;
    if (row.executeStep()) {
      for (int i = 0; i < row.getColumnCount(); ++i) {
        text += (i == 0 ? "" : "|") + row.getColumn(i).getString();
      }
    }
    return text;
  }

  TempDirectory directory_;
};

TEST_F(ThirdOperation, IsStoredAsTextOfItsFieldsAndAxes) {
  const fs::path file = worker("one.db", 4096, 256, 10.0);
  EXPECT_EQ(first_row(file, "SELECT op, kind, sizes FROM problem WHERE op = 'scan'"),
            R"(scan|{"dtype":"fp16"}|{"rows":16,"columns":4096})");
  EXPECT_EQ(first_row(file, "SELECT op, axes FROM variant WHERE op = 'scan'"),
            R"(scan|{"family":"portable","threads":256,"group":"forward"})");
}

TEST_F(ThirdOperation, HasAViewWithItsColumns) {
  const fs::path file = worker("one.db", 4096, 256, 10.0);
  EXPECT_EQ(first_row(file,
                      "SELECT rows, columns, dtype, exclusive, family, threads, \"group\", "
                      "coalesce(items, 'none'), keeps_carry, time_us, op FROM scan_results"),
            "16|4096|fp16|0|portable|256|forward|none|off|10.0|scan");
}

TEST_F(ThirdOperation, ComesBackAsItWasStored) {
  const ScanVariant wide{.family = Family::hopper,
                         .threads = 512,
                         .direction = Direction::backward,
                         .items = 8,
                         .keeps_carry = true};
  ScanProblem exclusive = scan(4096);
  exclusive.exclusive = true;
  Store store(path("one.db"), Store::Mode::read_write);
  const long long run = store.begin_run(some_run());
  const long long id = store.record(run, exclusive, fictional_gpu(), measured(wide, 10.0));
  EXPECT_EQ(store.result(id).problem, exclusive);
  EXPECT_EQ(store.result(id).result.variant, wide);
  const History history = read_history(path("one.db"));
  ASSERT_THAT(history.places, SizeIs(1));
  EXPECT_EQ(history.places[0].problem, exclusive);
  EXPECT_EQ(history.places[0].results[0].result.variant, wide);
}

TEST_F(ThirdOperation, IsAnsweredByTheRulesOfEveryOperation) {
  Store store(path("one.db"), Store::Mode::read_write);
  const long long run = store.begin_run(some_run());
  for (const auto& [columns, count, time_us] :
       {std::tuple{4096, 256, 10.0}, {4096, 512, 9.0}, {65536, 1024, 100.0}}) {
    store.record(run, scan(columns), fictional_gpu(), measured(threads(count), time_us));
  }
  store.record(run, problem_of(4096), fictional_gpu(), measured(tile(64, 64), 1.0));
  const Lookup lookup(path("one.db"));
  const auto answer_like = [&](const ScanProblem& asked, MatchLevel level, int count) {
    const Answer answer = lookup.best(asked, fictional_gpu());
    EXPECT_EQ(answer.level, level);
    EXPECT_EQ(answer.variant, threads(count));
    const auto match = store.best(asked, fictional_gpu());
    if (level == MatchLevel::default_only) {
      EXPECT_FALSE(match);
      return answer;
    }
    EXPECT_EQ(match->level, level);
    EXPECT_EQ(match->result.variant, threads(count));
    EXPECT_EQ(match->distance, answer.distance);
    return answer;
  };
  answer_like(scan(4096), MatchLevel::exact, 512);
  EXPECT_EQ(answer_like(scan(8192), MatchLevel::nearest, 512).time_us, 18.0);
  EXPECT_EQ(answer_like(scan(400), MatchLevel::nearest, 256).stored_problem, Problem(scan(4096)));
  answer_like(scan(50000), MatchLevel::nearest, 1024);
  ScanProblem other_kind = scan(4096);
  other_kind.dtype = DType::bf16;
  answer_like(other_kind, MatchLevel::default_only, ScanVariant{}.threads);
  EXPECT_THAT(store.winners(), SizeIs(3));
}

TEST_F(ThirdOperation, IsMergedBesideTheOthers) {
  const std::vector<fs::path> sources{worker("a.db", 4096, 256, 10.0),
                                      worker("b.db", 4096, 512, 9.0),
                                      worker("c.db", 8192, 256, 20.0)};
  const MergeSummary summary = merge_databases(path("all.db"), sources);
  EXPECT_EQ(summary.results, 6U);
  const Store store(path("all.db"), Store::Mode::read_only);
  EXPECT_EQ(store.best(scan(4096), fictional_gpu())->result.variant, threads(512));
  EXPECT_EQ(store.best(scan(8192), fictional_gpu())->result.variant, threads(256));
  EXPECT_THAT(store.results(scan(4096), fictional_gpu()), SizeIs(2));
  EXPECT_EQ(first_row(path("all.db"), "SELECT count(*) FROM problem WHERE op = 'scan'"), "2");
}

TEST_F(ThirdOperation, IsResumed) {
  Store store(path("one.db"), Store::Mode::read_write);
  RunInfo info = some_run();
  info.conditions = "samples=20";
  store.record(store.begin_run(info), scan(4096), fictional_gpu(), measured(threads(256), 10.0));
  const auto known = store.known_results(store.begin_run(info), scan(4096), fictional_gpu());
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_EQ(known[0].result.variant, threads(256));
}

TEST_F(ThirdOperation, IsRefusedWithValuesThatItCannotHave) {
  const fs::path file = worker("one.db", 4096, 256, 10.0);
  edit_file(file, "UPDATE variant SET axes = json_set(axes, '$.items', 4) WHERE op = 'scan'");
  const Error error =
      error_of([&] { Store(file, Store::Mode::read_only).best(scan(4096), fictional_gpu()); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("'items'"));
}

TEST_F(ThirdOperation, ComesToAFileThatWasWrittenWhileItWasUnknown) {
  const fs::path file = worker("one.db", 4096, 256, 10.0);
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
      .exec(
          "DROP VIEW scan_results; "
          "DELETE FROM sample WHERE result_id IN (SELECT result.id FROM result "
          "JOIN problem ON problem.id = problem_id WHERE op = 'scan'); "
          "DELETE FROM result WHERE problem_id IN (SELECT id FROM problem WHERE op = 'scan'); "
          "DELETE FROM problem WHERE op = 'scan'; DELETE FROM variant WHERE op = 'scan'");
  Store store(file, Store::Mode::read_write);
  EXPECT_THAT(store.winners(), SizeIs(1));
  store.record(store.begin_run(some_run()), scan(4096), fictional_gpu(),
               measured(threads(512), 9.0));
  EXPECT_EQ(store.best(scan(4096), fictional_gpu())->result.variant, threads(512));
  EXPECT_THAT(store.winners(), SizeIs(2));
  EXPECT_EQ(first_row(file, "SELECT threads FROM scan_results"), "512");
}

}  // namespace
}  // namespace swr
