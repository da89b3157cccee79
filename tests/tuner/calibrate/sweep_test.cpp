// SPDX-License-Identifier: MIT
// The fit and the modelled sweep, against what an H200 measured.
#include "model/profile/gpu_profile.h"
#include "tests/support/test.h"
#include "tuner/calibrate/calibrate.h"
#include "tuner/calibrate/calibration_bench.h"

namespace swr {
namespace {
constexpr long long kMiB = 1LL << 20;

/// An H200, 2026-11-21, driver 580.159.04: DRAM bytes of 8 sweeps by 132 CTAs.
struct Measured {
  long long mib = 0;
  double cyclic_gb = 0.0;
  double sawtooth_gb = 0.0;
};
constexpr Measured kH200[] = {{28, 0.026, 0.027}, {32, 0.177, 0.053}, {40, 0.336, 0.121},
                              {48, 0.403, 0.187}, {64, 0.537, 0.322}, {128, 1.075, 0.859}};

std::vector<SweepPoint> h200_points() {
  std::vector<SweepPoint> points;
  for (const Measured& row : kH200) {
    points.push_back({row.mib * kMiB, false, 1.0, static_cast<long long>(row.cyclic_gb * 1e9)});
    points.push_back({row.mib * kMiB, true, 1.0, static_cast<long long>(row.sawtooth_gb * 1e9)});
  }
  return points;
}

TEST(Sweep, TheFitOfTheH200IsItsProfile) {
  const auto fitted = fitted_l2_bytes(h200_points());
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(static_cast<double>(*fitted), 29.3 * kMiB, 0.3 * kMiB);
}

TEST(Sweep, TheModelIsWithinTenPercentOfTheH200PastWhatL2Holds) {
  const long long l2_bytes = load_profile("h200").l2_effective_bytes;
  for (const Measured& row : kH200) {
    if (row.mib > 32) {
      const auto modelled = [&](bool sawtooth) {
        return static_cast<double>(modelled_sweep_bytes(row.mib * kMiB, sawtooth, l2_bytes)) / 1e9;
      };
      EXPECT_NEAR(modelled(false), row.cyclic_gb, 0.1 * row.cyclic_gb) << row.mib;
      EXPECT_NEAR(modelled(true), row.sawtooth_gb, 0.1 * row.sawtooth_gb) << row.mib;
    }
  }
}

TEST(Sweep, WhatFitsIsReadOnce) {
  EXPECT_EQ(modelled_sweep_bytes(16 * kMiB, false, 20 * kMiB), 16 * kMiB);
  EXPECT_EQ(modelled_sweep_bytes(16 * kMiB, true, 20 * kMiB), 16 * kMiB);
}

TEST(Sweep, TheFitFindsTheCapacityOfTheModelItself) {
  std::vector<SweepPoint> points;
  for (const long long mib : {24, 32, 48}) {
    for (const bool sawtooth : {false, true}) {
      points.push_back(
          {mib * kMiB, sawtooth, 1.0, modelled_sweep_bytes(mib * kMiB, sawtooth, 20 * kMiB)});
    }
  }
  EXPECT_EQ(fitted_l2_bytes(points), 20 * kMiB);
}

TEST(Sweep, WithoutCountersThereIsNoFit) {
  std::vector<SweepPoint> points = h200_points();
  for (SweepPoint& point : points) {
    point.dram_read_bytes.reset();
  }
  EXPECT_EQ(fitted_l2_bytes(points), std::nullopt);
}

TEST(Sweep, TheCsvHasMeasuredAndModelledSideBySide) {
  const std::vector<SweepPoint> points{{16 * kMiB, true, 12.5, 17 * kMiB},
                                       {16 * kMiB, false, 9, {}}};
  std::ostringstream out;
  write_sweep_csv(out, points, 20 * kMiB);
  EXPECT_EQ(out.str(),
            "buffer_bytes,order,rounds,time_us,dram_read_bytes,predicted_dram_read_bytes\n"
            "16777216,sawtooth,8,12.5,17825792,16777216\n"
            "16777216,cyclic,8,9,,16777216\n");
}

// The analysis of L2's structure, on caches and SMs made up here.

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
