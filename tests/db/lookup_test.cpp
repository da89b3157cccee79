// SPDX-License-Identifier: MIT
// The lookup of programs that serve: its answers against the rules applied to every record, and
// what happens when the file changes while threads ask.
#include "core/recorded_space.h"
#include "db/lookup_table.h"
#include "db/problem_key.h"
#include "db/shape_tree.h"
#include "tests/db/edited_file.h"
#include "tests/db/fixtures.h"
#include "tests/support/waiting.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/lookup.h>

#include <SQLiteCpp/Database.h>

#include <iomanip>

namespace swr {
namespace {

namespace fs = std::filesystem;

class LookupTest : public ::testing::Test {
 protected:
  void record(const Problem& problem, const VariantResult& result,
              const DeviceInfo& device = fictional_gpu()) {
    store_.record(run_, problem, device, result);
  }

  /// With its log, and open nowhere.
  fs::path copied() const {
    const fs::path copy = directory_ / "copy.db";
    fs::copy_file(path_, copy);
    fs::copy_file(path_.string() + "-wal", copy.string() + "-wal");
    return copy;
  }

  TempDirectory directory_;
  fs::path path_ = directory_ / "tuned.db";
  Store store_{path_, Store::Mode::read_write};
  long long run_ = store_.begin_run(some_run());
};

/// A good one, which no closed form calls much worse than its own.
AttentionVariant good_tile() {
  return {.family = Family::hopper,
          .tile_m = 128,
          .tile_n = 64,
          .warps = 8,
          .mainloop = Mainloop::overlap};
}

VariantResult counted(const Variant& variant, double median_us, long long l2_misses) {
  VariantResult result = measured(variant, median_us);
  auto& measurement = std::get<Measurement>(result.outcome);
  measurement.counters = Counters{.l2_misses = l2_misses};
  measurement.counters_missing_because.clear();
  return result;
}

TEST_F(LookupTest, AnExactAnswerCarriesTimeAndMisses) {
  record(problem_of(4096), counted(tile(64, 64), 10.0, 777));
  const Answer answer = Lookup(path_, without_shipped()).best(problem_of(4096), fictional_gpu());
  EXPECT_EQ(answer.level, MatchLevel::exact);
  EXPECT_TRUE(answer.on_same_device);
  EXPECT_EQ(answer.variant, tile(64, 64));
  EXPECT_EQ(answer.time_us, 10.0);
  EXPECT_EQ(answer.l2_misses, 777);
  EXPECT_EQ(answer.distance, 0.0);
  EXPECT_EQ(answer.result_id, store_.results(problem_of(4096), fictional_gpu())[0].id);
}

TEST_F(LookupTest, ANearAnswerScalesTheTimeByTheWorkAndKnowsNoMisses) {
  record(problem_of(4096), counted(good_tile(), 10.0, 777));
  const Answer answer = Lookup(path_, without_shipped()).best(problem_of(5120), fictional_gpu());
  EXPECT_EQ(answer.level, MatchLevel::nearest);
  EXPECT_EQ(answer.stored_problem, problem_of(4096));
  EXPECT_DOUBLE_EQ(answer.time_us.value(), 10.0 * 1.25 * 1.25) << "the pairs of rows and keys";
  EXPECT_EQ(answer.l2_misses, std::nullopt);
}

/// Counted, with this many bytes read from DRAM beyond the compulsory ones.
VariantResult rereading(const Variant& variant, long long excess_bytes) {
  VariantResult result = counted(variant, 10.0, 777);
  std::get<Measurement>(result.outcome).counters->dram_read_bytes =
      compulsory_bytes(problem_of(4096)).read + excess_bytes;
  return result;
}

TEST_F(LookupTest, StoredExcessMissesAndRegistersDecideTies) {
  record(problem_of(4096), rereading(tile(64, 64), 64000));
  record(problem_of(4096), rereading(tile(128, 64), 32000));
  VariantResult doubtful = rereading(tile(64, 128), 0);
  std::get<Measurement>(doubtful.outcome).counters_missing_because = "another process was seen";
  record(problem_of(4096), doubtful);
  VariantResult wide = rereading(tile(64, 32), 32000);
  ++wide.resources.registers_per_thread;
  record(problem_of(4096), wide);
  const Answer answer = Lookup(path_, without_shipped()).best(problem_of(4096), fictional_gpu());
  EXPECT_EQ(answer.variant, tile(128, 64));
  EXPECT_EQ(answer.l2_misses, 777);
}

TEST_F(LookupTest, PredictedExcessMissesDecideTies) {
  for (const auto& [tile_m, excess] : {std::pair{64, 40}, {128, 30}}) {
    VariantResult result = predicted(tile(tile_m, 64), 5.0);
    std::get<Prediction>(result.outcome).excess_misses = excess;
    record(problem_of(4096), result);
  }
  EXPECT_EQ(Lookup(path_, without_shipped()).best(problem_of(4096), fictional_gpu()).variant,
            tile(128, 64));
}

TEST_F(LookupTest, ResultsFindTheirProblemsWhateverTheIds) {
  const GemmProblem product{.m = 512, .n = 512, .k = 512};
  record(product, measured(GemmVariant{}, 3.0));
  record(problem_of(4096), measured(tile(64, 64), 1.0));
  record(problem_of(8192), measured(tile(64, 64), 2.0));
  edit_file(path_,
            "UPDATE problem SET id = 7000000000 WHERE id = 2;"
            "UPDATE result SET problem_id = 7000000000 WHERE problem_id = 2;"
            "UPDATE problem SET id = 5 WHERE id = 3;"
            "UPDATE result SET problem_id = 5 WHERE problem_id = 3");
  const Lookup lookup(path_, without_shipped());
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).time_us, 1.0);
  EXPECT_EQ(lookup.best(problem_of(8192), fictional_gpu()).time_us, 2.0);
  EXPECT_EQ(lookup.best(product, fictional_gpu()).time_us, 3.0);
}

