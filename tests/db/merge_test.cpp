// SPDX-License-Identifier: MIT
#include "db/merge.h"

#include "db/connection.h"
#include "tests/db/edited_file.h"
#include "tests/db/fixtures.h"
#include <swr/lookup.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <sys/resource.h>
#include <sys/wait.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// Every row of a table as text, references as ids.
std::vector<std::string> rows_of(const fs::path& path, const std::string& query) {
  SQLite::Database database(path.string(), SQLite::OPEN_READONLY);
  SQLite::Statement row(database, query);
  std::vector<std::string> rows;
  while (row.executeStep()) {
    std::string text;
    for (int i = 0; i < row.getColumnCount(); ++i) {
      text += row.getColumn(i).getString() + "|";
    }
    rows.push_back(text);
  }
  return rows;
}

std::vector<std::string> everything_in(const fs::path& path) {
  std::vector<std::string> all;
  for (const char* table : {"device", "kernel", "problem", "variant", "run", "result", "sample",
                            "decision", "finalist", "gpu_reference"}) {
    for (const std::string& row : rows_of(path, std::string("SELECT * FROM ") + table)) {
      all.push_back(table + (" " + row));
    }
  }
  return all;
}

class MergeTest : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_ / name.c_str(); }

  /// A worker's file: a run whose winner of the problem is `tile_m`, decided by finals.
  fs::path worker(const std::string& name, int seq, int tile_m, RunInfo run = some_run(),
                  const DeviceInfo& device = fictional_gpu()) const {
    Store store(path(name), Store::Mode::read_write);
    const long long run_id = store.begin_run(run);
    const auto problem = problem_of(seq);
    store.record(run_id, problem, device, measured(tile(tile_m, 64), 10.0));
    store.record(run_id, problem, device, measured(tile(tile_m, 32), 20.0));
    const Finalist winner{.result = measured(tile(tile_m, 64), 11.0), .tied = true};
    const Finalist loser{measured(tile(tile_m, 32), 21.0), 1.9, 1.8, 2.0, false};
    store.record_decision(run_id, problem, device, std::vector{winner, loser}, 0.005);
    store.record_reference(run_id, device, some_reference(""));
    store.record_reference(run_id, device, some_reference(to_string(problem)));
    store.finish_run(run_id);
    return path(name);
  }

  MergeSummary merge(const std::vector<fs::path>& sources) const {
    return merge_databases(out_, sources);
  }

  /// Sets when a file's runs began.
  static void began_at(const fs::path& file, const std::string& time) {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    SQLite::Statement update(database, "UPDATE run SET started_at = ?, digest = NULL");
    update.bind(1, time);
    update.exec();
  }

  TempDirectory directory_;
  fs::path out_ = path("merged.db");
};

TEST_F(MergeTest, KeepsEveryRowWithItsRunSamplesAndDecision) {
  const MergeSummary added =
      merge({worker("a.db", 1024, 64), worker("b.db", 2048, 128), worker("c.db", 1024, 96)});
  EXPECT_EQ(added.runs, 3U);
  EXPECT_EQ(added.results, 12U);
  EXPECT_EQ(added.decisions, 3U);
  EXPECT_EQ(rows_of(out_, "SELECT * FROM problem").size(), 2U);
  EXPECT_EQ(rows_of(out_, "SELECT * FROM device").size(), 1U);
  EXPECT_EQ(rows_of(out_, "SELECT * FROM sample").size(), 12U);
  EXPECT_THAT(
      rows_of(out_,
              "SELECT seq_q, tile_m, tile_n, time_us, sampling, won, nvrtc_version "
              "FROM attention_results WHERE seq_q = 2048 ORDER BY result_id"),
      ElementsAre("2048|128|64|10.0|screening|0|13.0|", "2048|128|32|20.0|screening|0|13.0|",
                  "2048|128|64|11.0|screening|1|13.0|", "2048|128|32|21.0|screening|0|13.0|"));
  EXPECT_EQ(rows_of(out_,
                    "SELECT * FROM finalist JOIN result ON result.id = result_id JOIN "
                    "decision ON decision.id = decision_id AND "
                    "decision.run_id = result.run_id")
                .size(),
            6U);
  EXPECT_EQ(rows_of(out_, "SELECT * FROM run WHERE finished_at IS NULL").size(), 0U);
  const Store merged(out_, Store::Mode::read_only);
  EXPECT_EQ(merged.best(problem_of(2048), fictional_gpu())->result.variant, tile(128, 64));
  ASSERT_EQ(merged.references(2).size(), 2U);
  EXPECT_EQ(merged.references(2)[0].tuned, "");
  EXPECT_EQ(merged.references(2)[1].tuned, to_string(problem_of(2048)));
}

