// SPDX-License-Identifier: MIT
// What the evaluator says about good, wrong, stray and faulting kernels, and whether its times and
// counters make sense.
#include "tuner/measure/measuring_evaluator.h"

#include "core/statistics/statistics.h"
#include "driver/devices.h"
#include "tests/gpu/gpu_test.h"
#include "tests/gpu/replaced_kernel.h"
#include "tuner/calibrate/calibrate.h"
#include "tuner/calibrate/calibration_bench.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

class MeasuringEvaluatorTest : public GpuTest {
 protected:
  static VariantResult evaluate(MeasuringEvaluator& evaluator, const AttentionProblem& problem,
                                const AttentionVariant& variant) {
    return evaluator.evaluate(problem, variant, bench().compile(problem, variant));
  }
};

TEST_F(MeasuringEvaluatorTest, FillsInEveryFieldOfAGoodVariant) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(4, 1024, 64);
  const AttentionVariant variant;
  const VariantResult result = evaluate(evaluator, problem, variant);
  ASSERT_EQ(result.state, ResultState::ok) << result.detail;
  EXPECT_EQ(result.variant, variant);
  EXPECT_EQ(result.smem_bytes, smem_bytes(problem, variant));
  EXPECT_GE(result.ctas_per_sm, 1);
  EXPECT_EQ(result.cubin_digest.size(), 64U);
  EXPECT_GT(result.resources.registers_per_thread, 0);
  const Measurement& measurement = *result.measurement();
  EXPECT_GE(measurement.samples_us.size(), 10U);
  EXPECT_LE(measurement.samples_us.size(), 50U);
  EXPECT_GT(measurement.relative_error, 0.0);
  EXPECT_LT(measurement.relative_error, 2e-3);
  EXPECT_FALSE(measurement.counters.has_value());
  EXPECT_NE(measurement.counters_missing_because, "");
}

TEST_F(MeasuringEvaluatorTest, SaysHowTheGpuWasOrWhyThatIsUnknown) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const VariantResult result = evaluate(evaluator, square(4, 1024, 64), AttentionVariant{});
  const Measurement& measurement = *result.measurement();
  EXPECT_EQ(measurement.l2_state, L2State::warm);
  EXPECT_EQ(measurement.sampling, Sampling::screening);
  if (measurement.condition_missing_because.empty()) {
    EXPECT_GT(measurement.after.sm_clock_mhz.value_or(0), 100);
    EXPECT_GT(measurement.after.temperature_c.value_or(0), 0);
    EXPECT_TRUE(measurement.before.throttle_reasons.has_value());
  } else {
    EXPECT_EQ(measurement.after, GpuCondition{});
  }
}

TEST_F(MeasuringEvaluatorTest, AColdL2IsNoFasterThanAWarmOne) {
  // K and V fit every L2, so warm launches find all of them there.
  const AttentionProblem problem = square(8, 2048, 64);
  MeasureOptions options = without_counters();
  MeasuringEvaluator warm(bench().generator, options);
  const double warm_us = evaluate(warm, problem, AttentionVariant{}).time_us();
  options.l2_state = L2State::cold;
  MeasuringEvaluator cold(bench().generator, options);
  const VariantResult result = evaluate(cold, problem, AttentionVariant{});
  EXPECT_EQ(result.measurement()->l2_state, L2State::cold);
  EXPECT_GT(result.time_us(), 0.98 * warm_us);
}

TEST_F(MeasuringEvaluatorTest, ShortKernelsTimedFromAGraphAgreeWithTheirLaunches) {
  // A kernel of a few microseconds: a sample is a graph of dozens of launches.
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const VariantResult result = evaluate(evaluator, square(1, 64, 64), AttentionVariant{});
  ASSERT_EQ(result.state, ResultState::ok) << result.detail;
  EXPECT_GT(result.time_us(), 0.5);
  EXPECT_LT(result.time_us(), 100.0);
}

TEST_F(MeasuringEvaluatorTest, RacesAgreeWithTheScreening) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(8, 4096, 64);
  const AttentionVariant small{.tile_n = 16};
  const CompiledKernel& usual = bench().compile(problem, AttentionVariant{});
  const CompiledKernel& slower = bench().compile(problem, small);
  const std::array<Contender, 2> contenders{{{AttentionVariant{}, &usual}, {small, &slower}}};
  const RaceResult race = evaluator.race(problem, contenders, {.rounds = 11});
  ASSERT_EQ(race.samples_us.size(), 2U);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    ASSERT_EQ(race.samples_us[i].size(), 11U);
    const double screened_us =
        evaluator.evaluate(problem, contenders[i].variant, *contenders[i].kernel).time_us();
    EXPECT_NEAR(median(race.samples_us[i]) / screened_us, 1.0, 0.1);
  }
}

TEST_F(MeasuringEvaluatorTest, TimesGrowWithTheWork) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const auto median_us = [&](int seq) {
    const VariantResult result = evaluate(evaluator, square(16, seq, 64), AttentionVariant{});
    EXPECT_EQ(result.state, ResultState::ok) << result.detail;
    EXPECT_LE(result.measurement()->median_us, result.measurement()->p95_us);
    return result.measurement()->median_us;
  };
  const double short_us = median_us(4096);
  const double long_us = median_us(8192);
  // Four times the work; edges and clocks leave room around it.
  EXPECT_GT(long_us, 2.5 * short_us);
  EXPECT_LT(long_us, 6.0 * short_us);
  // No GPU reaches 10 PFLOP/s, so a shorter time would mean that events missed the work.
  EXPECT_GT(short_us, flop_count(square(16, 4096, 64)) / 10e15 * 1e6);
}

