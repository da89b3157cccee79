// SPDX-License-Identifier: MIT
#include "tuner/run/finals.h"

#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/noisy_evaluator.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

using test::measured;

const AttentionProblem kProblem{
    .heads_q = 4, .heads_kv = 4, .seq_q = 1024, .seq_kv = 1024, .head_dim = 64};

AttentionVariant with_tile_n(int tile_n) { return {.tile_n = tile_n}; }

VariantResult with_registers(VariantResult result, int registers) {
  result.resources.registers_per_thread = registers;
  return result;
}

/// As if counted: this many sectors read beyond Q, K and V.
VariantResult with_excess(VariantResult result, long long sectors) {
  Counters counters{.dram_read_bytes = compulsory_bytes(kProblem).read + kSectorBytes * sectors};
  std::get<Measurement>(result.outcome).counters = counters;
  return result;
}

CompiledKernel no_kernel(const Variant& /*variant*/) { return {}; }

FinalsOutcome decide(test::NoisyEvaluator& gpu, const std::vector<VariantResult>& finalists,
                     unsigned long long seed = 1) {
  return run_finals(kProblem, gpu, no_kernel, finalists, {.seed = seed});
}

TEST(ChooseFinalists, TakesThoseWithinTheDriftAndTheDefault) {
  const std::vector<VariantResult> results{measured(16, 100.0), measured(32, 105.9),
                                           measured(48, 106.1), measured(64, 150.0)};
  const auto chosen = choose_finalists(results, with_tile_n(64), {});
  ASSERT_THAT(chosen, SizeIs(3));
  EXPECT_EQ(chosen[0].variant, with_tile_n(16));
  EXPECT_EQ(chosen[1].variant, with_tile_n(32));
  EXPECT_EQ(chosen[2].variant, with_tile_n(64));
}

TEST(ChooseFinalists, LeavesOutFailuresEvenTheDefault) {
  VariantResult failed = measured(64, 1.0);
  failed.state = ResultState::throttled;
  EXPECT_THAT(choose_finalists(std::vector{failed, measured(16, 2.0)}, with_tile_n(64), {}),
              SizeIs(1));
}

TEST(ChooseFinalists, KeepsWhoseIntervalReachesBelowTheUpperEndOfTheFastest) {
  VariantResult noisy = measured(16, 100.0);
  std::get<Measurement>(noisy.outcome).samples_us = {96.0, 98.0, 100.0, 100.0, 102.0, 110.0};
  VariantResult wide = measured(48, 120.0);
  std::get<Measurement>(wide.outcome).samples_us = {116.0, 118.0, 120.0, 120.0, 122.0, 126.0};
  const std::vector<VariantResult> results{noisy, measured(32, 116.5), wide, measured(64, 120.0)};
  const auto chosen = choose_finalists(results, with_tile_n(16), {});
  ASSERT_THAT(chosen, SizeIs(3));
  EXPECT_EQ(chosen[1].variant, with_tile_n(32));
  EXPECT_EQ(chosen[2].variant, with_tile_n(48));
}

TEST(ChooseFinalists, KeepsToTheMostButCountsTheDefaultExtra) {
  std::vector<VariantResult> results;
  for (int i = 1; i <= 40; ++i) {
    results.push_back(measured(16 * i, 100.0));
  }
  EXPECT_THAT(choose_finalists(results, with_tile_n(16 * 40), {.most_finalists = 16}), SizeIs(17));
}

TEST(Finals, IdenticalVariantsTieAndResolveTheSameWayWhateverTheNoise) {
  std::vector<VariantResult> finalists;
  for (const int tile_n : {48, 16, 64, 32}) {
    finalists.push_back(with_registers(measured(tile_n, 100.0), 128));
  }
  finalists[2].resources.registers_per_thread = 96;
  for (unsigned long long seed = 1; seed <= 20; ++seed) {
    test::NoisyEvaluator gpu([](const Variant&) { return 100.0; }, seed);
    const FinalsOutcome outcome = decide(gpu, finalists, seed);
    ASSERT_THAT(outcome.finalists, SizeIs(4));
    EXPECT_EQ(outcome.finalists.front().result.variant, with_tile_n(64)) << "seed " << seed;
    EXPECT_TRUE(outcome.finalists.front().tied);
  }
}

