// SPDX-License-Identifier: MIT
#include "tuner/distribute/work_list.h"
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace swr {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> work_of(int pieces) {
  std::vector<std::string> work;
  for (int i = 0; i < pieces; ++i) {
    work.push_back("attention s" + std::to_string(64 * (i + 1)));
  }
  return work;
}

TEST(Shard, EveryPieceIsInOneShareAndSharesDifferByOneAtMost) {
  for (const int pieces : {0, 1, 7, 16, 100}) {
    for (const int count : {1, 2, 3, 8, 30}) {
      std::set<std::size_t> dealt;
      for (int index = 0; index < count; ++index) {
        const auto share = share_of(work_of(pieces), {index, count});
        EXPECT_GE(static_cast<int>(share.size()), pieces / count);
        EXPECT_LE(static_cast<int>(share.size()), pieces / count + 1);
        EXPECT_TRUE(std::ranges::is_sorted(share));
        for (const std::size_t place : share) {
          EXPECT_TRUE(dealt.insert(place).second);
        }
      }
      EXPECT_EQ(static_cast<int>(dealt.size()), pieces);
    }
  }
}

TEST(Shard, DealsThePiecesWhateverTheirOrderInTheList) {
  const auto work = work_of(20);
  auto reversed = work;
  std::ranges::reverse(reversed);
  std::set<std::string> share;
  std::set<std::string> reversed_share;
  for (const std::size_t place : share_of(work, {2, 6})) {
    share.insert(work[place]);
  }
  for (const std::size_t place : share_of(reversed, {2, 6})) {
    reversed_share.insert(reversed[place]);
  }
  EXPECT_EQ(share, reversed_share);
}

TEST(Shard, DealsTheSameOnEveryHostAndRelease) {
  EXPECT_THAT(share_of(work_of(10), {0, 3}), ElementsAre(0, 2, 4, 7));
}

TEST(Shard, ReadsAndWritesItsText) {
  EXPECT_EQ(to_string(parse_shard("3/8")), "3/8");
  EXPECT_TRUE(parse_shard("0/1").is_everything());
  for (const char* bad : {"", "3", "8/8", "-1/8", "1/0", "a/2", "1/2/3", "1/", "/2", "1 /2",
                          "0/99999999999", "0/2000000"}) {
    EXPECT_THROW(parse_shard(bad), Error) << bad;
  }
}

TEST(Shard, NamesTheDatabaseOfAWorker) {
  EXPECT_EQ(shard_database("results/tuned.db", {3, 8}), "results/tuned.3-of-8.db");
  EXPECT_EQ(shard_database("tuned", {3, 16}), "tuned.03-of-16");
  EXPECT_EQ(shard_database("results/", {0, 2}), "results/tuned.0-of-2.db");
  EXPECT_EQ(shard_database("/tmp", {0, 2}), "/tmp/tuned.0-of-2.db");
  EXPECT_EQ(shard_database("results/tuned.db", {}), "results/tuned.db");
  EXPECT_EQ(shard_database("/tmp", {}), "/tmp/tuned.db");
}

}  // namespace
}  // namespace swr