TEST_F(LookupTest, APredictionIsCalledOneAndSumsItsMisses) {
  VariantResult result = predicted(tile(64, 64), 5.0);
  std::get<Prediction>(result.outcome).compulsory_misses = 30;
  std::get<Prediction>(result.outcome).excess_misses = 12;
  record(problem_of(4096), result);
  const Answer answer = Lookup(path_, without_shipped()).best(problem_of(4096), fictional_gpu());
  EXPECT_EQ(answer.level, MatchLevel::predicted);
  EXPECT_TRUE(answer.on_same_device);
  EXPECT_EQ(answer.l2_misses, 42);
}

TEST_F(LookupTest, APredictionForTheProblemAnswersBeforeMeasuredNeighbours) {
  record(problem_of(5000), measured(tile(128, 64), 4.0));
  record(problem_of(4096), predicted(tile(64, 64), 5.0));
  const Lookup lookup(path_, without_shipped());
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).variant, tile(64, 64));
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).level, MatchLevel::predicted);
  EXPECT_EQ(lookup.stored(problem_of(4900), fictional_gpu())->variant, tile(128, 64));
}

TEST_F(LookupTest, AnotherDevicesMissesAreNotExpectedHere) {
  DeviceInfo cousin = fictional_gpu();
  cousin.sm_count = 48;
  record(problem_of(4096), counted(good_tile(), 10.0, 777), cousin);
  const Answer answer = Lookup(path_, without_shipped()).best(problem_of(4096), fictional_gpu());
  EXPECT_EQ(answer.level, MatchLevel::same_arch);
  EXPECT_FALSE(answer.on_same_device);
  EXPECT_EQ(answer.l2_misses, std::nullopt);
}

TEST_F(LookupTest, WhereNothingFitsTheClosedFormAnswers) {
  const Answer answer = Lookup(path_, without_shipped()).best(problem_of(4096), fictional_gpu());
  EXPECT_EQ(answer.level, MatchLevel::modelled);
  EXPECT_FALSE(check_constraints(problem_of(4096), answer.variant, fictional_gpu()));
  EXPECT_FALSE(answer.on_same_device);
  EXPECT_EQ(answer.stored_problem, problem_of(4096));
  EXPECT_EQ(answer.result_id, 0);
}

TEST_F(LookupTest, AnImpossibleProblemIsRefused) {
  const Lookup lookup(path_, without_shipped());
  AttentionProblem impossible = problem_of(4096);
  impossible.head_dim = 63;
  EXPECT_EQ(error_of([&] { (void)lookup.best(impossible, fictional_gpu()); }).code(),
            ErrorCode::invalid_argument);
}

TEST_F(LookupTest, RefreshReadsTheFileOnlyWhenItChanged) {
  Lookup lookup(path_);
  EXPECT_FALSE(lookup.refresh());
  EXPECT_EQ(lookup.size(), 0U);
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  EXPECT_EQ(lookup.size(), 0U) << "until it is refreshed";
  const auto version = lookup.version();
  EXPECT_TRUE(lookup.refresh());
  EXPECT_NE(lookup.version(), version);
  EXPECT_EQ(lookup.size(), 1U);
  EXPECT_FALSE(lookup.refresh());
}

