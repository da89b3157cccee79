// SPDX-License-Identifier: MIT
// GPUs that fall ill at every moment of a tuning run. The right variant wins or none is decided,
// and what the illness left behind does not keep a later run from the right answer.
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/test.h"
#include "tuner/measure/power_meter.h"
#include "tuner/run/tuner.h"
#include <swr/attention_problem.h>

namespace swr {
namespace {

const AttentionProblem kProblem{.seq_q = 128, .seq_kv = 128, .head_dim = 16};
constexpr int kFastestStages = 2;

enum class Fault {
  none,
  falls_to_a_quarter_of_its_clock,
  recovers_its_clock,  ///< After a while.
  is_too_hot,          ///< Slowed by its own protection, which says so.
  lacks_power,         ///< Slowed by the machine's power brake, which says so.
  loses_its_counters,
  fails_to_count,
  is_reset,  ///< Every call to the driver says so.
};

/// Two stages take 97 us, others 100 us. Each call of the evaluator is a moment.
class IllGpu final : public Evaluator {
 public:
  /// Requires: falls ill with the call of this number, counted from 0.
  IllGpu(Fault fault, int at) : fault_(fault), at_(at) {
    healthy_.excess_sectors = [](const Variant&) { return 1000; };
  }

  const DeviceInfo& device() const override { return healthy_.device(); }

  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    begin();
    auto watched =
        sample_watched(watch(), [&] { return slowed_evaluation(problem, variant, kernel); });
    if (!watched.degraded_because.empty()) {
      watched.samples.state = ResultState::throttled;
      watched.samples.detail = watched.degraded_because;
    }
    return watched.samples;
  }

  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override {
    begin();
    if (is(Fault::fails_to_count)) {
      throw Error(ErrorCode::driver_failed, "the profiler fell over");
    }
    if (is(Fault::loses_its_counters)) {
      return {contenders.size(), CounterReading{std::nullopt, "another program has them"}};
    }
    return healthy_.count(problem, contenders);
  }

  std::vector<AccessReading> count_accesses(const Problem& problem,
                                            std::span<const Contender> contenders) override {
    begin();
    return healthy_.count_accesses(problem, contenders);
  }

  std::vector<PowerReading> measure_power(const Problem& problem,
                                          std::span<const Contender> contenders) override {
    begin();
    return healthy_.measure_power(problem, contenders);
  }

  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    begin();
    auto watched = sample_watched(watch(), [&] {
      RaceResult result = healthy_.race(problem, contenders, options);
      // A clock that falls does so within a race: the first of each contender is what it was.
      for (std::size_t i = 0; is_slow() && i < result.samples_us.size(); ++i) {
        scale(std::next(result.samples_us[i].begin()), result.samples_us[i].end(), i);
      }
      return result;
    });
    watched.samples.degraded_because = watched.degraded_because;
    return watched.samples;
  }

  int calls() const { return calls_; }

 private:
  void begin() {
    ++calls_;
    if (is(Fault::is_reset)) {
      throw Error(ErrorCode::driver_failed, "CUDA_ERROR_ECC_UNCORRECTABLE: Xid 48");
    }
  }

  bool is(Fault fault) const { return fault_ == fault && calls_ > at_; }
  bool is_slow() const {
    return has_unexplained_clock() || is(Fault::is_too_hot) || is(Fault::lacks_power);
  }
  bool has_unexplained_clock() const {
    return is(Fault::falls_to_a_quarter_of_its_clock) || is(Fault::recovers_its_clock);
  }
  /// As NVML has them.
  long long throttle_reasons() const {
    constexpr long long kThermalSlowdown = 0x40;
    constexpr long long kPowerBrake = 0x80;
    return is(Fault::is_too_hot) ? kThermalSlowdown : is(Fault::lacks_power) ? kPowerBrake : 0;
  }

  /// Worst for the fastest: another one would win by what the illness did.
  template <typename Iterator>
  void scale(Iterator begin, Iterator end, std::size_t i) const {
    for (; begin != end; ++begin) {
      *begin *= 4.0 - static_cast<double>(i);
    }
  }

  VariantResult slowed_evaluation(const Problem& problem, const Variant& variant,
                                  const CompiledKernel& kernel) {
    VariantResult result = healthy_.evaluate(problem, variant, kernel);
    if (is_slow()) {
      auto& measurement = std::get<Measurement>(result.outcome);
      scale(measurement.samples_us.begin(), measurement.samples_us.end(), 0);
      measurement.median_us *= 4.0;
      measurement.p95_us *= 4.0;
    }
    return result;
  }

  /// As NVML reports it: of a clock that falls by itself without a reason, of others with a reason
  /// and a clock that alone would be no cause for doubt.
  Watch watch() {
    constexpr long long kHighestMhz = 1980;
    return {.read =
                [this] {
                  return GpuCondition{.sm_clock_mhz = has_unexplained_clock() ? 495 : 1900,
                                      .throttle_reasons = throttle_reasons()};
                },
            .highest_sm_clock_mhz = kHighestMhz,
            .wait =
                [this](int attempt) {
                  if (fault_ == Fault::recovers_its_clock && attempt == 2) {
                    fault_ = Fault::none;
                  }
                }};
  }

