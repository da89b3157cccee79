// SPDX-License-Identifier: MIT
#include "model/l2/free_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace swr {
namespace {

TEST(FreeQueue, OneThatComesLateInOrderMovesPastThoseDueAfterIt) {
  FreeQueue queue;
  queue.push({10, 0});
  queue.push({30, 1});
  queue.push({20, 2});
  queue.push({20, 1});
  EXPECT_EQ(queue.take(), (Free{10, 0}));
  EXPECT_EQ(queue.take(), (Free{20, 1}));
  EXPECT_EQ(queue.take(), (Free{20, 2}));
  EXPECT_EQ(queue.take(), (Free{30, 1}));
  EXPECT_TRUE(queue.empty());
}

TEST(FreeQueue, NoneMovesPastThoseThatWereTaken) {
  FreeQueue queue;
  queue.push({10, 0});
  queue.take();
  queue.push({5, 0});
  EXPECT_EQ(queue.take(), (Free{5, 0}));
}

TEST(FreeQueue, ManyAreSortedAtOnce) {
  FreeQueue queue;
  queue.append({30, 0});
  queue.append({10, 1});
  queue.sort();
  EXPECT_EQ(queue.front(), (Free{10, 1}));
  queue.clear();
  EXPECT_TRUE(queue.empty());
}

TEST(FreeQueue, TakesInTheOrderOfAHeapHoweverManyWereTaken) {
  FreeQueue queue;
  std::priority_queue<Free, std::vector<Free>, std::greater<>> heap;
  std::mt19937 random(1);
  long long now = 0;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const Free free{now + static_cast<long long>(random() % 64), i};
    queue.push(free);
    heap.push(free);
    if (i >= 50) {
      const Free taken = queue.take();
      ASSERT_EQ(taken, heap.top());
      heap.pop();
      now = taken.first;
    }
  }
}

}  // namespace
}  // namespace swr
