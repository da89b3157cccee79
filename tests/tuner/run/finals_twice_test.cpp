// SPDX-License-Identifier: MIT
// Whether two runs choose alike, simulated: full spaces recorded on an H200, with the noise that
// was found on it. The controls show that a small field does not, nor rounds that stay in one
// place.
#include "core/recorded_space.h"
#include "tests/support/test.h"
#include "tests/tuner/run/recorded_gpu.h"
#include "tuner/run/finals.h"
#include <swr/constraints.h>

namespace swr {
namespace {

std::vector<RecordedSpace> full_spaces() {
  constexpr std::size_t kFewestVariants = 100;
  std::vector<RecordedSpace> spaces;
  for (const char* const file : {"recordings.spaces", "search_recordings.spaces"}) {
    for (RecordedSpace& space : read_recorded_spaces(std::filesystem::path(SWR_TEST_DATA) / file)) {
      if (space.results.size() >= kFewestVariants) {
        spaces.push_back(std::move(space));
      }
    }
  }
  return spaces;
}

CompiledKernel no_kernel(const Variant& /*variant*/) { return {}; }

/// Screens the space, holds finals, and returns the winner.
Variant tune(test::RecordedGpu& gpu, const RecordedSpace& space, const FinalsOptions& options) {
  std::vector<VariantResult> screened;
  for (const VariantResult& recorded : space.results) {
    screened.push_back(gpu.evaluate(space.problem, recorded.variant, {}));
  }
  const auto finalists =
      choose_finalists(screened, default_variant(space.problem, space.device), options);
  return run_finals(space.problem, gpu, no_kernel, finalists, options)
      .finalists.front()
      .result.variant;
}

struct Agreements {
  int pairs = 0;
  int identical = 0;
  double worst_regret = 0.0;

  double identical_share() const { return static_cast<double>(identical) / pairs; }
};

/// Tunes every space twice per seed; differing choices meet on the second run's GPU.
Agreements tune_twice(const FinalsOptions& options, int seeds) {
  Agreements agreements;
  for (const RecordedSpace& space : full_spaces()) {
    for (int seed = 1; seed <= seeds; ++seed) {
      test::RecordedGpu first(space, static_cast<unsigned long long>(seed));
      test::RecordedGpu second(space, static_cast<unsigned long long>(1000 + seed));
      FinalsOptions other = options;
      other.seed = options.seed + 1000;
      const std::vector<Variant> choices{tune(first, space, options), tune(second, space, other)};
      ++agreements.pairs;
      if (choices[0] == choices[1]) {
        ++agreements.identical;
        continue;
      }
      for (const double slowdown :
           slowdowns_in_rounds(space.problem, second, no_kernel, choices, 100, options)) {
        agreements.worst_regret = std::max(agreements.worst_regret, slowdown);
      }
    }
  }
  return agreements;
}

TEST(TuningTwice, ChoosesTheSameNineteenTimesInTwentyAndLosesUnderOnePercent) {
  const Agreements agreements = tune_twice({}, 4);
  EXPECT_GE(agreements.pairs, 20);
  EXPECT_GE(agreements.identical_share(), 0.95)
      << agreements.identical << " of " << agreements.pairs;
  EXPECT_LT(agreements.worst_regret, 0.01);
}

TEST(TuningTwice, WouldNotWithSixteenFinalistsOfTheFastestAndSixtyRounds) {
  const Agreements agreements =
      tune_twice({.drift = 0.03, .most_finalists = 16, .most_rounds = 60}, 2);
  EXPECT_LT(agreements.identical_share(), 0.95)
      << agreements.identical << " of " << agreements.pairs;
}

TEST(TuningTwice, WouldNotWithAsManyRoundsInEightPlaces) {
  const Agreements agreements = tune_twice({.rounds_per_race = 40, .first_races = 2}, 2);
  EXPECT_LT(agreements.identical_share(), 0.95)
      << agreements.identical << " of " << agreements.pairs;
}

}  // namespace
}  // namespace swr