TEST_F(LookupTest, ACommitIsSeenThatLeavesTheFilesAlike) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  // The next commits write over the log from its start.
  const auto write_log_anew = [&] {
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE)
        .execAndGet("PRAGMA wal_checkpoint(RESTART)");
  };
  write_log_anew();
  record(problem_of(8192), measured(tile(64, 64), 10.0));
  write_log_anew();
  Lookup lookup(path_);
  const fs::path log = path_.string() + "-wal";
  const auto time = fs::last_write_time(log);
  const auto bytes = fs::file_size(log);
  record(problem_of(2048), measured(tile(64, 64), 10.0));
  ASSERT_EQ(fs::file_size(log), bytes);
  fs::last_write_time(log, time);  // As if the clock of files had not ticked meanwhile.
  EXPECT_TRUE(lookup.refresh());
  EXPECT_EQ(lookup.size(), 3U);
  EXPECT_FALSE(lookup.refresh());
}

TEST_F(LookupTest, ALogThatNobodyHasOpenIsReadOnce) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  Lookup lookup(copied());
  EXPECT_EQ(lookup.size(), 1U);
  EXPECT_FALSE(lookup.refresh());
  EXPECT_FALSE(lookup.refresh());
}

TEST_F(LookupTest, CommitsAreSeenThroughALink) {
  const fs::path link = directory_ / "link.db";
  fs::create_symlink("tuned.db", link);
  Lookup lookup(link);
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  EXPECT_TRUE(lookup.refresh());
  record(problem_of(8192), measured(tile(64, 64), 10.0));
  EXPECT_TRUE(lookup.refresh());
  EXPECT_EQ(lookup.size(), 2U);
  EXPECT_FALSE(lookup.refresh());
}

TEST_F(LookupTest, ALockedFileThatIsAsItWasHasNoNews) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  const fs::path copy = copied();
  Lookup lookup(copy);
  SQLite::Database other(copy.string(), SQLite::OPEN_READWRITE);
  other.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE");
  EXPECT_FALSE(lookup.refresh());
}

/// A file that nobody has open, with one result.
void write_closed(const fs::path& path, const VariantResult& result) {
  Store store(path, Store::Mode::read_write);
  store.record(store.begin_run(some_run()), problem_of(4096), fictional_gpu(), result);
}

TEST_F(LookupTest, AReplacedFileIsRead) {
  const fs::path path = directory_ / "shipped.db";
  write_closed(path, measured(tile(64, 64), 10.0));
  Lookup lookup(path);
  write_closed(directory_ / "other.db", measured(tile(128, 64), 5.0));
  fs::rename(directory_ / "other.db", path);
  EXPECT_TRUE(lookup.refresh());
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).variant, tile(128, 64));
}

TEST_F(LookupTest, AFileThatBecameUnreadableLeavesTheFormerAnswers) {
  const fs::path path = directory_ / "shipped.db";
  write_closed(path, measured(tile(64, 64), 10.0));
  Lookup lookup(path);
  fs::remove(path);
  EXPECT_EQ(error_of([&] { lookup.refresh(); }).code(), ErrorCode::not_found);
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).level, MatchLevel::exact);
  EXPECT_EQ(error_of([&] { lookup.refresh(); }).code(), ErrorCode::not_found) << "again";
}

/// As a disk may do it: values stay such that could be true.
TEST_F(LookupTest, ARowThatChangedSinceItWasWrittenNeverAnswers) {
  for (const char* const change :
       {"UPDATE result SET median_us = 9.5", "UPDATE result SET problem_id = 2 WHERE id = 1",
        "UPDATE device SET sm_count = 97",
        "UPDATE problem SET sizes = json_set(sizes, '$.seq_q', 4095) WHERE id = 1",
        "UPDATE variant SET axes = json_set(axes, '$.stages', 3)",
        "UPDATE run SET l2_state = 'cold'"}) {
    const fs::path path = directory_ / "shipped.db";
    {
      Store store(path, Store::Mode::read_write);
      const long long run = store.begin_run(some_run());
      for (const int length : {4096, 8192}) {
        store.record(run, problem_of(length), fictional_gpu(), measured(tile(64, 64), 10.0));
      }
    }
    Lookup lookup(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(change);
    for (const Error& error :
         {error_of([&] { Lookup{path}; }), error_of([&] { lookup.refresh(); })}) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable) << change;
      EXPECT_THAT(error.what(), ::testing::HasSubstr("changed since it was written")) << change;
    }
    EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).time_us, 10.0);
    fs::remove(path);
  }
}

