// SPDX-License-Identifier: MIT
// The simple caches of the model, reuse distances and what is remembered of traffic.
#include "model/l2/free_queue.h"
#include "model/l2/lru_cache.h"
#include "model/l2/partitioned_l2.h"
#include "model/l2/reuse_distance.h"
#include "model/l2/traffic_memo.h"
#include "tests/support/test.h"

#include <queue>
#include <semaphore>

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

TEST(PartitionedL2, WhatBothPartitionsReadIsFetchedOnceAndHeldTwice) {
  PartitionedL2 l2(LruCache(40, 2 * 3), 2, 3);
  EXPECT_EQ(l2.touch(0, 20, 0), 20);
  EXPECT_EQ(l2.touch(0, 20, 1), 0);
  l2.touch(1, 20, 0);
  l2.touch(1, 20, 1);
  EXPECT_EQ(l2.touch(0, 20, 0), 0);  // Both pairs fill both partitions.
  l2.touch(2, 20, 0);
  l2.touch(2, 20, 1);
  EXPECT_GT(l2.touch(1, 20, 0), 0);
  EXPECT_EQ(l2.compulsory_misses(), 60);
}

TEST(PartitionedL2, WhatOnePartitionReadsLeavesTheOtherItsHomesOnly) {
  // Two pairs read by the SMs of one partition and two by those of the other: each holds its own
  // two and the homes of the other's, which age behind and may be lost without harm.
  PartitionedL2 l2(LruCache(60, 2 * 4), 2, 4);
  for (int round = 0; round < 10; ++round) {
    for (const int partition : {0, 1}) {
      l2.touch(2 * partition, 20, partition);
      l2.touch(2 * partition + 1, 20, partition);
    }
  }
  EXPECT_EQ(l2.compulsory_misses(), 80);
  EXPECT_EQ(l2.excess_misses(), 0);
}

TEST(PartitionedL2, AWriteFillsEveryPartition) {
  PartitionedL2 l2(LruCache(40, 2 * 2), 2, 2);
  l2.touch(0, 20, 0);
  l2.touch(0, 20, 1);
  l2.write_once(20);
  EXPECT_EQ(l2.touch(0, 20, 0), 0);
  l2.write_once(30);
  EXPECT_EQ(l2.touch(0, 20, 0), 20);
}

TEST(PartitionedL2, ALostCopyIsFetchedFromItsHome) {
  PartitionedL2 l2(LruCache(40, 2 * 3), 2, 3);
  l2.touch(0, 20, 0);
  for (int pair = 1; pair < 3; ++pair) {
    l2.touch(pair, 20, 0);  // The first partition loses pair 0; the second keeps its home.
  }
  EXPECT_EQ(l2.touch(0, 20, 0), 10);
  EXPECT_EQ(l2.excess_misses(), 10);
}

TEST(PartitionedL2, WithOnePartitionNothingIsCopied) {
  PartitionedL2 l2(LruCache(40, 2 * 2), 1, 2);
  l2.touch(0, 20, 0);
  l2.touch(1, 20, 0);
  EXPECT_EQ(l2.touch(0, 20, 0), 0);
  l2.read_once(10, 0);
  l2.write_once(10);
  EXPECT_EQ(l2.touch(1, 20, 0), 20);
  EXPECT_EQ(l2.compulsory_misses(), 60);
  EXPECT_EQ(l2.excess_misses(), 20);
  EXPECT_EQ(l2.touched_sectors(), 80);
}

TEST(ReuseDistance, CountsTheDistinctSectorsSinceTheLastUseItselfIncluded) {
  ReuseDistance distances(3, 1);
  distances.touch(0, 10);
  distances.touch(1, 5);
  distances.touch(1, 5);  // Distance 5.
  distances.touch(2, 7);
  distances.touch(0, 10);  // Distance 10 + 5 + 7.
  const MissCurve& curve = distances.curve();
  EXPECT_EQ(curve.compulsory_misses(), 22);
  EXPECT_EQ(curve.excess_misses(4), 15);
  EXPECT_EQ(curve.excess_misses(5), 10);
  EXPECT_EQ(curve.excess_misses(21), 10);
  EXPECT_EQ(curve.excess_misses(22), 0);
  EXPECT_EQ(curve.capacity_without_excess(), 22);
}

TEST(ReuseDistance, OfNothingReusedIsAFlatCurve) {
  ReuseDistance distances(1, 8);
  distances.touch(0, 10);
  distances.touch_once(10);
  EXPECT_EQ(distances.curve().excess_misses(0), 0);
  EXPECT_EQ(distances.curve().capacity_without_excess(), 0);
}

TEST(ReuseDistance, AgreesWithTheLruCacheAtEveryCapacity) {
  constexpr int kObjects = 300;
  std::mt19937 random(7);
  std::vector<int> sizes(kObjects);
  for (int& size : sizes) {
    size = 1 + static_cast<int>(random() % 9);
  }
  std::vector<int> touches;
  for (int i = 0; i < 20'000; ++i) {
    // Mixes near and far reuse; kObjects stands for data used once.
    const auto range = i % 3 == 0 ? kObjects + 1U : 20U;
    touches.push_back(static_cast<int>(random() % range));
  }
  const auto feed = [&](auto& sink) {
    for (const int object : touches) {
      if (object == kObjects) {
        sink.touch_once(4);
      } else {
        sink.touch(object, sizes[static_cast<std::size_t>(object)]);
      }
    }
  };
  ReuseDistance distances(kObjects, 1);
  feed(distances);
  for (long long capacity = 0; capacity < 1700; capacity += 13) {
    LruCache cache(capacity, kObjects);
    feed(cache);
    ASSERT_EQ(distances.curve().excess_misses(capacity), cache.excess_misses()) << capacity;
    ASSERT_EQ(distances.curve().compulsory_misses(), cache.compulsory_misses());
  }
}

/// The H200 measurement: a buffer swept 8 times by 132 persistent CTAs in step.
double swept_dram_gb(int buffer_mib, bool sawtooth, long long effective_bytes) {
  constexpr int kTileBytes = 16 * 1024;
  const int tiles = buffer_mib * 1024 * 1024 / kTileBytes;
  LruCache cache(effective_bytes / 32, tiles);
  for (int sweep = 0; sweep < 8; ++sweep) {
    for (int step = 0; step < tiles; ++step) {
      const bool backward = sawtooth && sweep % 2 == 1;
      cache.touch(backward ? tiles - 1 - step : step, kTileBytes / 32);
    }
  }
  return static_cast<double>(cache.compulsory_misses() + cache.excess_misses()) * 32 / 1e9;
}

TEST(LruCache, ReproducesTheBufferSweepMeasuredOnAnH200) {
  constexpr long long kEffectiveBytes = 30'723'277;  // model/profile/gpus/h200.json
  const struct {
    int mib;
    double cyclic_gb, sawtooth_gb;
  } measured[] = {{40, 0.336, 0.121}, {48, 0.403, 0.187}, {64, 0.537, 0.322}, {128, 1.075, 0.859}};
  for (const auto& row : measured) {
    EXPECT_NEAR(swept_dram_gb(row.mib, false, kEffectiveBytes), row.cyclic_gb,
                0.05 * row.cyclic_gb);
    EXPECT_NEAR(swept_dram_gb(row.mib, true, kEffectiveBytes), row.sawtooth_gb,
                0.05 * row.sawtooth_gb);
  }
}

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
