// SPDX-License-Identifier: MIT
#include "db/history.h"

#include "tests/db/fixtures.h"

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(History, HoldsEveryResultInTheOrderRecorded) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  {
    Store store(path, Store::Mode::read_write);
    const long long run_id = store.begin_run(some_run());
    store.record(run_id, problem_of(512), fictional_gpu(), measured(tile(64, 64), 20.0));
    store.record(run_id, problem_of(512), fictional_gpu(), predicted(tile(64, 64), 18.0));
    store.record(run_id, problem_of(512), fictional_gpu(), measured(tile(64, 64), 19.0));
    store.record(run_id, problem_of(256), fictional_gpu(), measured(tile(32, 32), 5.0));
    store.finish_run(run_id);
    store.begin_run(some_run());
  }
  const History history = read_history(path);
  ASSERT_THAT(history.runs, SizeIs(2));
  EXPECT_EQ(history.runs[0].info.command, some_run().command);
  EXPECT_TRUE(history.runs[0].finished_at);
  EXPECT_FALSE(history.runs[1].finished_at);
  ASSERT_THAT(history.places, SizeIs(2));
  EXPECT_EQ(history.places[0].problem, problem_of(256));
  std::vector<double> times;
  for (const RecordedResult& recorded : history.places[1].results) {
    times.push_back(recorded.result.time_us());
  }
  EXPECT_THAT(times, ElementsAre(20.0, 18.0, 19.0));
}

TEST(History, HoldsDecisionsWithTheirFinalistsByRatio) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  {
    Store store(path, Store::Mode::read_write);
    const long long run_id = store.begin_run(some_run());
    const std::vector<Finalist> finalists{
        {measured(tile(64, 64), 10.0), 1.0, 1.0, 1.0, true},
        {measured(tile(32, 32), 12.0), 1.2, 1.19, 1.21, false},
        {measured(tile(128, 64), 9.99), 0.999, 0.998, 1.001, true}};
    store.record_decision(run_id, problem_of(512), fictional_gpu(), finalists, 0.005);
  }
  const History history = read_history(path);
  ASSERT_THAT(history.places, SizeIs(1));
  ASSERT_THAT(history.places[0].decisions, SizeIs(1));
  const RecordedDecision& decision = history.places[0].decisions[0];
  EXPECT_EQ(decision.tie_threshold, 0.005);
  ASSERT_THAT(decision.finalists, SizeIs(3));
  EXPECT_DOUBLE_EQ(decision.finalists[0].ratio, 0.999);
  EXPECT_TRUE(decision.finalists[0].tied);
  EXPECT_DOUBLE_EQ(decision.finalists[2].ratio_high, 1.21);
  EXPECT_FALSE(decision.finalists[2].tied);
  EXPECT_EQ(decision.finalists[1].result_id, decision.winner_id);
  EXPECT_EQ(decision.finalists[1].rounds, 1);
}

TEST(History, PoolsRowsOfOneDeviceUnderSeveralNames) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  {
    Store store(path, Store::Mode::read_write);
    const long long run_id = store.begin_run(some_run());
    DeviceInfo renamed = fictional_gpu();
    renamed.name = "Fictional F1 PCIe";
    store.record(run_id, problem_of(512), fictional_gpu(), measured(tile(64, 64), 20.0));
    store.record(run_id, problem_of(512), renamed, measured(tile(32, 32), 21.0));
  }
  const History history = read_history(path);
  ASSERT_THAT(history.places, SizeIs(1));
  EXPECT_THAT(history.places[0].results, SizeIs(2));
  EXPECT_EQ(history.places[0].device.name, "Fictional F1");
}

TEST(History, MissingFileIsAClearError) {
  const TempDirectory directory;
  const auto error = error_of([&] { read_history(directory / "none.db"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace swr
