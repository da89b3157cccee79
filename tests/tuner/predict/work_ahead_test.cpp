// SPDX-License-Identifier: MIT
#include "tuner/predict/work_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

namespace swr {
namespace {

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