// Questions that are asked again.

TEST_F(LookupTest, ANearQuestionHasTheSameAnswerAgainAndAnotherOneAfterAChange) {
  record(problem_of(4096), measured(good_tile(), 10.0));
  Lookup lookup(path_, without_shipped());
  const Answer first = lookup.best(problem_of(5000), fictional_gpu());
  const Answer again = lookup.best(problem_of(5000), fictional_gpu());
  EXPECT_EQ(again.level, MatchLevel::nearest);
  EXPECT_EQ(again.variant, first.variant);
  EXPECT_EQ(again.time_us, first.time_us);
  EXPECT_EQ(again.stored_problem, problem_of(4096));
  record(problem_of(5000), measured(tile(64, 64), 7.0));
  EXPECT_TRUE(lookup.refresh());
  const Answer after = lookup.best(problem_of(5000), fictional_gpu());
  EXPECT_EQ(after.level, MatchLevel::exact);
  EXPECT_EQ(after.time_us, 7.0);
}

TEST_F(LookupTest, WhatIsRememberedOfOneDeviceAnswersForNoOther) {
  record(problem_of(4096), measured(good_tile(), 10.0));
  const Lookup lookup(path_, without_shipped());
  DeviceInfo other = fictional_gpu();
  other.sm_count = 48;
  DeviceInfo incomplete = fictional_gpu();
  incomplete.registers_per_sm = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(lookup.best(problem_of(5000), fictional_gpu()).level, MatchLevel::nearest);
    EXPECT_EQ(lookup.best(problem_of(5000), other).level, MatchLevel::same_arch);
    EXPECT_EQ(error_of([&] { (void)lookup.best(problem_of(5000), incomplete); }).code(),
              ErrorCode::invalid_argument);
  }
}

TEST(RememberedAnswers, KeepsWhatItWasToldWithinItsBound) {
  RememberedAnswers remembered;
  const auto key = [](int length) { return problem_key(problem_of(length)); };
  EXPECT_FALSE(remembered.find(key(4096), fictional_gpu()));
  Answer answer;
  for (int length = 1; length <= 100000; ++length) {
    answer.distance = length;
    remembered.remember(key(length), fictional_gpu(), answer);
    EXPECT_EQ(remembered.find(key(length), fictional_gpu()).value().distance, length);
  }
  int kept = 0;
  for (int length = 1; length <= 100000; ++length) {
    kept += remembered.find(key(length), fictional_gpu()) ? 1 : 0;
  }
  EXPECT_GT(kept, 1000);
  EXPECT_LE(kept, 16384);
}

TEST_F(LookupTest, AMissingFileIsNotFound) {
  EXPECT_EQ(error_of([&] { Lookup(directory_ / "none.db"); }).code(), ErrorCode::not_found);
}

TEST_F(LookupTest, TwoLookupsInOneThreadAreNotConfused) {
  Store other(directory_ / "other.db", Store::Mode::read_write);
  other.record(other.begin_run(some_run()), problem_of(4096), fictional_gpu(),
               measured(tile(128, 64), 5.0));
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  const Lookup first(path_);
  const Lookup second(directory_ / "other.db");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first.best(problem_of(4096), fictional_gpu()).variant, tile(64, 64));
    EXPECT_EQ(second.best(problem_of(4096), fictional_gpu()).variant, tile(128, 64));
  }
}

TEST_F(LookupTest, TheWatcherSeesAChange) {
  const Lookup lookup(path_, {.watch_every = std::chrono::milliseconds(1)});
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  ASSERT_TRUE(comes_true([&] { return lookup.size() == 1; }));
  fs::remove(path_);
  ASSERT_TRUE(comes_true([&] { return !lookup.watch_error().empty(); }));
  EXPECT_THAT(lookup.watch_error(), ::testing::HasSubstr("does not exist"));
  EXPECT_EQ(lookup.size(), 1U);
}

