// SPDX-License-Identifier: MIT
#include "model/l2/reuse_distance.h"

#include "model/l2/lru_cache.h"

#include <gtest/gtest.h>

#include <random>

namespace swr {
namespace {

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

}  // namespace
}  // namespace swr
