// SPDX-License-Identifier: MIT
#include "model/l2/lru_cache.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(LruCache, HitsWhatFitsAndRefetchesTheLeastRecentlyUsed) {
  LruCache cache(20, 3);
  cache.touch(0, 10);
  cache.touch(1, 10);
  cache.touch(0, 10);  // Hit; 1 is now the oldest.
  cache.touch(2, 10);  // Evicts 1.
  cache.touch(0, 10);  // Hit.
  cache.touch(1, 10);  // Fetched again; evicts 2.
  EXPECT_EQ(cache.compulsory_misses(), 30);
  EXPECT_EQ(cache.excess_misses(), 10);
  EXPECT_EQ(cache.touched_sectors(), 60);
}

TEST(LruCache, CyclicScansOfMoreThanTheCapacityNeverHit) {
  LruCache cache(39, 4);
  for (int scan = 0; scan < 3; ++scan) {
    for (int object = 0; object < 4; ++object) {
      cache.touch(object, 10);
    }
  }
  EXPECT_EQ(cache.excess_misses(), 80);
}

TEST(LruCache, DataUsedOncePushesOthersOutAndCountsAsCompulsory) {
  LruCache cache(20, 1);
  cache.touch(0, 10);
  cache.touch_once(10);
  cache.touch(0, 10);  // Still there.
  cache.touch_once(10);
  cache.touch_once(10);
  cache.touch(0, 10);  // Gone.
  EXPECT_EQ(cache.compulsory_misses(), 40);
  EXPECT_EQ(cache.excess_misses(), 10);
}

TEST(LruCache, AnObjectLargerThanTheCacheAlwaysMisses) {
  LruCache cache(5, 1);
  cache.touch(0, 10);
  cache.touch(0, 10);
  EXPECT_EQ(cache.excess_misses(), 10);
}

TEST(LruCache, KeepsItsContentsWhenTheLogIsCompacted) {
  LruCache cache(100, 10);
  for (int scan = 0; scan < 10'000; ++scan) {
    for (int object = 0; object < 10; ++object) {
      cache.touch(object, 10);
    }
  }
  EXPECT_EQ(cache.compulsory_misses(), 100);
  EXPECT_EQ(cache.excess_misses(), 0);
}

}  // namespace
}  // namespace swr