TEST_F(LookupTest, ThreadsAskWhileTheFileChanges) {
  record(problem_of(4096), measured(tile(64, 64), 1000.0));
  Lookup lookup(path_);
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  std::array<std::atomic<int>, 3> answers{};
  for (auto& count : answers) {
    readers.emplace_back([&] {
      double fastest_us = 1000.0;
      while (!done || count == 0) {
        const Answer answer = lookup.best(problem_of(4096), fictional_gpu());
        EXPECT_EQ(answer.level, MatchLevel::exact);
        EXPECT_LE(answer.time_us.value(), fastest_us) << "answers never go back";
        fastest_us = answer.time_us.value();
        ++count;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    record(problem_of(4096), measured(tile(64, 64), 999.0 - i));
    EXPECT_TRUE(lookup.refresh());
  }
  done = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).time_us, 980.0);
}

/// The documented rules over every record, without an index.
struct Naive {
  const LookupRecords& records;

  struct Found {
    MatchLevel level;
    Problem problem;
    Variant variant;
  };

  std::optional<Found> best(const AttentionProblem& problem, const DeviceInfo& device) const {
    const auto is_exact = [&](const LookupRow* row) {
      return row != nullptr && records.problems[row->problem] == Problem(problem);
    };
    const LookupRow* const predicted = nearest(problem, device, true, Provenance::predicted);
    if (is_exact(predicted) && !is_exact(nearest(problem, device, true, Provenance::measured))) {
      return Found{MatchLevel::predicted, problem, records.variants[predicted->variant]};
    }
    for (const bool same : {true, false}) {
      for (const Provenance provenance : {Provenance::measured, Provenance::predicted}) {
        if (const LookupRow* row = nearest(problem, device, same, provenance)) {
          const Problem& stored = records.problems[row->problem];
          const MatchLevel level = provenance == Provenance::predicted ? MatchLevel::predicted
                                   : !same                             ? MatchLevel::same_arch
                                   : stored == Problem(problem)        ? MatchLevel::exact
                                                                       : MatchLevel::nearest;
          return Found{level, stored, records.variants[row->variant]};
        }
      }
    }
    return std::nullopt;
  }

  /// Squared; a quarter of an octave lies between the 16-bit types.
  static std::optional<double> distance(const Problem& stored, const AttentionProblem& asked) {
    AttentionProblem other = asked;
    other.dtype = asked.dtype == DType::fp16 ? DType::bf16 : DType::fp16;
    for (const auto& [as, extra] : {std::pair{asked, 0.0}, {other, 0.0625}}) {
      if (const auto octaves = shape_distance(stored, as)) {
        return *octaves * *octaves + extra;
      }
    }
    return std::nullopt;
  }

  const LookupRow* nearest(const AttentionProblem& problem, const DeviceInfo& device, bool same,
                           Provenance provenance) const {
    const LookupRow* best = nullptr;
    const auto rank = [&](const LookupRow& row) {
      const DeviceInfo& stored = records.devices[row.device];
      return std::tuple(*distance(records.problems[row.problem], problem),
                        same ? 0.0 : device_distance(stored, device), records.problems[row.problem],
                        row.merit, to_key(records.variants[row.variant]));
    };
    for (const LookupRow& row : records.rows) {
      const DeviceInfo& stored = records.devices[row.device];
      if (row.is_ok && row.provenance == provenance && stored.sm_arch == device.sm_arch &&
          (!same || same_device(stored, device)) &&
          distance(records.problems[row.problem], problem) &&
          !check_constraints(problem, records.variants[row.variant], device) &&
          (best == nullptr || rank(row) < rank(*best))) {
        best = &row;
      }
    }
    return best;
  }
};

template <typename T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

AttentionProblem random_problem(std::mt19937& random) {
  const int heads_kv = pick(random, {1, 2, 4});
  return {.batch = pick(random, {1, 2, 3}),
          .heads_q = heads_kv * pick(random, {1, 2}),
          .heads_kv = heads_kv,
          .seq_q = pick(random, {512, 1024, 1500, 4096}),
          .seq_kv = pick(random, {512, 1024, 1500, 4096}),
          .head_dim = pick(random, {64, 128}),
          .dtype = pick(random, {DType::fp16, DType::bf16}),
          .causal = pick(random, {false, true})};
}

LookupRecords random_records(std::mt19937& random) {
  LookupRecords records;
  for (const auto& [sm_arch, sm_count] : {std::pair{90, 96}, {90, 48}, {90, 120}, {120, 96}}) {
    records.devices.push_back(fictional_gpu());
    records.devices.back().sm_arch = sm_arch;
    records.devices.back().sm_count = sm_count;
  }
  records.devices.push_back(fictional_gpu());
  records.devices.back().name = "the first under another name";
  for (const AttentionVariant& variant :
       {tile(64, 64), tile(128, 64), tile(64, 256),
        AttentionVariant{.swizzle = AttentionSwizzle::head_fastest},
        AttentionVariant{.swizzle = AttentionSwizzle::head_sections, .section_heads = 2}}) {
    records.variants.emplace_back(variant);
  }
  for (int i = 0; i < 40; ++i) {
    const Problem problem = random_problem(random);
    if (std::ranges::find(records.problems, problem) == records.problems.end()) {
      records.problems.push_back(problem);
    }
  }
  const auto below = [&](std::size_t size) { return static_cast<std::uint32_t>(random() % size); };
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, Provenance>> known;
  for (long long id = 1; id <= 120; ++id) {
    LookupRow row{.problem = below(records.problems.size()),
                  .device = below(records.devices.size()),
                  .variant = below(records.variants.size()),
                  .provenance = pick(random, {Provenance::measured, Provenance::predicted}),
                  .is_ok = random() % 8 != 0,
                  .result_id = id,
                  .merit = {.time_us = 1.0 + below(5), .excess_misses = below(2)},
                  .l2_misses = std::nullopt};
    // One row each: which of several counts is the store's tests' matter.
    const std::tuple key(row.problem, row.device % 4, row.variant, row.provenance);
    if (std::ranges::find(known, key) == known.end()) {
      known.push_back(key);
      records.rows.push_back(row);
    }
  }
  return records;
}

TEST(LookupTable, AnswersAsTheRulesOverEveryRecordDo) {
  std::mt19937 random(11);
  int answered = 0;
  for (int round = 0; round < 50; ++round) {
    const LookupRecords records = random_records(random);
    const LookupTable table(records);
    for (int i = 0; i < 100; ++i) {
      const AttentionProblem problem = random_problem(random);
      DeviceInfo device = records.devices[random() % records.devices.size()];
      if (random() % 4 == 0) {
        device.smem_per_cta_bytes = 48 * 1024;
      }
      const auto expected = Naive{records}.best(problem, device);
      const auto answer = table.stored(problem, device);
      EXPECT_EQ(answer.has_value(), expected.has_value());
      if (expected && answer) {
        EXPECT_EQ(answer->level, expected->level);
        EXPECT_EQ(answer->stored_problem, expected->problem);
        EXPECT_EQ(answer->variant, expected->variant);
        ++answered;
      }
    }
  }
  EXPECT_GT(answered, 1000);
}

TEST(LookupTable, AnEmptyTableHasNoAnswer) {
  EXPECT_FALSE(LookupTable({}).find(problem_of(4096), fictional_gpu()));
  EXPECT_TRUE(LookupTable({}).winners().empty());
}

// Which stored shape answers for another, and what that costs.

TEST(Match, EqualShapesAreAtDistanceZero) {
  EXPECT_EQ(shape_distance(problem_of(4096), problem_of(4096)), 0.0);
}

TEST(Match, OneDoublingIsAtDistanceOneInEveryDimension) {
  const AttentionProblem base = problem_of(4096);
  for (int AttentionProblem::*dimension :
       {&AttentionProblem::batch, &AttentionProblem::heads_q, &AttentionProblem::heads_kv,
        &AttentionProblem::seq_q, &AttentionProblem::seq_kv}) {
    AttentionProblem doubled = base;
    doubled.*dimension *= 2;
    EXPECT_DOUBLE_EQ(shape_distance(base, doubled).value(), 1.0);
    EXPECT_DOUBLE_EQ(shape_distance(doubled, base).value(), 1.0);
  }
}

TEST(Match, DimensionsAddUpAsSquares) {
  AttentionProblem far = problem_of(4096);
  far.batch = 8;    // three octaves
  far.seq_q /= 16;  // four
  EXPECT_DOUBLE_EQ(shape_distance(problem_of(4096), far).value(), 5.0);
}

TEST(Match, ProblemsOfAnotherKindHaveNoDistance) {
  const AttentionProblem base = problem_of(4096);
  AttentionProblem other = base;
  other.dtype = DType::bf16;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.head_dim = 128;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.causal = true;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.alignment_bytes = 8;
  EXPECT_FALSE(shape_distance(base, other));
}

TEST(Match, DevicesDifferByTheirSizesNotTheirNames) {
  DeviceInfo other = fictional_gpu();
  other.name = "Fictional F1 Deluxe";
  EXPECT_EQ(device_distance(fictional_gpu(), other), 0.0);
  other.l2_bytes *= 2;
  EXPECT_DOUBLE_EQ(device_distance(fictional_gpu(), other), 1.0);
}

TEST(Match, TheSmallerTimeWinsWhateverTheRest) {
  VariantResult slow = predicted(tile(64, 64), 11.0);
  VariantResult fast = predicted(tile(128, 64), 10.0);
  std::get<Prediction>(fast.outcome).excess_misses = 1000;
  EXPECT_TRUE(is_better(problem_of(4096), fast, slow));
  EXPECT_FALSE(is_better(problem_of(4096), slow, fast));
}

TEST(Match, TiesGoToFewerExcessMissesThenRegistersThenTheKey) {
  const AttentionProblem problem = problem_of(4096);
  VariantResult a = predicted(tile(128, 64), 10.0);
  VariantResult b = predicted(tile(64, 64), 10.0);
  EXPECT_TRUE(is_better(problem, a, b)) << "by key: tile_m=128 sorts before tile_m=64";
  b.resources.registers_per_thread = 100;
  EXPECT_TRUE(is_better(problem, b, a)) << "by registers";
  std::get<Prediction>(b.outcome).excess_misses = 5;
  EXPECT_TRUE(is_better(problem, a, b)) << "by misses";
}

TEST(Match, KnownMissesBeatUnknownOnesInATie) {
  const VariantResult unknown = measured(tile(64, 64), 10.0);
  VariantResult known = measured(tile(64, 64), 10.0);
  auto& measurement = std::get<Measurement>(known.outcome);
  measurement.counters = Counters{.dram_read_bytes = 1LL << 40};
  measurement.counters_missing_because.clear();
  EXPECT_TRUE(is_better(problem_of(4096), known, unknown));
}

template <typename Size>
std::vector<ShapeTree::Point> points_of(std::size_t count, Size&& size) {
  std::vector<ShapeTree::Point> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    points[i].at = shape_point(size(), size(), size(), 3 * size(), size());
    points[i].item = static_cast<std::uint32_t>(i);
  }
  return points;
}

