// SPDX-License-Identifier: MIT
// The analysis of L2's structure, on caches and SMs made up here.
#include "tuner/calibrate/calibration_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