TEST(Finals, AVariantThatIsTwoPercentFasterWinsWhateverTheTieBreaks) {
  const std::vector<VariantResult> finalists{with_registers(measured(16, 99.0), 64),
                                             with_registers(measured(32, 99.5), 255)};
  const auto true_time_us = [](const Variant& variant) {
    return attention(variant).tile_n == 32 ? 98.0 : 100.0;
  };
  for (unsigned long long seed = 1; seed <= 20; ++seed) {
    test::NoisyEvaluator gpu(true_time_us, seed);
    const FinalsOutcome outcome = decide(gpu, finalists, seed);
    EXPECT_EQ(outcome.finalists.front().result.variant, with_tile_n(32)) << "seed " << seed;
    EXPECT_FALSE(outcome.finalists.back().tied);
    EXPECT_NEAR(outcome.finalists.back().ratio, 100.0 / 98.0, 0.01);
  }
}

TEST(Finals, ADriftingClockDoesNotFlipTheWinner) {
  const auto true_time_us = [](const Variant& variant) {
    return attention(variant).tile_n == 32 ? 98.5 : 100.0;
  };
  for (const double drift : {-0.0005, 0.0005}) {
    test::NoisyEvaluator gpu(true_time_us, 3);
    gpu.noise = 0.001;
    gpu.drift_per_sample = drift;
    const FinalsOutcome outcome = decide(gpu, {measured(16, 100.0), measured(32, 100.0)});
    EXPECT_EQ(outcome.finalists.front().result.variant, with_tile_n(32)) << drift;
    EXPECT_FALSE(outcome.finalists.back().tied);
  }
}

TEST(Finals, StopAtTheFirstLookWhenNothingIsInDoubtAndTheLaterTheLargerTheDoubt) {
  const std::vector<VariantResult> finalists{measured(16, 100.0), measured(32, 100.0)};
  const auto rounds_of = [&](double slowdown, double noise) {
    // The slower one has the key that wins a tie.
    test::NoisyEvaluator gpu([slowdown](const Variant& variant) {
      return attention(variant).tile_n == 16 ? slowdown : 100.0;
    });
    gpu.noise = noise;
    const FinalsOutcome outcome = decide(gpu, finalists);
    return outcome.finalists.front().result.measurement()->samples_us.size();
  };
  EXPECT_EQ(rounds_of(100.0, 0.0001), 32U);
  EXPECT_EQ(rounds_of(103.0, 0.001), 32U);
  // Whether it is tied is open, but nobody is faster than the winner.
  EXPECT_EQ(rounds_of(100.6, 0.003), 64U);
  EXPECT_EQ(rounds_of(100.5, 0.1), 128U);
}

TEST(Finals, StopWhenTheGpuTimeIsSpent) {
  test::NoisyEvaluator gpu([](const Variant& variant) {
    return attention(variant).tile_n == 16 ? 100'500.0 : 100'000.0;
  });
  gpu.noise = 0.02;
  const FinalsOutcome outcome = decide(gpu, {measured(16, 1e5), measured(32, 1e5)});
  // Two rounds of two samples of 100 ms, and two launches of each before: 0.8 s a race.
  EXPECT_EQ(outcome.finalists.front().result.measurement()->samples_us.size(), 26U);
}

TEST(Finals, RaceOnlyThoseThatMayStillWin) {
  const std::vector<VariantResult> finalists{measured(16, 100.5), measured(32, 100.0),
                                             measured(48, 104.0)};
  test::NoisyEvaluator gpu([](const Variant& variant) {
    return attention(variant).tile_n == 16   ? 100.5
           : attention(variant).tile_n == 32 ? 100.0
                                             : 104.0;
  });
  const FinalsOutcome outcome = decide(gpu, finalists);
  EXPECT_EQ(outcome.finalists.back().result.variant, with_tile_n(48));
  EXPECT_THAT(outcome.finalists.back().result.measurement()->samples_us, SizeIs(32));
  EXPECT_GE(outcome.finalists.front().result.measurement()->samples_us.size(), 64U);
}