TEST_F(MeasuringEvaluatorTest, RepeatsItselfOnTheSameVariant) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(16, 4096, 64);
  const double first_us = evaluate(evaluator, problem, AttentionVariant{}).time_us();
  const double second_us = evaluate(evaluator, problem, AttentionVariant{}).time_us();
  EXPECT_NEAR(second_us / first_us, 1.0, 0.2);
}

TEST_F(MeasuringEvaluatorTest, RefusesADeviceThatDoesNotExist) {
  MeasureOptions options;
  options.device_ordinal = 1000;
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { const MeasuringEvaluator evaluator(bench().generator, options); }),
              HasSubstr("GPU 1000"));
}

TEST_F(MeasuringEvaluatorTest, ReportsACubinForAnotherChipAsALaunchFailure) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(1, 128, 64);
  const int other_arch = bench().device.sm_arch == 121 ? 90 : 121;
  const CompiledKernel foreign = bench().generator.compile(problem, AttentionVariant{}, other_arch);
  const VariantResult result = evaluator.evaluate(problem, AttentionVariant{}, foreign);
  EXPECT_EQ(result.state, ResultState::launch);
  EXPECT_THAT(result.detail, HasSubstr("CUDA_ERROR"));
}

/// The right O when there is one key: its row of V. Leaves lse alone.
constexpr const char* kCopyTheOnlyValue = R"(
  for (int row = blockIdx.x; row < params.seq_q; row += gridDim.x) {
    for (int column = threadIdx.x; column < swr::kConfig.head_dim; column += blockDim.x) {
      static_cast<unsigned short*>(params.o)[row * params.o_strides.seq + column] =
          static_cast<const unsigned short*>(params.v)[column];
    }
  }
)";

TEST_F(ReplacedKernel, ThatWritesNothingIsIncorrect) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const VariantResult result = evaluate_body(evaluator, square(1, 64, 64), "");
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_THAT(result.detail, HasSubstr("relative L2 error inf"));
}

TEST_F(ReplacedKernel, ThatLeavesOutLogSumExpIsIncorrect) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  AttentionProblem problem = square(1, 64, 64);
  problem.seq_kv = 1;
  const VariantResult result = evaluate_body(evaluator, problem, kCopyTheOnlyValue);
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_THAT(result.detail, HasSubstr("log-sum-exp"));
  EXPECT_LT(result.measurement()->relative_error, 1e-6);
}

TEST_F(ReplacedKernel, ThatWritesPastItsOutputIsIncorrect) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  AttentionProblem problem = square(1, 64, 64);
  problem.seq_kv = 1;
  const std::string stray = R"(
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    static_cast<unsigned short*>(params.o)[params.o_strides.batch] = 0;
  }
)";
  const VariantResult result = evaluate_body(evaluator, problem, kCopyTheOnlyValue + stray);
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_THAT(result.detail, HasSubstr("wrote 1 16-bit words outside"));
}

class DevicesTest : public GpuTest {};

TEST_F(DevicesTest, DescribeThemselvesCompletely) {
  for (const DeviceInfo& device : list_devices()) {
    EXPECT_NE(device.name, "");
    EXPECT_GE(device.sm_arch, 50);
    EXPECT_GE(device.sm_count, 1);
    EXPECT_GT(device.l2_bytes, 0);
    EXPECT_GE(device.dram_gb_per_s, 0.0);
    EXPECT_GE(device.smem_per_cta_bytes, 48 * 1024);
    EXPECT_GE(device.smem_per_sm_bytes, device.smem_per_cta_bytes);
    EXPECT_GE(device.registers_per_sm, 32768);
    EXPECT_GE(device.max_threads_per_sm, 1024);
    EXPECT_GE(device.max_ctas_per_sm, 16);
  }
}

TEST_F(DevicesTest, HaveDetailsThatTellThemApart) {
  std::set<std::string> bus_ids;
  const std::size_t count = list_devices().size();
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceDetails details = device_details(static_cast<int>(i));
    EXPECT_THAT(details.pci_bus_id, ::testing::HasSubstr(":"));
    EXPECT_GT(details.sm_clock_khz, 0);
    EXPECT_GE(details.memory_clock_khz, 0);
    bus_ids.insert(details.pci_bus_id);
  }
  EXPECT_EQ(bus_ids.size(), count);
}

TEST_F(DevicesTest, AreTheSameOnEveryCall) {
  EXPECT_TRUE(same_device(list_devices().front(), list_devices().front()));
}

TEST_F(DevicesTest, AnH200IsRecognisedByItsNumbers) {
  const DeviceInfo device = list_devices().front();
  if (device.name.find("H200") == std::string::npos || device.mig) {
    GTEST_SKIP() << "this is a " << device.name;
  }
  EXPECT_EQ(device.sm_arch, 90);
  EXPECT_EQ(device.sm_count, 132);
  EXPECT_EQ(device.l2_bytes, 60LL << 20);
  EXPECT_NEAR(device.dram_gb_per_s, 4800.0, 150.0);
  EXPECT_EQ(device.smem_per_cta_bytes, 227 * 1024);
}

TEST_F(DevicesTest, TheDriverNamesItsVersion) {
  EXPECT_THAT(driver_version(), ::testing::MatchesRegex("[0-9]+\\.[0-9]"));
}

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
