// SPDX-License-Identifier: MIT
#include "tuner/distribute/hand_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace swr {
namespace {

using ::testing::UnorderedElementsAreArray;

/// 0, 1, ... below `pieces`.
HandOut::Source counting(std::size_t pieces) {
  return [next = std::size_t{0}, pieces]() mutable {
    return next < pieces ? std::optional(next++) : std::nullopt;
  };
}

TEST(HandOut, GivesEveryPieceToOneThread) {
  constexpr std::size_t kPieces = 500;
  HandOut hand_out(counting(kPieces));
  std::mutex mutex;
  std::vector<std::size_t> taken;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        while (const auto piece = hand_out.take()) {
          {
            const std::lock_guard lock(mutex);
            taken.push_back(*piece);
          }
          hand_out.done();
        }
      });
    }
  }
  std::vector<std::size_t> all(kPieces);
  for (std::size_t i = 0; i < kPieces; ++i) {
    all[i] = i;
  }
  EXPECT_THAT(taken, UnorderedElementsAreArray(all));
}

TEST(HandOut, WhoFindsNothingGetsWhatAnotherGivesBack) {
  HandOut hand_out(counting(1));
  ASSERT_EQ(hand_out.take(), 0U);
  auto other = std::async(std::launch::async, [&] { return hand_out.take(); });
  EXPECT_TRUE(hand_out.give_back(0));
  EXPECT_EQ(other.get(), 0U);
  hand_out.done();
  EXPECT_EQ(hand_out.take(), std::nullopt);
}

TEST(HandOut, WhoFindsNothingEndsWhenTheLastPieceIsDone) {
  HandOut hand_out(counting(1));
  ASSERT_EQ(hand_out.take(), 0U);
  auto other = std::async(std::launch::async, [&] { return hand_out.take(); });
  hand_out.done();
  EXPECT_EQ(other.get(), std::nullopt);
}

TEST(HandOut, EndsWhenAPieceComesBackAgain) {
  HandOut hand_out(counting(2));
  const auto first = hand_out.take();
  EXPECT_TRUE(hand_out.give_back(*first));
  EXPECT_EQ(hand_out.take(), first);
  EXPECT_FALSE(hand_out.give_back(*first));
  EXPECT_FALSE(hand_out.take());
}

TEST(HandOut, GivesNothingOnceItIsClosed) {
  HandOut hand_out(counting(3));
  ASSERT_TRUE(hand_out.take());
  ASSERT_TRUE(hand_out.take());
  ASSERT_TRUE(hand_out.take());
  auto waiting = std::async(std::launch::async, [&] { return hand_out.take(); });
  hand_out.close();
  EXPECT_EQ(waiting.get(), std::nullopt);
  hand_out.give_back(0);
  EXPECT_EQ(hand_out.take(), std::nullopt);
}

}  // namespace
}  // namespace swr