TEST_F(MergeTest, CarriesEnergyAndWhoWonByIt) {
  const fs::path file = worker("a.db", 1024, 64);
  const fs::path before = path("before.db");
  fs::copy_file(file, before);
  {
    Store store(file, Store::Mode::read_write);
    const auto stored = store.results(problem_of(1024), fictional_gpu());
    std::vector<RankedResult> ranked;
    for (const StoredResult& one : stored) {
      Measurement with_energy = *one.result.measurement();
      with_energy.energy = Energy{
          .samples_mj = {20.0 / one.result.time_us()}, .launch_us = 12.0, .idle_power_w = 80.0};
      store.record_energy(one.id, with_energy);
      ranked.insert(ranked.begin(), {one.id});  // The slower is the more frugal.
    }
    store.record_choice(1, problem_of(1024), fictional_gpu(), "energy", ranked, 0.02);
  }
  EXPECT_EQ(merge({before, worker("b.db", 2048, 128), file}).decisions, 3U);
  const auto answer = [this](const std::string& objective) {
    LookupOptions options{.objective = objective};
    return Lookup(out_, options).best(problem_of(1024), fictional_gpu());
  };
  EXPECT_EQ(answer("time").variant, tile(64, 64));
  EXPECT_EQ(answer("energy").variant, tile(64, 32));
  const Store merged(out_, Store::Mode::read_only);
  const StoredResult best = merged.result(answer("energy").result_id);
  EXPECT_EQ(best.result.measurement()->energy->samples_mj.size(), 1U);
  EXPECT_THAT(rows_of(out_, "SELECT won, won_by FROM attention_results WHERE won_by <> ''"),
              ElementsAre("0|energy|"));
}

TEST_F(MergeTest, AddsNothingWhenRepeatedAndSkipsItself) {
  const std::vector sources{worker("a.db", 1024, 64), worker("b.db", 2048, 128)};
  merge(sources);
  const auto first = everything_in(out_);
  const MergeSummary again = merge({sources[1], out_, sources[0], sources[0]});
  EXPECT_EQ(again.runs + again.results + again.decisions, 0U);
  EXPECT_EQ(everything_in(out_), first);
  EXPECT_THAT(error_of([&] { merge({out_}); }).what(), HasSubstr("nothing to merge"));
}

TEST_F(MergeTest, GivesTheSameWhateverTheOrder) {
  const std::vector sources{worker("a.db", 1024, 64), worker("b.db", 1024, 128),
                            worker("c.db", 2048, 96)};
  began_at(sources[0], "2026-01-03T00:00:00.000Z");
  began_at(sources[1], "2026-01-01T00:00:00.000Z");
  began_at(sources[2], "2026-01-02T00:00:00.000Z");
  merge_databases(path("forth.db"), sources);
  merge_databases(path("back.db"), std::vector{sources[2], sources[1], sources[0]});
  const std::string question =
      "SELECT sizes, axes, time_us, won, started_at FROM all_results ORDER BY result_id";
  EXPECT_EQ(rows_of(path("forth.db"), question), rows_of(path("back.db"), question));
  EXPECT_EQ(rows_of(path("forth.db"), "SELECT * FROM sample"),
            rows_of(path("back.db"), "SELECT * FROM sample"));
}

TEST_F(MergeTest, TheRunThatBeganLastDecidesNotTheFileMergedLast) {
  const fs::path today = worker("today.db", 1024, 64);
  const fs::path archive = worker("archive.db", 1024, 128);
  began_at(archive, "2020-01-01T00:00:00.000Z");
  merge({today});
  merge({archive});
  const Store merged(out_, Store::Mode::read_only);
  EXPECT_EQ(merged.best(problem_of(1024), fictional_gpu())->result.variant, tile(64, 64));
  EXPECT_EQ(merged.results(problem_of(1024), fictional_gpu()).size(), 4U);
}

