// SPDX-License-Identifier: MIT
#include "model/l2/traffic_memo.h"

#include <swr/error.h>

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

namespace swr {
namespace {

/// A walk that the test holds up.
std::atomic<int> walks = 0;
std::binary_semaphore begun{0};
std::binary_semaphore may_end{0};

int slow_walk(const int& shape, const L2Policy& /*policy*/) {
  ++walks;
  begun.release();
  may_end.acquire();
  return 10 * shape;
}

TEST(TrafficMemo, TwoThreadsWalkAShapeOnce) {
  walks = 0;
  TrafficMemo<int, int> memo(slow_walk, {});
  int of_first = 0;
  int of_second = 0;
  {
    const std::jthread first([&] { of_first = memo.traffic(7); });
    begun.acquire();
    const std::jthread second([&] { of_second = memo.traffic(7); });
    memo.prepare(7);  // Another thread is at it, so this returns at once.
    may_end.release();
  }
  EXPECT_EQ(of_first, 70);
  EXPECT_EQ(of_second, 70);
  EXPECT_EQ(walks, 1);
}

TEST(TrafficMemo, WhatIsPreparedIsNotWalkedAgain) {
  walks = 0;
  TrafficMemo<int, int> memo(slow_walk, {});
  may_end.release();
  memo.prepare(3);
  begun.acquire();
  EXPECT_EQ(memo.traffic(3), 30);
  EXPECT_EQ(walks, 1);
}

TEST(TrafficMemo, AWalkThatFailsFailsForAllWhoAsk) {
  TrafficMemo<int, int> memo(
      [](const int&, const L2Policy&) -> int {
        throw Error(ErrorCode::invalid_argument, "no such shape");
      },
      {});
  EXPECT_THROW(memo.prepare(1), Error);
  EXPECT_THROW(memo.traffic(1), Error);
}

}  // namespace
}  // namespace swr