/// A GPU whose first kernel runs at one of two speeds, drawn for each sample, as kernels do whose
/// CTAs fit the SMs in two ways.
class TwoSpeeds final : public test::NoisyEvaluator {
 public:
  using NoisyEvaluator::NoisyEvaluator;

  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    RaceResult result = NoisyEvaluator::race(problem, contenders, options);
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      for (double& sample_us : result.samples_us[i]) {
        sample_us *= attention(contenders[i].variant).tile_n == 16 && coins_() % 2 == 0 ? 1.1 : 1.0;
      }
    }
    return result;
  }

 private:
  std::mt19937_64 coins_{5};
};

TEST(Finals, LetMostOfAFieldGoAfterTwoRaces) {
  std::vector<VariantResult> finalists{measured(16, 100.0), measured(32, 100.2)};
  for (int tile_n = 48; tile_n <= 160; tile_n += 16) {
    finalists.push_back(measured(tile_n, 104.0));
  }
  test::NoisyEvaluator gpu([](const Variant& variant) {
    return attention(variant).tile_n == 16   ? 100.0
           : attention(variant).tile_n == 32 ? 100.2
                                             : 104.0;
  });
  const FinalsOutcome outcome = decide(gpu, finalists);
  EXPECT_THAT(outcome.finalists.back().result.measurement()->samples_us, SizeIs(8));
  EXPECT_GE(outcome.finalists.front().result.measurement()->samples_us.size(), 32U);
}

TEST(Finals, CountEverySpeedOfAKernelThatHasTwo) {
  // Its median is 100 or 110, as it comes; its mean is 105.
  TwoSpeeds gpu(
      [](const Variant& variant) { return attention(variant).tile_n == 16 ? 100.0 : 103.0; });
  for (unsigned long long seed = 1; seed <= 10; ++seed) {
    const FinalsOutcome outcome = decide(gpu, {measured(16, 100.0), measured(32, 103.0)}, seed);
    EXPECT_EQ(outcome.finalists.front().result.variant, with_tile_n(32)) << "seed " << seed;
    EXPECT_NEAR(outcome.finalists.back().ratio, 105.0 / 103.0, 0.015);
  }
}

TEST(Finals, MarkTheirSamplesAndSummariseThem) {
  test::NoisyEvaluator gpu(50.0);
  gpu.noise = 0.0;
  const FinalsOutcome outcome = decide(gpu, {measured(16, 100.0), measured(32, 100.0)});
  const Measurement& measurement = *outcome.finalists.front().result.measurement();
  EXPECT_EQ(measurement.sampling, Sampling::finals);
  EXPECT_EQ(measurement.median_us, 50.0);
  EXPECT_EQ(outcome.finalists.front().ratio, 1.0);
}

TEST(Finals, DecideNothingOnAThrottledGpuOrWithoutARival) {
  test::NoisyEvaluator gpu(100.0);
  EXPECT_NE(decide(gpu, {measured(16, 100.0)}).undecided_because, "");
  EXPECT_EQ(gpu.races, 0);
  gpu.degraded_because = "the GPU throttles: hardware slowdown";
  const FinalsOutcome outcome = decide(gpu, {measured(16, 100.0), measured(32, 100.0)});
  EXPECT_TRUE(outcome.finalists.empty());
  EXPECT_THAT(outcome.undecided_because, HasSubstr("hardware slowdown"));
}

TEST(Finals, DecideNothingWhenTheGpuThrottledInTheFirstRaceAlone) {
  class ThrottledOnce final : public test::NoisyEvaluator {
   public:
    using NoisyEvaluator::NoisyEvaluator;
    RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                    const RaceOptions& options) override {
      degraded_because = races == 0 ? "hardware slowdown" : "";
      return NoisyEvaluator::race(problem, contenders, options);
    }
  };
  ThrottledOnce gpu(100.0);
  const FinalsOutcome outcome = decide(gpu, {measured(16, 100.0), measured(32, 100.0)});
  EXPECT_EQ(outcome.undecided_because, "hardware slowdown");
  EXPECT_EQ(gpu.races, 1);
}