TEST_F(MergeTest, FollowsAFileThatGrew) {
  const fs::path file = path("a.db");
  Store store(file, Store::Mode::read_write);
  const long long run = store.begin_run(some_run());
  VariantResult result = measured(tile(64, 64), 10.0);
  auto& measurement = std::get<Measurement>(result.outcome);
  measurement.counters_missing_because = "not counted yet";
  const long long row = store.record(run, problem_of(1024), fictional_gpu(), result);
  EXPECT_EQ(merge({file}).results, 1U);

  measurement.counters = Counters{1, 2, 3, 4, 5, 6, 7};
  measurement.counters_missing_because = "";
  measurement.accesses = AccessCounters{.smem_load_wavefronts = 5, .smem_load_conflicts = 1};
  store.record_counters(row, measurement);
  store.record_accesses(row, measurement);
  store.record(run, problem_of(2048), fictional_gpu(), measured(tile(64, 64), 30.0));
  store.finish_run(run);
  const MergeSummary added = merge({file});
  EXPECT_EQ(added.runs, 0U);
  EXPECT_EQ(added.results, 1U);
  EXPECT_THAT(rows_of(out_, "SELECT l2_misses, counters_missing_because FROM result LIMIT 1"),
              ElementsAre("4||"));
  EXPECT_THAT(rows_of(out_, "SELECT smem_load_conflicts, tma_load_sectors FROM result LIMIT 1"),
              ElementsAre("1||"));
  EXPECT_EQ(rows_of(out_, "SELECT * FROM run WHERE finished_at IS NOT NULL").size(), 1U);
}

TEST_F(MergeTest, KeepsOtherDevicesApartWhateverTheirEnvironment) {
  DeviceInfo other = fictional_gpu();
  other.name = "Fictional F2";
  other.sm_count = 48;
  RunInfo run = some_run();
  run.driver_version = "12.0";
  merge({worker("a.db", 1024, 64), worker("b.db", 1024, 128, run, other)});
  const Store merged(out_, Store::Mode::read_only);
  EXPECT_EQ(merged.best(problem_of(1024), fictional_gpu())->result.variant, tile(64, 64));
  EXPECT_EQ(merged.best(problem_of(1024), other)->result.variant, tile(128, 64));
}

struct OtherEnvironment {
  const char* what;
  void (*change)(RunInfo&);
};

class EnvironmentTest : public MergeTest, public ::testing::WithParamInterface<OtherEnvironment> {};

