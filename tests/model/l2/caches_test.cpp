// SPDX-License-Identifier: MIT
// The simple caches of the model, reuse distances and what is remembered of traffic.
#include "model/l2/free_queue.h"
#include "model/l2/lru_cache.h"
#include "model/l2/partitioned_l2.h"
#include "model/l2/reuse_distance.h"
#include "model/l2/set_associative_cache.h"
#include "model/l2/traffic_memo.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/test.h"
#include <swr/result.h>

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

// The cache of hashed sets against a line by line simulation of one, and against sweeps that an
// H200 measured (tests/data/l2_sweeps_h200.csv).

constexpr int kWays = 16;

/// Sets that are simulated one by one; every line falls into one drawn at random.
class NaiveSets {
 public:
  NaiveSets(int sets, int lines) : sets_(static_cast<std::size_t>(sets)) {
    std::mt19937 random(7);
    for (int line = 0; line < lines; ++line) {
      set_of_.push_back(random() % static_cast<unsigned>(sets));
    }
  }

  bool touch(int line) {
    std::vector<int>& set = sets_[set_of_[static_cast<std::size_t>(line)]];
    const auto found = std::find(set.begin(), set.end(), line);
    const bool hit = found != set.end();
    if (hit) {
      set.erase(found);
    } else if (set.size() == kWays) {
      set.erase(set.begin());
    }
    set.push_back(line);
    return hit;
  }

 private:
  std::vector<std::vector<int>> sets_;  ///< Least recently used first.
  std::vector<std::size_t> set_of_;
};

TEST(Survival, IsCertainForWhatFitsAndVanishesFarPastTheCapacity) {
  const SetShape shape{.capacity_sectors = 1000, .ways = kWays, .footprint_sectors = 1e9};
  EXPECT_GT(survival(0, shape), 0.9999);
  EXPECT_NEAR(survival(1000.0 * (kWays - 0.5) / kWays, shape), 0.5, 1e-6);
  EXPECT_LT(survival(3000, shape), 1e-3);
  for (double used = 0; used < 3000; used += 50) {
    EXPECT_GE(survival(used, shape), survival(used + 50, shape));
  }
}

TEST(Survival, IsSharperWhereNearlyTheWholeFootprintWasUsed) {
  const SetShape part{.capacity_sectors = 1000, .ways = kWays, .footprint_sectors = 1e9};
  const SetShape all{.capacity_sectors = 1000, .ways = kWays, .footprint_sectors = 800};
  EXPECT_LT(survival(800, part), survival(800, all));
}

TEST(Survival, OfAFootprintThatFillsTheSetsEvenlyIsThatOfItsOwnPlace) {
  // A set then holds about as many lines as it has ways, and the line itself is one of them.
  const SetShape filled{.capacity_sectors = 1000, .ways = kWays, .footprint_sectors = 1000};
  const SetShape scattered{.capacity_sectors = 1000, .ways = kWays, .footprint_sectors = 1e9};
  EXPECT_GT(survival(1000, filled), 0.5);
  EXPECT_LT(survival(1000, scattered), 0.5);
  EXPECT_LT(survival(1200, {.capacity_sectors = 1000, .ways = kWays, .footprint_sectors = 1200}),
            0.1);
}

TEST(SetAssociativeCache, KeepsWhatALineByLineSimulationKeeps) {
  // Lines drawn at random out of many more than fit, so that each falls into any set.
  constexpr int kSets = 512;
  constexpr int kLines = kSets * kWays * 3 / 2;
  constexpr int kEffective = kSets * kWays * 31 / 32;  // Less half a line of each set.
  NaiveSets naive(kSets, kLines);
  SetAssociativeCache cache(kEffective, kWays, std::numeric_limits<int>::max(), kLines);
  std::mt19937 random(11);
  int naive_hits = 0;
  int hits = 0;
  constexpr int kTouches = 400'000;
  for (int i = 0; i < kTouches; ++i) {
    // Recent lines more often: the distance of reuse covers all sizes.
    const double share = static_cast<double>(random() % 1'000'000) / 1e6;
    const int line = (i / 16 + static_cast<int>(share * share * (kLines - 1))) % kLines;
    naive_hits += naive.touch(line);
    hits += cache.touch(line, 1);
  }
  EXPECT_GT(naive_hits, kTouches / 10);
  EXPECT_NEAR(hits, naive_hits, 0.02 * kTouches);
}

TEST(SetAssociativeCache, ForgetsNothingHoweverOftenThingsAreUsed) {
  // Some are used all the time and a few once in a while, over many more groups than objects.
  constexpr int kOften = 100;
  constexpr int kSeldom = 20;
  SetAssociativeCache cache(100'000, kWays, 100'000, kOften + kSeldom);
  int misses = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const int object = i % 5000 == 4999 ? kOften + i / 5000 % kSeldom : i % kOften;
    misses += cache.touch(object, 500) ? 0 : 1;
  }
  EXPECT_EQ(misses, kOften + kSeldom);
}

