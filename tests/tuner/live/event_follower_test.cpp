// SPDX-License-Identifier: MIT
#include "tuner/live/event_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <sys/stat.h>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Following : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::path(::testing::TempDir()) / ("swr_live_" + std::string(test->name()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    file_ = dir_ / "events.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }

  std::filesystem::path dir_;
  std::filesystem::path file_;
};

TEST_F(Following, HasNoNewsBeforeTheFileIsThere) {
  EventFollower follower(file_);
  EXPECT_THAT(follower.read().lines, IsEmpty());
  append("one\n");
  const auto news = follower.read();
  EXPECT_THAT(news.lines, ElementsAre("one"));
  EXPECT_FALSE(news.is_new_file);
}

TEST_F(Following, HandsOutWholeLinesOnce) {
  EventFollower follower(file_);
  append("one\ntwo\nthr");
  EXPECT_THAT(follower.read().lines, ElementsAre("one", "two"));
  EXPECT_THAT(follower.read().lines, IsEmpty());
  append("ee\n");
  EXPECT_THAT(follower.read().lines, ElementsAre("three"));
}

TEST_F(Following, ALineTooLongForAnEventIsNotKept) {
  EventFollower follower(file_);
  append("one\n");
  follower.read();
  append(std::string(3'000'000, 'x'));
  EXPECT_THAT(follower.read().lines, IsEmpty());
  append(std::string(3'000'000, 'x') + "\ntwo\n" + std::string(2'000'000, 'y') + "\nthree\n");
  std::vector<std::string> lines;
  for (bool is_more = true; is_more;) {
    const auto news = follower.read();
    lines.insert(lines.end(), news.lines.begin(), news.lines.end());
    is_more = news.is_more;
  }
  EXPECT_THAT(lines, ElementsAre("", "two", "", "three"));
}

TEST_F(Following, WaitsForNoPipe) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(EventFollower(file_).read().lines, IsEmpty());
}

TEST_F(Following, NoticesAFileThatBeganAnew) {
  EventFollower follower(file_);
  append("one\ntwo\nbegun");
  follower.read();
  std::ofstream(file_) << "new\n";
  const auto news = follower.read();
  EXPECT_TRUE(news.is_new_file);
  EXPECT_THAT(news.lines, ElementsAre("new"));
  EXPECT_FALSE(follower.read().is_new_file);
}

TEST_F(Following, NoticesAnotherFileOfTheSameNameAndLength) {
  EventFollower follower(file_);
  append("old\n");
  follower.read();
  std::ofstream(dir_ / "other") << "new\n";
  std::filesystem::rename(dir_ / "other", file_);
  const auto news = follower.read();
  EXPECT_TRUE(news.is_new_file);
  EXPECT_THAT(news.lines, ElementsAre("new"));
}

TEST_F(Following, ReadsALongFileInParts) {
  constexpr std::size_t kLines = 200'000;
  const std::string line = std::string(39, 'x') + "\n";
  {
    std::ofstream out(file_);
    for (std::size_t i = 0; i < kLines; ++i) {
      out << line;
    }
  }
  EventFollower follower(file_);
  std::size_t lines = 0;
  std::size_t parts = 0;
  for (bool is_more = true; is_more; ++parts) {
    const auto news = follower.read();
    lines += news.lines.size();
    is_more = news.is_more;
  }
  EXPECT_EQ(lines, kLines);
  EXPECT_GT(parts, 1U);
}

TEST_F(Following, TakesAFolderForNoFile) {
  EventFollower follower(dir_);
  EXPECT_THAT(follower.read().lines, SizeIs(0));
}

}  // namespace
}  // namespace swr