TEST_P(EnvironmentTest, IsRefusedWithTheReasonAndNothingChanges) {
  RunInfo run = some_run();
  run.conditions = "samples=50";
  merge({worker("a.db", 1024, 64, run)});
  const auto before = everything_in(out_);
  GetParam().change(run);
  const fs::path other = worker("b.db", 2048, 128, run);
  const Error error = error_of([&] { merge({other}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr(std::string(GetParam().what) + " differ"), HasSubstr("b.db"),
                    HasSubstr("merged.db"), HasSubstr("Fictional F1")));
  EXPECT_EQ(everything_in(out_), before);
  // Between two sources too, before anything is created.
  EXPECT_THAT(error_of([&] {
                merge_databases(path("new.db"), std::vector{path("a.db"), other});
              }).what(),
              HasSubstr("a.db"));
  EXPECT_FALSE(fs::exists(path("new.db")));
}

INSTANTIATE_TEST_SUITE_P(
    Differences, EnvironmentTest,
    ::testing::Values(
        OtherEnvironment{"templates", [](RunInfo& run) { run.templates_digest = "11ee"; }},
        OtherEnvironment{"NVRTC", [](RunInfo& run) { run.nvrtc_version = "12.9"; }},
        OtherEnvironment{"driver", [](RunInfo& run) { run.driver_version = "12.9"; }},
        OtherEnvironment{"L2 state", [](RunInfo& run) { run.l2_state = "cold"; }},
        OtherEnvironment{"conditions", [](RunInfo& run) { run.conditions = "samples=9"; }}));

TEST_F(MergeTest, AFileThatHoldsTwoEnvironmentsMergesWithEither) {
  RunInfo later = some_run();
  later.driver_version = "14.0";
  worker("old.db", 1024, 64);
  const fs::path history = worker("old.db", 2048, 64, later);
  const MergeSummary added = merge({worker("new.db", 4096, 64, later), history});
  EXPECT_EQ(added.runs, 3U);
}

TEST_F(MergeTest, DamagedSourcesLeaveTheTargetAlone) {
  merge({worker("a.db", 1024, 64)});
  const auto before = everything_in(out_);
  const fs::path good = worker("good.db", 2048, 64);
  std::ofstream(path("text.db")) << "no database";
  fs::copy_file(good, path("short.db"));
  fs::resize_file(path("short.db"), 8192);
  fs::copy_file(good, path("edited.db"));
  edit_file(path("edited.db"), "UPDATE variant SET axes = json_set(axes, '$.order', 'sideways')");
  fs::copy_file(good, path("flipped.db"));
  SQLite::Database(path("flipped.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE sample SET time_us = time_us / 2");
  fs::copy_file(good, path("orphan.db"));
  edit_file(path("orphan.db"), "DELETE FROM run");
  for (const char* bad :
       {"text.db", "short.db", "edited.db", "flipped.db", "orphan.db", "absent.db"}) {
    const Error error = error_of([&] { merge({good, path(bad)}); });
    EXPECT_THAT(error.what(), HasSubstr(bad));
    EXPECT_EQ(everything_in(out_), before) << bad;
  }
}

TEST_F(MergeTest, ATargetThatAnotherHasOpenIsRefused) {
  merge({worker("a.db", 1024, 64)});
  const Store reader(out_, Store::Mode::read_only);
  reader.winners();
  const Error error = error_of([&] { merge({worker("b.db", 2048, 64)}); });
  EXPECT_EQ(error.code(), ErrorCode::database_locked);
  EXPECT_EQ(reader.winners().size(), 1U);
}

TEST_F(MergeTest, AFullDiskLeavesTheTargetAsItWas) {
  merge({worker("a.db", 1024, 64)});
  const auto before = everything_in(out_);
  {
    Store store(path("large.db"), Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    for (int i = 1; i < 400; ++i) {
      store.record(run, problem_of(64 * i), fictional_gpu(), measured(tile(64, 64), i));
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    // Files of this process may not grow further: writing beyond fails as on a full disk.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      merge({path("large.db")});
    } catch (const Error& error) {
      const bool names_target = std::string(error.what()).find("merged.db") != std::string::npos;
      _exit(error.code() == ErrorCode::not_writable && names_target ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(everything_in(out_), before);
  EXPECT_EQ(merge({path("large.db")}).results, 399U);
}

TEST_F(MergeTest, ReplayedAndTunedResultsStayApart) {
  {
    Store replayed(path("replayed.db"), Store::Mode::read_write, Store::Content::replayed);
    replayed.record(replayed.begin_run(some_run()), problem_of(64), fictional_gpu(),
                    measured(tile(64, 64), 1.0));
  }
  EXPECT_EQ(merge_databases(path("also.db"), std::vector{path("replayed.db")}).results, 1U);
  EXPECT_THAT(error_of([&] { Store(path("also.db"), Store::Mode::read_only); }).what(),
              HasSubstr("--replayed"));
  EXPECT_TRUE(Store(path("also.db"), Store::Mode::read_only, Store::Content::replayed)
                  .best(problem_of(64), fictional_gpu()));
  const fs::path tuned = worker("a.db", 1024, 64);
  error_of([&] { merge({tuned, path("replayed.db")}); });
  merge({tuned});
  error_of([&] { merge({path("replayed.db")}); });
}

TEST_F(MergeTest, KnowsEveryTableOfTheSchema) {
  worker("a.db", 1024, 64);
  EXPECT_THAT(rows_of(path("a.db"),
                      "SELECT name FROM sqlite_master WHERE type = 'table' "
                      "ORDER BY name"),
              ElementsAre("decision|", "device|", "finalist|", "gpu_reference|", "kernel|",
                          "problem|", "result|", "run|", "sample|", "variant|"))
      << "teach db/merge.cpp the new table";
}

}  // namespace
}  // namespace swr
