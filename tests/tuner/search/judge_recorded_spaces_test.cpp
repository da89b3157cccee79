// SPDX-License-Identifier: MIT
// What the model strategy finds on full spaces recorded on an H200, with the model as it is.
#include "core/recorded_space.h"
#include "tests/support/test.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/search/replay_evaluator.h"

namespace swr {
namespace {

TEST(RecordedSearch, AModelSearchOfATenthIsWithinTwoPercentOnNineOfTenSpaces) {
  constexpr std::size_t kFullSpace = 100;
  int spaces = 0;
  int close = 0;
  for (const char* const file : {"recordings.spaces", "search_recordings.spaces"}) {
    for (const RecordedSpace& space :
         read_recorded_spaces(std::filesystem::path(SWR_TEST_DATA) / file)) {
      if (space.results.size() < kFullSpace) {
        continue;
      }
      const SearchOptions options{.strategy = StrategyKind::model,
                                  .max_variants = space.results.size() / 10};
      const double regret =
          search_regret(space, options, model_predictor(space.problem, space.device, 2));
      ++spaces;
      close += regret <= 0.02 ? 1 : 0;
      EXPECT_LT(regret, 0.1) << to_string(space.problem);
    }
  }
  EXPECT_GE(spaces, 20);
  EXPECT_GE(close, 0.9 * spaces) << close << " of " << spaces;
}

}  // namespace
}  // namespace swr