/// Sizes from a coarse grid, so that many points are equal or equally far.
std::vector<ShapeTree::Point> points_of_a_grid(std::size_t count, std::mt19937& random) {
  return points_of(count, [&] { return 1 << random() % 7; });
}

/// Sizes of any kind, large ones among them.
std::vector<ShapeTree::Point> points_anywhere(std::size_t count, std::mt19937& random) {
  return points_of(count, [&] { return 1 + static_cast<int>(random() % (1U << random() % 28)); });
}

/// Every item at the smallest distance, by looking at all of them.
std::set<std::uint32_t> nearest_of_all(const std::vector<ShapeTree::Point>& points,
                                       const ShapePoint& from) {
  double nearest = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> items;
  for (const ShapeTree::Point& point : points) {
    const double squared = squared_distance(point.at, from);
    if (squared < nearest) {
      items.clear();
    }
    nearest = std::min(nearest, squared);
    if (squared == nearest) {
      items.insert(point.item);
    }
  }
  return items;
}

std::set<std::uint32_t> nearest_of_tree(const ShapeTree& tree, const ShapePoint& from) {
  double bound = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> items;
  tree.visit_near(from, bound, [&](std::uint32_t item, double squared) {
    if (squared < bound) {
      items.clear();
    }
    bound = squared;
    items.insert(item);
  });
  return items;
}