const std::vector<std::vector<double>> kEqualTimes(2, std::vector<double>(10, 100.0));

TEST(ChooseWinner, PrefersFewerExcessMissesToFewerRegisters) {
  const std::vector<VariantResult> results{
      with_registers(with_excess(measured(16, 100.0), 100'000), 64),
      with_registers(with_excess(measured(32, 100.0), 50'000), 128)};
  EXPECT_EQ(choose_winner(kProblem, results, kEqualTimes, {}), 1U);
}

TEST(ChooseWinner, IsNotSwayedByJitterOfTheCounts) {
  const std::vector<VariantResult> results{
      with_registers(with_excess(measured(16, 100.0), 105'000), 64),
      with_registers(with_excess(measured(32, 100.0), 100'000), 128)};
  EXPECT_EQ(choose_winner(kProblem, results, kEqualTimes, {}), 0U);
  const std::vector<VariantResult> near_zero{
      with_registers(with_excess(measured(16, 100.0), 90), 64),
      with_registers(with_excess(measured(32, 100.0), 0), 128)};
  EXPECT_EQ(choose_winner(kProblem, near_zero, kEqualTimes, {}), 0U);
}

TEST(ChooseWinner, OrdersCountsTheSameWayWhenTheyJitterAroundAnyEdge) {
  for (const long long jitter : {-4'000LL, 0LL, 4'000LL}) {
    const std::vector<VariantResult> results{
        with_registers(with_excess(measured(16, 100.0), 120'000 + jitter), 64),
        with_registers(with_excess(measured(32, 100.0), 100'000 - jitter), 96),
        with_registers(with_excess(measured(48, 100.0), 300'000), 32)};
    const std::vector<std::vector<double>> equal(3, std::vector<double>(10, 100.0));
    EXPECT_EQ(choose_winner(kProblem, results, equal, {}), 0U);
  }
}

TEST(ChooseWinner, TakesTheKeyLast) {
  const std::vector<VariantResult> results{measured(48, 100.0), measured(32, 100.0)};
  EXPECT_EQ(choose_winner(kProblem, results, kEqualTimes, {}), 1U);
}

TEST(ChooseWinner, PutsAKnownCountBeforeAnUnknownOne) {
  const std::vector<VariantResult> results{
      with_registers(measured(16, 100.0), 64),
      with_registers(with_excess(measured(32, 100.0), 50'000), 128)};
  // Without counters nothing is said to be missing, yet the excess is unknown.
  EXPECT_EQ(choose_winner(kProblem, results, kEqualTimes, {}), 1U);
}

TEST(Finals, WhoFailsEveryRaceIsLeftOut) {
  class Faulty final : public test::NoisyEvaluator {
   public:
    using NoisyEvaluator::NoisyEvaluator;
    RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                    const RaceOptions& options) override {
      for (const Contender& contender : contenders) {
        if (attention(contender.variant).tile_n >= least_faulty) {
          throw Error(ErrorCode::driver_failed, "the race failed twice");
        }
      }
      return NoisyEvaluator::race(problem, contenders, options);
    }
    int least_faulty = 96;
  };
  Faulty gpu(10.0);
  const std::vector<VariantResult> finalists{measured(96, 9.0), measured(64, 10.0),
                                             measured(32, 10.0)};
  FinalsOutcome outcome = decide(gpu, finalists);
  ASSERT_THAT(outcome.finalists, SizeIs(2));
  EXPECT_LT(attention(outcome.finalists.front().result.variant).tile_n, 96);
  gpu.least_faulty = 64;
  outcome = decide(gpu, finalists);
  EXPECT_THAT(outcome.undecided_because, HasSubstr("fewer than two"));
  gpu.least_faulty = 0;
  EXPECT_THROW(decide(gpu, finalists), Error) << "then it is the GPU";
}

}  // namespace
}  // namespace swr
