// SPDX-License-Identifier: MIT
// Which variants are predicted in full, and what is compiled ahead.
#include "tests/support/attention.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/predict/work_ahead.h"
#include "tests/support/test.h"

#include <latch>

namespace swr {
namespace {

std::vector<Variant> four_variants() {
  std::vector<Variant> variants(4);
  attention(variants[0]).stages = 3;
  attention(variants[1]).swizzle = AttentionSwizzle::head_fastest;
  attention(variants[2]).swizzle = AttentionSwizzle::q_fastest;
  attention(variants[3]).tile_m = 128;
  return variants;
}

TEST(Shortlist, IsInTheOrderOfPredictedTime) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 3.0, 2.0, 1.0}), ElementsAre(3, 2, 1, 0));
}

TEST(Shortlist, PutsSwizzlesThatCannotBeToldApartBehindOthersUpTo2PercentSlower) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.0, 2.03}),
              ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.0, 2.05}),
              ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.01, 3.0}),
              ElementsAre(1, 2, 3, 0));
}

TEST(Shortlist, NamesTheTilesOfOneHeadOnEndFirstOfSwizzlesThatCannotBeToldApart) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.001, 3.0}),
              ElementsAre(2, 1, 3, 0));
}

TEST(Shortlist, DoesNotDependOnTheOrderInWhichVariantsCome) {
  std::vector<Variant> variants = four_variants();
  const std::vector<double> equal(variants.size(), 1.0);
  const Variant first = variants[shortlist(variants, equal).front()];
  std::swap(variants[0], variants[3]);
  std::swap(variants[1], variants[2]);
  EXPECT_EQ(variants[shortlist(variants, equal).front()], first);
}

TEST(WorkAhead, WorksThroughItsListInOrder) {
  std::vector<int> done;
  std::latch all(3);
  WorkAhead ahead(1);
  std::deque<WorkAhead::Task> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.emplace_back([&, i] {
      done.push_back(i);
      all.count_down();
    });
  }
  ahead.replace(std::move(tasks));
  all.wait();
  EXPECT_EQ(done, (std::vector{0, 1, 2}));
}

TEST(WorkAhead, WorksOnSeveralTasksAtOnce) {
  // Each task waits for the other: with one thread this test would never end.
  std::latch both(2);
  WorkAhead ahead(2);
  ahead.replace({[&] { both.arrive_and_wait(); }, [&] { both.arrive_and_wait(); }});
  both.wait();
}

TEST(WorkAhead, DropsWhatWasNotBegunForANewList) {
  std::latch begun(1);
  std::latch replaced(1);
  std::latch last_done(1);
  std::atomic<bool> dropped_ran = false;
  WorkAhead ahead(1);
  ahead.replace({[&] {
                   begun.count_down();
                   replaced.wait();
                 },
                 [&] { dropped_ran = true; }});
  begun.wait();
  ahead.replace({[&] { last_done.count_down(); }});
  replaced.count_down();
  last_done.wait();
  EXPECT_FALSE(dropped_ran);
}

TEST(WorkAhead, WithoutThreadsNothingIsDone) {
  bool ran = false;
  {
    WorkAhead nobody(0);
    nobody.replace({[&] { ran = true; }});
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace swr
