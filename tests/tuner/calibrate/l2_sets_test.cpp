// SPDX-License-Identifier: MIT
// The analysis of L2's structure, on caches and SMs made up here.
#include "tuner/calibrate/l2_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// An L2 of hashed sets that replaces the least recently used line.
class FakeL2 {
 public:
  FakeL2(int sets, int ways) : sets_(sets), ways_(ways) {}

  bool evicts(unsigned target, std::span<const unsigned> lines) {
    ++asked_;
    std::deque<unsigned> set;  // That of the target, the oldest in front.
    for (const unsigned line : lines) {
      if (line == target || set_of(line) != set_of(target)) {
        continue;
      }
      std::erase(set, line);
      set.push_back(line);
      if (set.size() > static_cast<std::size_t>(ways_)) {
        set.pop_front();
      }
    }
    return set.size() >= static_cast<std::size_t>(ways_);
  }

  unsigned set_of(unsigned line) const { return (line * 2654435761U >> 7) % unsigned(sets_); }
  int asked() const { return asked_; }

 private:
  int sets_;
  int ways_;
  int asked_ = 0;
};

std::vector<unsigned> pool(unsigned lines) {
  std::vector<unsigned> all(lines);
  std::iota(all.begin(), all.end(), 1U);
  return all;
}

TEST(SmallestEvictingSet, HasAsManyLinesAsASet) {
  for (const int ways : {4, 16, 24}) {
    FakeL2 l2(512, ways);
    const auto found = smallest_evicting_set(
        pool(40000), 64, [&](std::span<const unsigned> lines) { return l2.evicts(0, lines); });
    EXPECT_EQ(found.size(), static_cast<std::size_t>(ways));
    EXPECT_TRUE(
        std::ranges::all_of(found, [&](unsigned line) { return l2.set_of(line) == l2.set_of(0); }));
    EXPECT_LT(l2.asked(), 2000);
  }
}

TEST(SmallestEvictingSet, IsEmptyWhenThePoolIsTooSmall) {
  FakeL2 l2(512, 16);
  EXPECT_THAT(
      smallest_evicting_set(pool(512), 64,
                            [&](std::span<const unsigned> lines) { return l2.evicts(0, lines); }),
      IsEmpty());
}

TEST(SmallestEvictingSet, GivesUpWhereNoFewLinesEvict) {
  // As when replacement is random: what evicts is the number of lines, not their set.
  const auto many = [](std::span<const unsigned> lines) { return lines.size() >= 1000; };
  EXPECT_THAT(smallest_evicting_set(pool(40000), 64, many), IsEmpty());
}

TEST(AgreedWays, NeedMoreThanHalfOfTheSearches) {
  EXPECT_EQ(agreed_ways(std::vector{16, 17, 16}), 16);
  EXPECT_EQ(agreed_ways(std::vector{16, 17, 16, 15}), std::nullopt);
  EXPECT_EQ(agreed_ways(std::vector{0, 0, 16}), std::nullopt);
  EXPECT_EQ(agreed_ways(std::vector<int>{}), std::nullopt);
}

/// SMs in runs of two partitions; lines have their home in one or the other at random, 200 clocks
/// farther from the other; every SM and line has a distance of its own, and there is noise.
AtomicLatencies made_up(const std::vector<int>& runs, double farther_clocks) {
  constexpr int kLines = 192;
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0.0, 8.0);
  std::vector<double> line_clocks(kLines);
  std::vector<bool> home(kLines);
  for (int line = 0; line < kLines; ++line) {
    line_clocks[static_cast<std::size_t>(line)] = 5 * noise(random);
    home[static_cast<std::size_t>(line)] = random() % 2 != 0;
  }
  AtomicLatencies latencies{.sms = {}, .lines = kLines, .clocks = {}};
  bool partition = false;
  for (const int run : runs) {
    for (int i = 0; i < run; ++i) {
      latencies.sms.push_back(static_cast<unsigned>(latencies.sms.size()));
      const double sm_clocks = 700 + 5 * noise(random);
      for (std::size_t line = 0; line < kLines; ++line) {
        const double far = home[line] == partition ? 0.0 : farther_clocks;
        latencies.clocks.push_back(
            static_cast<int>(sm_clocks + line_clocks[line] + far + noise(random)));
      }
    }
    partition = !partition;
  }
  return latencies;
}

TEST(PartitionRuns, AreFoundBehindDistancesAndNoise) {
  EXPECT_THAT(partition_runs(made_up({16, 48, 50, 18}, 200)), ElementsAre(16, 48, 50, 18));
  EXPECT_THAT(partition_runs(made_up({54, 54}, 60)), ElementsAre(54, 54));
}

TEST(PartitionRuns, AreEmptyWhereL2IsOne) {
  EXPECT_THAT(partition_runs(made_up({24, 24}, 0)), IsEmpty());
}

TEST(PartitionRuns, AreEmptyWhenTwoCtasSharedAnSm) {
  AtomicLatencies latencies = made_up({16, 16}, 200);
  latencies.sms[1] = latencies.sms[0];
  EXPECT_THAT(partition_runs(latencies), IsEmpty());
}

}  // namespace
}  // namespace swr