TEST(SetAssociativeCache, WhatOtherBuffersPutIntoASetIsChance) {
  // As much was used in between, all of the line's own buffer or a fifth of it of others.
  const auto kept = [](double used, double footprint) {
    return survival(used, {.capacity_sectors = 1000, .ways = 16, .footprint_sectors = footprint});
  };
  EXPECT_GT(kept(900, 900), kept(900, 720) + 0.05);
  EXPECT_LT(kept(1100, 1100), kept(1100, 880));
  EXPECT_GT(kept(900, 720), kept(1000, 720));
}

TEST(SetAssociativeCache, TouchesOfWhatIsNeverUsedAgainPushOut) {
  SetAssociativeCache cache(1000, kWays, 10'000, 2);
  EXPECT_FALSE(cache.touch(0, 10));
  cache.touch_once(100);
  EXPECT_TRUE(cache.touch(0, 10));
  for (int i = 0; i < 100; ++i) {
    cache.touch_once(100);
  }
  EXPECT_FALSE(cache.touch(0, 10));
}

/// A row of tests/data/l2_sweeps_h200.csv: a buffer read 8 times, tile by tile.
struct Sweep {
  std::string readers;  ///< all, one_partition, halves: each partition reads its half.
  std::string order;    ///< cyclic, sawtooth
  int mib = 0;
  long long piece_bytes = 0;  ///< Scattered over 2 GiB; 0 for a contiguous buffer.
  double dram_mb = 0.0;
};

std::vector<Sweep> sweeps() {
  std::vector<Sweep> all;
  std::ifstream file(SWR_L2_SWEEPS);
  std::string line;
  std::getline(file, line);  // Names.
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    Sweep sweep;
    std::string text;
    std::getline(fields, sweep.readers, ',');
    std::getline(fields, sweep.order, ',');
    std::getline(fields, text, ',');
    sweep.mib = std::stoi(text);
    std::getline(fields, text, ',');
    sweep.piece_bytes = std::stoll(text);
    std::getline(fields, text, ',');
    sweep.dram_mb = std::stod(text);
    all.push_back(sweep);
  }
  return all;
}

double modelled_mb(const Sweep& sweep) {
  static const GpuProfile h200 = load_profile("h200");
  constexpr int kTileSectors = 16384 / kSectorBytes;
  constexpr int kRounds = 8;
  const int tiles = sweep.mib * 64;
  const long long footprint =
      sweep.piece_bytes > 0 ? 2048LL * 1048576 / kSectorBytes : 1LL * tiles * kTileSectors;
  PartitionedL2 l2(SetAssociativeCache(h200.l2_effective_bytes / kSectorBytes, h200.l2_ways,
                                       footprint, 2 * tiles),
                   2, tiles);
  for (int round = 0; round < kRounds; ++round) {
    const bool halves = sweep.readers == "halves";
    const int steps = halves ? tiles / 2 : tiles;
    for (int step = 0; step < steps; ++step) {
      const int tile = sweep.order == "sawtooth" && round % 2 == 1 ? steps - 1 - step : step;
      l2.touch(tile, kTileSectors, 0);
      if (sweep.readers != "one_partition") {
        l2.touch(halves ? steps + tile : tile, kTileSectors, 1);
      }
    }
  }
  return static_cast<double>((l2.compulsory_misses() + l2.excess_misses()) * kSectorBytes) / 1e6;
}

std::string table_row(const Sweep& sweep, double modelled) {
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %s | %s | %d | %.0f | %.0f | %+.0f %% |",
                sweep.readers.c_str(), sweep.piece_bytes > 0 ? "2 KiB" : "contiguous",
                sweep.order.c_str(), sweep.mib, sweep.dram_mb, modelled,
                100 * (modelled / sweep.dram_mb - 1));
  return text;
}

TEST(SetAssociativeCache, SweepsOfAnH200ArePublishedAsMeasuredAndModelled) {
  const std::string published = bytes_of(SWR_L2_MODEL_DOC);
  ASSERT_GE(sweeps().size(), 40U);
  for (const Sweep& sweep : sweeps()) {
    EXPECT_THAT(published, HasSubstr(table_row(sweep, modelled_mb(sweep)) + "\n"));
  }
}

TEST(SetAssociativeCache, SweepsPastTheCliffAreWithinTenPercentOfTheH200) {
  int checked = 0;
  for (const Sweep& sweep : sweeps()) {
    if (sweep.piece_bytes == 0 && sweep.mib > 33 && sweep.readers == "all") {
      EXPECT_NEAR(modelled_mb(sweep), sweep.dram_mb, 0.1 * sweep.dram_mb)
          << sweep.readers << ' ' << sweep.order << ' ' << sweep.mib;
      ++checked;
    }
  }
  EXPECT_GE(checked, 9);
}

TEST(SetAssociativeCache, ScatteredPiecesAreWithinTenPercentOfTheH200AtEverySize) {
  for (const Sweep& sweep : sweeps()) {
    if (sweep.piece_bytes > 0 && sweep.readers == "all") {
      EXPECT_NEAR(modelled_mb(sweep), sweep.dram_mb, 0.1 * sweep.dram_mb) << sweep.mib;
    }
  }
}

}  // namespace
}  // namespace swr