void expect_nearest_of_all(const std::vector<ShapeTree::Point>& points,
                           const std::vector<ShapeTree::Point>& questions) {
  const ShapeTree tree(points);
  EXPECT_EQ(tree.size(), points.size());
  for (const ShapeTree::Point& question : questions) {
    EXPECT_EQ(nearest_of_tree(tree, question.at), nearest_of_all(points, question.at));
  }
}

TEST(ShapeTree, FindsEveryNearestPointOfRandomOnes) {
  std::mt19937 random(3);
  for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 16U, 17U, 100U, 1500U}) {
    expect_nearest_of_all(points_of_a_grid(count, random), points_of_a_grid(200, random));
    expect_nearest_of_all(points_anywhere(count, random), points_anywhere(200, random));
  }
}

TEST(ShapeTree, LooksAtFewOfManyPoints) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> length(1, 1 << 20);
  std::vector<ShapeTree::Point> points(10000);
  for (ShapeTree::Point& point : points) {
    point.at = shape_point(1, 16, 16, length(random), length(random));
  }
  const ShapeTree tree(points);
  int considered = 0;
  double bound = std::numeric_limits<double>::infinity();
  tree.visit_near(shape_point(1, 16, 16, 5000, 5000), bound, [&](std::uint32_t, double squared) {
    bound = squared;
    ++considered;
  });
  EXPECT_LT(considered, 100);
}

// The nearest rule judged on recorded spaces: each is left out in turn, and the others answer for
// it. experiments/runtime publishes the table, which this program prints.

