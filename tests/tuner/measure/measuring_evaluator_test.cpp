// SPDX-License-Identifier: MIT
// Measuring, as far as it goes without a GPU.
#include "tuner/measure/measuring_evaluator.h"

#include "driver/devices.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/test.h"
#include "tuner/measure/kernel_timer.h"
#include "tuner/measure/power_meter.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>
#include <swr/generator.h>

namespace swr {
namespace {
/// The error that listing devices ends in; skips the test where there is a GPU.
class NoDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      list_devices();
    } catch (const Error& error) {
      code_ = error.code();
      message_ = error.what();
      return;
    }
    GTEST_SKIP() << "this machine has a driver and a GPU";
  }

  ErrorCode code_ = ErrorCode::invalid_argument;
  std::string message_;
};

TEST_F(NoDriver, IsOneErrorThatSaysWhatStillWorks) {
  EXPECT_EQ(code_, ErrorCode::no_driver);
  EXPECT_NE(message_.find("--gpu"), std::string::npos) << message_;
  EXPECT_EQ(message_.find('\n'), std::string::npos) << message_;
}

TEST_F(NoDriver, StopsTheMeasuringEvaluatorBeforeAnythingElse) {
  const Generator generator{GeneratorOptions{}};
  message_of(ErrorCode::no_driver,
             [&] { const MeasuringEvaluator evaluator(generator, MeasureOptions{}); });
}

TEST(LaunchesPerSample, RepeatShortKernelsUntilASampleSpans200Microseconds) {
  EXPECT_EQ(launches_per_sample(7.0), 29);
}

TEST(LaunchesPerSample, IsOneForLongKernels) {
  EXPECT_EQ(launches_per_sample(200.0), 1);
  EXPECT_EQ(launches_per_sample(5000.0), 1);
}

TEST(LaunchesPerSample, IsBoundedForAnUnmeasurablyShortKernel) {
  EXPECT_EQ(launches_per_sample(0.0), 1000);
}

/// A GPU whose counter steps now and then, and a clock that moves only while it is waited for.
struct SimulatedGpu {
  double idle_w = 80.0;
  double busy_w = 500.0;
  double step_s = 0.1;
  double now_s = 17.03;
  double energy_j = 4000.0;
  long long shown_mj = 4'000'000;
  double next_step_s = 17.1;
  bool is_busy = false;
  bool counts = true;

  void pass(double seconds) {
    now_s += seconds;
    energy_j += seconds * (is_busy ? busy_w : idle_w);
    is_busy = false;  // Whoever wants it busy says so again and again.
    if (now_s >= next_step_s) {
      shown_mj = std::llround(energy_j * 1e3);
      next_step_s += step_s;
    }
  }

  PowerSource source() {
    return {.total_mj = [this] { return counts ? std::optional(shown_mj) : std::nullopt; },
            .now_s = [this] { return now_s; },
            .wait = [this] { pass(0.0003); }};
  }
};

TEST(PowerMeter, FindsThePowerWhateverTheStepsOfTheCounter) {
  for (const double step_s : {0.02, 0.1, 0.13}) {
    SimulatedGpu gpu{.step_s = step_s};
    const auto power_w = mean_power_w(gpu.source(), {}, [&] { gpu.is_busy = true; });
    ASSERT_TRUE(power_w.has_value());
    EXPECT_NEAR(*power_w, 500.0, 500.0 * 0.005) << step_s;
  }
}

TEST(PowerMeter, WatchesAnIdleGpu) {
  SimulatedGpu gpu;
  const auto power_w = mean_power_w(gpu.source(), {}, [] {});
  ASSERT_TRUE(power_w.has_value());
  EXPECT_NEAR(*power_w, 80.0, 80.0 * 0.005);
}

TEST(PowerMeter, LeavesOutWhatTheGpuTookBeforeItHadSettled) {
  SimulatedGpu gpu;
  const auto keep_busy = [&] {
    gpu.is_busy = true;
    gpu.busy_w = gpu.now_s < 17.2 ? 100.0 : 600.0;  // Clocks take a while.
  };
  settle(gpu.source(), 0.3, keep_busy);
  const auto power_w = mean_power_w(gpu.source(), {}, keep_busy);
  ASSERT_TRUE(power_w.has_value());
  EXPECT_NEAR(*power_w, 600.0, 600.0 * 0.005);
}

TEST(PowerMeter, KnowsNothingWithoutACounter) {
  SimulatedGpu gpu{.counts = false};
  EXPECT_EQ(mean_power_w(gpu.source(), {}, [] {}), std::nullopt);
}

TEST(PowerMeter, GivesUpOnACounterThatDoesNotMove) {
  SimulatedGpu gpu{.next_step_s = 1e9};
  EXPECT_EQ(mean_power_w(gpu.source(), {.least_s = 0.5, .most_s = 2.0}, [] {}), std::nullopt);
  EXPECT_NEAR(gpu.now_s, 19.03, 0.01);
}

CompiledKernel kernel_of_digest(const std::string& digest) {
  return CompiledKernel{.entry = "entry", .cubin_digest = digest};
}

class SharedKernelsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Kernel> get(const std::string& digest) {
    return kernels_.get(kernel_of_digest(digest));
  }

  std::vector<std::string> loaded_;

 private:
  SharedKernels kernels_{[this](const CompiledKernel& compiled) {
    loaded_.push_back(compiled.cubin_digest);
    return std::make_shared<const Kernel>();
  }};
};

TEST_F(SharedKernelsTest, LoadsAKernelOnceForVariantsInARow) {
  get("a");
  get("a");
  get("b");
  get("b");
  EXPECT_EQ(loaded_, (std::vector<std::string>{"a", "b"}));
}

TEST_F(SharedKernelsTest, LoadsAKernelAnewThatNobodyHasAnyMore) {
  get("a");
  get("b");
  get("a");
  EXPECT_EQ(loaded_, (std::vector<std::string>{"a", "b", "a"}));
}

TEST_F(SharedKernelsTest, SharesWhatIsInUse) {
  const auto first = get("a");
  const auto other = get("b");
  EXPECT_EQ(get("a"), first);
  EXPECT_NE(first, other);
  EXPECT_EQ(loaded_, (std::vector<std::string>{"a", "b"}));
}

/// Sharing a kernel means sharing its largest amount of dynamic shared memory, an attribute of the
/// function.
TEST(VariantsOfOneKernel, TakeEquallyMuchSharedMemory) {
  DeviceInfo hopper = test::fictional_device();
  hopper.sm_arch = 90;
  hopper.smem_per_cta_bytes = 232448;
  hopper.smem_per_sm_bytes = 233472;
  const Problem attention = AttentionProblem{.heads_q = 16,
                                             .heads_kv = 16,
                                             .seq_q = 4096,
                                             .seq_kv = 4096,
                                             .head_dim = 128,
                                             .causal = true};
  const Problem gemm = GemmProblem{.m = 512, .n = 512, .k = 4096};
  for (const Problem& problem : {attention, gemm}) {
    std::map<Variant, int> bytes;
    const auto variants = enumerate_space(problem, hopper, {}).variants;
    for (const Variant& variant : variants) {
      const int its_bytes = smem_bytes(problem, variant);
      EXPECT_EQ(bytes.try_emplace(kernel_of(variant), its_bytes).first->second, its_bytes)
          << to_key(variant);
    }
    EXPECT_LT(bytes.size(), variants.size());
  }
}

GpuCondition with_reasons(long long bits) {
  return {.sm_clock_mhz = 1700, .throttle_reasons = bits};
}

/// A GPU whose condition follows a script, one entry per reading.
class ScriptedWatch {
 public:
  explicit ScriptedWatch(std::vector<long long> reasons) : reasons_(std::move(reasons)) {}

  Watched<int> sample() {
    const Watch watch{.read = [this] { return with_reasons(reasons_.at(readings_++)); },
                      .highest_sm_clock_mhz = 1980,
                      .wait = [this](int attempt) { waits.push_back(attempt); }};
    return sample_watched(watch, [this] { return ++samples; });
  }

  std::vector<int> waits;
  int samples = 0;

 private:
  std::vector<long long> reasons_;
  std::size_t readings_ = 0;
};

TEST(SampleWatched, TakesHealthySamplesOnce) {
  ScriptedWatch gpu({0x1, 0x4});
  const Watched<int> watched = gpu.sample();
  EXPECT_EQ(watched.samples, 1);
  EXPECT_EQ(watched.degraded_because, "");
  EXPECT_EQ(watched.before, with_reasons(0x1));
  EXPECT_EQ(watched.after, with_reasons(0x4));
  EXPECT_TRUE(gpu.waits.empty());
}

TEST(SampleWatched, RepeatsUntilTheGpuIsHealthyBeforeAndAfter) {
  ScriptedWatch gpu({0x0, 0x40, 0x40, 0x0, 0x0, 0x0});
  const Watched<int> watched = gpu.sample();
  EXPECT_EQ(watched.samples, 3);
  EXPECT_EQ(watched.degraded_because, "");
  EXPECT_EQ(gpu.waits, (std::vector{1, 2}));
}

TEST(SampleWatched, GivesUpAfterFourAttemptsAndSaysWhy) {
  ScriptedWatch gpu(std::vector<long long>(8, 0x80));
  const Watched<int> watched = gpu.sample();
  EXPECT_EQ(gpu.samples, 4);
  EXPECT_THAT(watched.degraded_because, HasSubstr("hardware power brake"));
}

TEST(SampleWatched, LetsAClockRampUpBeforeTheFirstLaunch) {
  const Watch watch{.read =
                        [clock = 345]() mutable {
                          return GpuCondition{.sm_clock_mhz = std::exchange(clock, 1900)};
                        },
                    .highest_sm_clock_mhz = 1980,
                    .wait = [](int) { FAIL() << "nothing to wait for"; }};
  EXPECT_EQ(sample_watched(watch, [] { return 0; }).degraded_because, "");
}

}  // namespace
}  // namespace swr
