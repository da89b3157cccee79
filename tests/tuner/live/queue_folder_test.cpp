// SPDX-License-Identifier: MIT
#include "tuner/live/live_state.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <sys/stat.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

class QueueFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(::testing::TempDir()) / ("swr_queue_" + std::string(test->name()));
    fs::remove_all(dir_);
    for (const char* folder : {"open", "leased", "done"}) {
      fs::create_directories(dir_ / "queue" / folder);
    }
    std::ofstream(dir_ / "queue" / "list") << "first\nsecond\nthird\n";
  }
  void TearDown() override { fs::remove_all(dir_); }

  void touch(const std::string& path) { std::ofstream(dir_ / path) << ""; }

  fs::path dir_;
};

TEST_F(QueueFolder, CountsPiecesAndNamesWhoHasThem) {
  touch("queue/open/000002");
  touch("queue/leased/000001~host-17-4");
  touch("queue/done/000000");
  const Json queue = queue_json(dir_);
  EXPECT_EQ(queue["pieces"], 3);
  EXPECT_EQ(queue["open"], 1);
  EXPECT_EQ(queue["done"], 1);
  ASSERT_EQ(queue["leased"].size(), 1U);
  EXPECT_EQ(queue["leased"][0]["piece"], "second");
  EXPECT_EQ(queue["leased"][0]["worker"], "host-17-4");
  EXPECT_LT(queue["leased"][0]["silent_s"].get<double>(), 600.0);
}

TEST_F(QueueFolder, SaysForHowLongAWorkerGaveNoSign) {
  touch("queue/leased/000000~gone");
  fs::last_write_time(dir_ / "queue/leased/000000~gone",
                      fs::file_time_type::clock::now() - std::chrono::seconds(500));
  EXPECT_NEAR(queue_json(dir_)["leased"][0]["silent_s"].get<double>(), 500.0, 60.0);
}

TEST_F(QueueFolder, WaitsForNoPipeAndReadsNoDevice) {
  touch("queue/leased/000001~host-17-4");
  for (const bool is_pipe : {true, false}) {
    fs::remove(dir_ / "queue/list");
    if (is_pipe) {
      ASSERT_EQ(mkfifo((dir_ / "queue/list").c_str(), 0600), 0);
    } else {
      fs::create_symlink("/dev/zero", dir_ / "queue/list");
    }
    const Json queue = queue_json(dir_);
    EXPECT_EQ(queue["pieces"], 0);
    EXPECT_EQ(queue["leased"][0]["piece"], "000001");
  }
}

TEST_F(QueueFolder, IsNullWithoutAQueue) {
  EXPECT_TRUE(queue_json(dir_ / "queue").is_null());
  EXPECT_TRUE(queue_json(dir_ / "nowhere").is_null());
}

TEST_F(QueueFolder, FindsFilesOfEventsByName) {
  touch("b.jsonl");
  touch("a.jsonl");
  touch("tuned.db");
  const auto files = event_files(dir_);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].filename(), "a.jsonl");
  EXPECT_TRUE(event_files(dir_ / "nowhere").empty());
}

}  // namespace
}  // namespace swr
