// SPDX-License-Identifier: MIT
// Which CTA computes which work item, for every form of persistence.
#include "templates/common/cta_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace swr {
namespace {

constexpr Persistence kForms[] = {Persistence::grid, Persistence::persistent, Persistence::pairs,
                                  Persistence::snake, Persistence::dynamic};

/// How often each of `tiles` work items is computed by a launch.
std::vector<int> visits(Persistence persistence, long long tiles, int workers) {
  std::vector<int> counts(static_cast<std::size_t>(tiles), 0);
  const long long ctas = cta_count(persistence, tiles, workers);
  for (long long cta = 0; cta < ctas; ++cta) {
    for (int iteration = 0; iteration <= tiles; ++iteration) {
      const long long tile = cta_tile(persistence, cta, ctas, iteration, tiles);
      if (tile >= 0) {
        ++counts.at(static_cast<std::size_t>(tile));
      }
    }
  }
  return counts;
}

TEST(CtaSchedule, EveryWorkItemIsComputedOnce) {
  for (const Persistence persistence : kForms) {
    for (const long long tiles : {1, 2, 7, 8, 9, 64, 131}) {
      for (const int workers : {1, 2, 8, 132}) {
        EXPECT_TRUE(std::ranges::all_of(visits(persistence, tiles, workers),
                                        [](int count) { return count == 1; }))
            << static_cast<int>(persistence) << " " << tiles << " " << workers;
      }
    }
  }
}

TEST(CtaSchedule, PersistentFormsLaunchNoMoreCtasThanWorkers) {
  for (const Persistence persistence : kForms) {
    EXPECT_EQ(is_persistent(persistence), cta_count(persistence, 1000, 8) == 8);
  }
  EXPECT_EQ(cta_count(Persistence::persistent, 5, 8), 5);
  EXPECT_EQ(cta_count(Persistence::pairs, 5, 8), 3);
}

TEST(CtaSchedule, SawtoothTurnsEveryOtherIteration) {
  EXPECT_FALSE(scans_backward(Order::sawtooth, 0));
  EXPECT_TRUE(scans_backward(Order::sawtooth, 1));
  EXPECT_FALSE(scans_backward(Order::cyclic, 1));
  EXPECT_TRUE(scans_backward(Order::right_to_left, 0));
}

}  // namespace
}  // namespace swr