/// Every result but those of the space that is left out.
LookupRecords records_without(const std::vector<RecordedSpace>& spaces, const RecordedSpace& out) {
  LookupRecords records;
  records.devices.push_back(out.device);
  long long id = 0;
  for (const RecordedSpace& space : spaces) {
    if (space.problem == out.problem || !same_device(space.device, out.device)) {
      continue;
    }
    records.problems.push_back(space.problem);
    for (const VariantResult& result : space.results) {
      const auto known = std::ranges::find(records.variants, result.variant);
      const auto variant = static_cast<std::uint32_t>(known - records.variants.begin());
      if (known == records.variants.end()) {
        records.variants.push_back(result.variant);
      }
      const bool is_ok = result.state == ResultState::ok;
      records.rows.push_back({.problem = static_cast<std::uint32_t>(records.problems.size() - 1),
                              .device = 0,
                              .variant = variant,
                              .provenance = result.provenance(),
                              .is_ok = is_ok,
                              .result_id = ++id,
                              .merit = is_ok ? merit(space.problem, result) : Merit{},
                              .l2_misses = std::nullopt});
    }
  }
  return records;
}

/// The default as it was recorded: with long Q tiles last under the mask, too.
Variant recorded_default(const RecordedSpace& space) {
  auto variant = default_variant(space.problem, space.device).as<AttentionVariant>();
  variant.longest_first = false;
  return variant;
}

struct LeftOut {
  std::string problem;
  std::string from;
  double distance = 0.0;
  double nearest = 0.0;               ///< Regret.
  std::optional<double> default_one;  ///< Regret.
  double time_ratio = 0.0;            ///< Expected over recorded.
};

/// Left-out spaces for which a neighbour of the same kind answers with a recorded variant. Only
/// spaces of at least `fewest_variants` take part: the best of a handful of variants, as recorded
/// to reproduce a paper, says little about the best of all.
std::vector<LeftOut> judge_all(std::size_t fewest_variants) {
  std::vector<RecordedSpace> spaces = read_recorded_spaces(SWR_RECORDINGS);
  std::erase_if(spaces, [&](const auto& space) { return space.results.size() < fewest_variants; });
  std::vector<LeftOut> judged;
  for (const RecordedSpace& space : spaces) {
    const auto found =
        LookupTable(records_without(spaces, space)).stored(space.problem, space.device);
    const auto lost = found ? regret(space, found->variant) : std::nullopt;
    if (lost && found->level == MatchLevel::nearest) {
      const Answer& answer = *found;
      judged.push_back({to_string(space.problem), to_string(answer.stored_problem), answer.distance,
                        *lost, regret(space, recorded_default(space)),
                        *answer.time_us / ((1.0 + *lost) * space.best_us())});
    }
  }
  return judged;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Medians {
  double nearest = 0.0;
  double default_one = 0.0;
};

Medians print_table(const std::vector<LeftOut>& judged) {
  std::vector<double> regrets;
  std::vector<double> defaults;
  std::cout << "| left out | answered by | distance | regret | of the default | time expected |\n";
  for (const LeftOut& one : judged) {
    regrets.push_back(one.nearest);
    std::cout << std::fixed << std::setprecision(1) << "| " << one.problem << " | " << one.from
              << " | " << one.distance << " | " << 100 * one.nearest << " % | ";
    if (one.default_one) {
      defaults.push_back(*one.default_one);
      std::cout << 100 * *one.default_one << " %";
    }
    std::cout << " | " << std::setprecision(2) << one.time_ratio << " |\n";
  }
  const Medians medians{median_of(regrets), median_of(defaults)};
  std::cout << "median " << 100 * medians.nearest << " % of " << regrets.size() << ", default "
            << 100 * medians.default_one << " % of " << defaults.size() << "\n";
  return medians;
}

TEST(NearestRule, LosesLittleOnRecordedShapesThatItDoesNotKnow) {
  const auto judged = judge_all(1);
  ASSERT_GE(judged.size(), 12U);
  const Medians medians = print_table(judged);
  EXPECT_LT(medians.nearest, 0.03);
  EXPECT_LT(medians.nearest, medians.default_one);
}

TEST(NearestRule, LosesLittleBetweenSpacesThatWereSearchedInFull) {
  constexpr std::size_t kFullSpace = 100;
  const auto judged = judge_all(kFullSpace);
  ASSERT_GE(judged.size(), 6U);
  const Medians medians = print_table(judged);
  EXPECT_LT(medians.nearest, 0.05);
  EXPECT_LT(medians.nearest, medians.default_one);
}

}  // namespace
}  // namespace swr
