// SPDX-License-Identifier: MIT
#include "tuner/calibrate/calibrate.h"

#include "tests/gpu/gpu_test.h"
#include "tuner/calibrate/calibration_bench.h"

namespace swr {
namespace {

class CalibrateTest : public GpuTest {};

/// Which GPC the first CTAs of a launch go to differs from launch to launch, and runs with it; how
/// many SMs a partition has does not.
int sms_of_smaller_partition(const std::vector<int>& runs) {
  int sms = 0;
  for (std::size_t run = 0; run < runs.size(); run += 2) {
    sms += runs[run];
  }
  return std::min(sms, std::accumulate(runs.begin(), runs.end(), 0) - sms);
}

TEST_F(CalibrateTest, MeasuresRatesThatTheHardwareCanHave) {
  const CalibrationBench calibration(bench().generator, bench().device, 0);
  const RateMeasurement fma = calibration.fma_rate();
  EXPECT_GT(fma.results_per_clock_per_sm, 50);
  EXPECT_LT(fma.results_per_clock_per_sm, 129);
  EXPECT_GT(fma.clock_mhz, 300);
  EXPECT_LT(fma.clock_mhz, 4000);
  const double exp2 = calibration.exp2_rate().results_per_clock_per_sm;
  EXPECT_GT(exp2, 7);
  EXPECT_LT(exp2, 33);
  const double mma = calibration.mma_rate().results_per_clock_per_sm;
  EXPECT_GT(mma, 200);
  EXPECT_LT(mma, 4200);
}

TEST_F(CalibrateTest, EveryPartitionRunHoldsSmsOfItsOwn) {
  const CalibrationBench calibration(bench().generator, bench().device, 0);
  const AtomicLatencies latencies = calibration.atomic_latencies();
  for (const int clocks : latencies.clocks) {
    ASSERT_GT(clocks, 50);
    ASSERT_LT(clocks, 10000);
  }
  const std::vector<int> runs = partition_runs(latencies);
  if (!runs.empty()) {
    EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0), bench().device.sm_count);
    const std::vector<int> again = partition_runs(calibration.atomic_latencies());
    EXPECT_EQ(sms_of_smaller_partition(again), sms_of_smaller_partition(runs));
  }
}

TEST_F(CalibrateTest, AProfileIsCompleteSaneAndReadable) {
  const Calibration calibration =
      calibrate(bench().generator, {.id = "measured", .source = "measured in a test"});
  const GpuProfile& profile = calibration.profile;
  EXPECT_GT(profile.dram_efficiency, 0.4);
  EXPECT_GT(profile.l2_gb_per_s, profile.dram_efficiency * profile.device.dram_gb_per_s);
  EXPECT_GT(profile.l2_latency_clocks, 100);
  EXPECT_GT(profile.dram_latency_clocks, 1.3 * profile.l2_latency_clocks);
  EXPECT_LT(profile.dram_latency_clocks, 3000);
  EXPECT_GT(profile.l2_effective_bytes, profile.device.l2_bytes / 4);
  EXPECT_FALSE(calibration.sweep.empty());

  const TempDirectory directory;
  const std::string path = (directory.path() / "measured.json").string();
  std::ofstream(path) << profile_text(profile);
  const GpuProfile read = load_profile(path);
  EXPECT_TRUE(same_device(read.device, bench().device));
  EXPECT_DOUBLE_EQ(read.l2_gb_per_s, profile.l2_gb_per_s);
}

}  // namespace
}  // namespace swr