  test::NoisyEvaluator healthy_{[](const Variant& variant) {
    return attention(variant).stages == kFastestStages ? 97.0 : 100.0;
  }};
  Fault fault_;
  int at_;
  int calls_ = 0;
};

class GpuFaults : public ::testing::Test {
 protected:
  /// A run on a database of its own, or on that of the last.
  TuneReport run(IllGpu& gpu, Store& store) const {
    TuneOptions options{.space = {.tiles = {{.tile_m = 32, .tile_n = 16, .warps = 2}}},
                        .compile_threads = 1};
    options.space.restrictions = {{"stages", {1LL, 2LL, 3LL}},
                                  {"order", {std::string("cyclic")}},
                                  {"persistence", {std::string("grid")}}};
    options.run_id = store.begin_run({.command = "test"});
    QuietProgress progress;
    return tune(
        kProblem, gpu, [](const Variant&) { return CompiledKernel{}; }, store, options, progress);
  }

  int calls_of_a_healthy_run() const {
    IllGpu gpu(Fault::none, 0);
    Store store = Store::in_memory();
    EXPECT_EQ(stages_of(run(gpu, store)), kFastestStages);
    return gpu.calls();
  }

  static int stages_of(const TuneReport& report) {
    return report.best() != nullptr ? attention(report.best()->variant).stages : 0;
  }

  /// What was stored while the GPU was ill does not mislead: neither a question nor a later run.
  void expect_the_truth_of_a_later_run(Store& store) const {
    IllGpu healthy(Fault::none, 0);
    const TuneReport report = run(healthy, store);
    EXPECT_FALSE(report.finalists.empty()) << report.undecided_because;
    EXPECT_EQ(stages_of(report), kFastestStages);
    const auto match = store.best(kProblem, healthy.device());
    ASSERT_TRUE(match);
    EXPECT_EQ(attention(match->result.variant).stages, kFastestStages);
  }
};

class SlowGpu : public GpuFaults, public ::testing::WithParamInterface<Fault> {};

TEST_P(SlowGpu, DecidesNothing) {
  const int calls = calls_of_a_healthy_run();
  ASSERT_GE(calls, 6);
  for (int at = 0; at < calls; ++at) {
    SCOPED_TRACE(at);
    IllGpu gpu(GetParam(), at);
    Store store = Store::in_memory();
    const TuneReport report = run(gpu, store);
    // Only a decision says that one is faster.
    if (!report.finalists.empty()) {
      EXPECT_EQ(stages_of(report), kFastestStages);
    }
    for (const VariantResult& result : report.results) {
      EXPECT_TRUE(result.state == ResultState::throttled || result.time_us() < 150.0);
    }
    expect_the_truth_of_a_later_run(store);
  }
}

INSTANTIATE_TEST_SUITE_P(GpuFaults, SlowGpu,
                         ::testing::Values(Fault::falls_to_a_quarter_of_its_clock,
                                           Fault::is_too_hot, Fault::lacks_power));

TEST_F(GpuFaults, AClockThatRecoversCostsTimeAlone) {
  const int calls = calls_of_a_healthy_run();
  for (int at = 0; at < calls; ++at) {
    SCOPED_TRACE(at);
    IllGpu gpu(Fault::recovers_its_clock, at);
    Store store = Store::in_memory();
    const TuneReport report = run(gpu, store);
    EXPECT_FALSE(report.finalists.empty()) << report.undecided_because;
    EXPECT_EQ(stages_of(report), kFastestStages);
  }
}

TEST_F(GpuFaults, CountersThatAreLostChooseNoOther) {
  const int calls = calls_of_a_healthy_run();
  for (int at = 0; at < calls; ++at) {
    SCOPED_TRACE(at);
    IllGpu gpu(Fault::loses_its_counters, at);
    Store store = Store::in_memory();
    EXPECT_EQ(stages_of(run(gpu, store)), kFastestStages);
    expect_the_truth_of_a_later_run(store);
  }
}

/// A reset ends in an Error with an Xid, a GPU that vanished in one of a process that does not
/// start (SupervisedEvaluator): the run ends in both.
TEST_F(GpuFaults, AGpuThatIsResetOrVanishesDecidesNothing) {
  const int calls = calls_of_a_healthy_run();
  for (const Fault fault : {Fault::is_reset, Fault::fails_to_count}) {
    for (int at = 0; at < calls; ++at) {
      SCOPED_TRACE(at);
      IllGpu gpu(fault, at);
      Store store = Store::in_memory();
      const bool is_told = [&] {
        try {
          EXPECT_EQ(stages_of(run(gpu, store)), kFastestStages);
          return fault == Fault::fails_to_count || at + 1 >= calls;
        } catch (const Error& error) {
          return error.code() == ErrorCode::driver_failed;
        }
      }();
      EXPECT_TRUE(is_told);
      expect_the_truth_of_a_later_run(store);
    }
  }
}

}  // namespace
}  // namespace swr
