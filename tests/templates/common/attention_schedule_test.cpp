// SPDX-License-Identifier: MIT
// Proves the schedule: over randomised shapes, every (Q tile, K/V tile) that holds a visible pair
// is computed exactly once and no other, for every order, persistence, swizzle and mask.
#include "templates/common/attention_schedule.h"

#include "tests/support/test.h"

namespace swr {
namespace {

struct Case {
  SequenceShape shape;
  int heads = 1;
  int tile_m = 16;
  int tile_n = 16;
  int workers = 1;
  int section_heads = 1;
  int splits = 1;
  bool longest_first = false;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;

  int q_tiles() const { return ceil_div(shape.q_rows(), tile_m); }
  long long tiles() const { return static_cast<long long>(heads) * q_tiles(); }
  WorkItems items() const { return {heads, q_tiles(), splits}; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "seq_q " << c.shape.seq_q << " seq_kv " << c.shape.seq_kv << " causal "
             << c.shape.causal << " heads " << c.heads << " tile " << c.tile_m << "x" << c.tile_n
             << " packed " << c.shape.packed_heads << " splits " << c.splits << " workers "
             << c.workers << " longest first " << c.longest_first << " section " << c.section_heads
             << " order " << static_cast<int>(c.order) << " persistence "
             << static_cast<int>(c.persistence);
}

/// (head, Q tile, K/V tile).
using TilePair = std::tuple<int, int, int>;

/// One scan of a CTA: the Q tile and the K/V tiles in the order in which they are streamed.
struct Scan {
  long long cta = 0;
  int iteration = 0;
  QTile q_tile;
  int split = 0;
  std::vector<int> kv_tiles{};
};

/// Walks the schedule exactly as a kernel does.
std::vector<Scan> walk(const Case& c) {
  std::vector<Scan> scans;
  const long long ctas = cta_count(c.persistence, c.items().count(), c.workers);
  for (long long cta = 0; cta < ctas; ++cta) {
    for (int iteration = 0;; ++iteration) {
      const long long item = cta_tile(c.persistence, cta, ctas, iteration, c.items().count());
      if (item < 0) {
        break;
      }
      const QTile mapped = map_tile(item / c.splits, c.q_tiles(), c.heads, c.section_heads);
      Scan scan{cta, iteration, longest_first(mapped, c.q_tiles(), c.longest_first),
                static_cast<int>(item % c.splits)};
      const auto [first, count] = kv_part(
          kv_tile_count(scan.q_tile.index, c.tile_m, c.tile_n, c.shape), scan.split, c.splits);
      for (int step = 0; step < count; ++step) {
        scan.kv_tiles.push_back(first +
                                kv_tile_at(step, count, scans_backward(c.order, iteration)));
      }
      scans.push_back(scan);
    }
  }
  return scans;
}

/// The tile pairs that hold at least one visible (row, key), found element by element.
std::set<TilePair> required_pairs(const Case& c) {
  std::set<TilePair> pairs;
  for (int row = 0; row < c.shape.q_rows(); ++row) {
    for (int key = 0; key < c.shape.seq_kv; ++key) {
      if (is_visible(row, key, c.shape)) {
        for (int head = 0; head < c.heads; ++head) {
          pairs.emplace(head, row / c.tile_m, key / c.tile_n);
        }
      }
    }
  }
  return pairs;
}

Case random_case(std::mt19937& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Case c;
  c.shape = {pick(1, 150), pick(1, 150), pick(0, 1) == 1};
  if (pick(0, 2) == 0) {
    c.shape.seq_q = pick(1, 20);
    c.shape.packed_heads = pick(2, 8);
  }
  c.splits = pick(0, 2) == 0 ? pick(2, 12) : 1;
  c.heads = pick(1, 7);
  c.tile_m = 16 * pick(1, 4);
  c.tile_n = 16 * pick(1, 4);
  c.workers = pick(1, 12);
  c.section_heads = pick(1, c.heads);
  c.longest_first = c.shape.causal && pick(0, 1) == 1;
  return c;
}

std::vector<Case> with_every_order_and_persistence(const Case& base) {
  std::vector<Case> cases;
  for (const Order order : {Order::cyclic, Order::sawtooth, Order::right_to_left}) {
    for (const Persistence persistence :
         {Persistence::grid, Persistence::persistent, Persistence::pairs, Persistence::snake,
          Persistence::dynamic}) {
      Case c = base;
      c.order = order;
      c.persistence = persistence;
      cases.push_back(c);
    }
  }
  return cases;
}

TEST(Schedule, ComputesEveryVisibleTilePairExactlyOnceAndNoOther) {
  std::mt19937 random(20261121);
  for (int trial = 0; trial < 400; ++trial) {
    const Case base = random_case(random);
    const std::set<TilePair> required = required_pairs(base);
    for (const Case& c : with_every_order_and_persistence(base)) {
      std::map<TilePair, int> computed;
      for (const Scan& scan : walk(c)) {
        for (const int kv : scan.kv_tiles) {
          ++computed[{scan.q_tile.head, scan.q_tile.index, kv}];
        }
      }
      ASSERT_EQ(computed.size(), required.size()) << c;
      for (const TilePair& pair : required) {
        ASSERT_EQ(computed[pair], 1) << c;
      }
    }
  }
}

TEST(Schedule, VisitsEveryQTileOnceEvenWhenItsRowsSeeNoKey) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 400; ++trial) {
    for (const Case& c : with_every_order_and_persistence(random_case(random))) {
      std::set<TilePair> visited;
      for (const Scan& scan : walk(c)) {
        ASSERT_TRUE(visited.emplace(scan.q_tile.head, scan.q_tile.index, scan.split).second) << c;
        ASSERT_LT(scan.q_tile.head, c.heads) << c;
        ASSERT_LT(scan.q_tile.index, c.q_tiles()) << c;
      }
      ASSERT_EQ(static_cast<long long>(visited.size()), c.items().count()) << c;
    }
  }
}

TEST(Schedule, NeedsMaskExactlyWhereAPairIsHidden) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const Case c = random_case(random);
    for (int q = 0; q < c.q_tiles(); ++q) {
      const int count = kv_tile_count(q, c.tile_m, c.tile_n, c.shape);
      for (int kv = 0; kv < count; ++kv) {
        bool hidden = false;
        // Rows past the last are computed but never stored: their mask does not matter.
        const int rows = std::min((q + 1) * c.tile_m, c.shape.q_rows());
        for (int row = q * c.tile_m; row < rows; ++row) {
          for (int key = kv * c.tile_n; key < (kv + 1) * c.tile_n; ++key) {
            hidden = hidden || !is_visible(row, key, c.shape);
          }
        }
        ASSERT_EQ(needs_mask(q, kv, c.tile_m, c.tile_n, c.shape), hidden) << c;
      }
    }
  }
}

TEST(Schedule, UnmaskedTilesAreThoseBeforeTheFirstThatNeedsAMask) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 300; ++trial) {
    const Case c = random_case(random);
    for (int q = 0; q < c.q_tiles(); ++q) {
      const int count = kv_tile_count(q, c.tile_m, c.tile_n, c.shape);
      int unmasked = 0;
      while (unmasked < count && !needs_mask(q, unmasked, c.tile_m, c.tile_n, c.shape)) {
        ++unmasked;
      }
      ASSERT_EQ(std::min(count, unmasked_kv_tile_count(q, c.tile_m, c.tile_n, c.shape)), unmasked)
          << c;
    }
  }
}

TEST(Schedule, LongestFirstStartsWithTheTileThatSeesMostKeys) {
  EXPECT_EQ(longest_first({3, 0}, 8, true).index, 7);
  EXPECT_EQ(longest_first({3, 7}, 8, true).index, 0);
  EXPECT_EQ(longest_first({3, 7}, 8, true).head, 3);
  EXPECT_EQ(longest_first({3, 2}, 8, false).index, 2) << "without a mask all tiles are as long";
}

TEST(Schedule, LongestFirstLeavesShortTilesToTheEndOfAGrid) {
  Case c;
  c.shape = {100, 100, true};
  c.heads = 3;
  c.section_heads = c.heads;
  c.longest_first = true;
  std::size_t before = 7;
  for (const Scan& scan : walk(c)) {
    EXPECT_LE(scan.kv_tiles.size(), before);
    before = scan.kv_tiles.size();
  }
  EXPECT_EQ(before, 1U);
}

TEST(Schedule, RightToLeftScansFromTheLastTileToTheFirst) {
  Case c;
  c.shape = {32, 48, false};
  c.order = Order::right_to_left;
  for (const Scan& scan : walk(c)) {
    EXPECT_EQ(scan.kv_tiles, (std::vector{2, 1, 0}));
  }
}

TEST(Schedule, SawtoothTurnsAroundWhereTheScanBeforeEnded) {
  Case c;
  c.shape = {160, 96, false};
  c.order = Order::sawtooth;
  c.persistence = Persistence::persistent;
  c.workers = 3;
  std::map<long long, int> last_tile;
  for (const Scan& scan : walk(c)) {
    if (scan.iteration > 0) {
      EXPECT_EQ(scan.kv_tiles.front(), last_tile.at(scan.cta));
    }
    last_tile[scan.cta] = scan.kv_tiles.back();
  }
}

TEST(Schedule, PairsScanForwardThenBackward) {
  Case c;
  c.shape = {80, 48, false};
  c.order = Order::sawtooth;
  c.persistence = Persistence::pairs;
  const std::vector<Scan> scans = walk(c);
  ASSERT_EQ(scans.size(), 5U);
  EXPECT_EQ(scans[0].kv_tiles, (std::vector{0, 1, 2}));
  EXPECT_EQ(scans[1].kv_tiles, (std::vector{2, 1, 0}));
  EXPECT_EQ(scans[4].cta, 2);
  EXPECT_EQ(scans[4].kv_tiles, (std::vector{0, 1, 2})) << "an odd tile out is a forward scan";
}

TEST(Schedule, SnakeEvensOutTheLengthsOfACausalMask) {
  Case c;
  c.shape = {1024, 1024, true};
  c.heads = 4;
  c.workers = 16;
  std::map<long long, int> steps;
  c.longest_first = true;
  const auto longest = [&](Persistence persistence) {
    steps.clear();
    c.persistence = persistence;
    for (const Scan& scan : walk(c)) {
      steps[scan.cta] += static_cast<int>(scan.kv_tiles.size());
    }
    int most = 0;
    for (const auto& [cta, count] : steps) {
      most = std::max(most, count);
    }
    return most;
  };
  // 4 heads of 1 + 2 + ... + 64 steps over 16 CTAs: 520 each at best.
  EXPECT_EQ(longest(Persistence::snake), 520);
  EXPECT_EQ(longest(Persistence::persistent), 640) << "the first CTA always gets the longest";
}

TEST(Schedule, CausalMaskIsAlignedToTheBottomRight) {
  const SequenceShape decode{1, 100, true};
  EXPECT_TRUE(is_visible(0, 99, decode));
  EXPECT_EQ(kv_tile_count(0, 16, 16, decode), 7);
  const SequenceShape more_queries{100, 10, true};
  EXPECT_FALSE(is_visible(89, 0, more_queries));
  EXPECT_TRUE(is_visible(90, 0, more_queries));
  EXPECT_EQ(kv_tile_count(0, 16, 16, more_queries), 0) << "rows 0 to 15 see no key";
}

TEST(Schedule, RowsOfPackedHeadsSeeWhatTheirPositionSees) {
  // Three positions of four heads on ten keys: rows 4 to 7 are of position 1, which sees nine.
  constexpr SequenceShape kPacked{3, 10, true, 4};
  static_assert(kPacked.q_rows() == 12 && kPacked.position(7) == 1);
  EXPECT_EQ(visible_keys(3, kPacked), 8);
  EXPECT_EQ(visible_keys(4, kPacked), 9);
  EXPECT_EQ(visible_keys(7, kPacked), 9);
  EXPECT_EQ(visible_keys(8, kPacked), 10);
}

TEST(Schedule, SplitsDivideTheTilesEvenlyAndInOrder) {
  for (int tiles = 0; tiles < 40; ++tiles) {
    for (int splits = 1; splits <= 64; ++splits) {
      int next = 0;
      for (int split = 0; split < splits; ++split) {
        const KvTiles part = kv_part(tiles, split, splits);
        EXPECT_EQ(part.first, next);
        EXPECT_GE(part.count, tiles / splits);
        EXPECT_LE(part.count, ceil_div(tiles, splits));
        next += part.count;
      }
      EXPECT_EQ(next, tiles);
    }
  }
}

TEST(Schedule, MapsTilesAsTheSwizzlesPromise) {
  constexpr int kQTiles = 3;
  constexpr int kHeads = 5;
  const auto head_of = [](long long linear, int section) {
    return map_tile(linear, kQTiles, kHeads, section).head;
  };
  EXPECT_EQ(head_of(1, 1), 0) << "q_fastest stays on the head";
  EXPECT_EQ(head_of(3, 1), 1);
  EXPECT_EQ(head_of(1, kHeads), 1) << "head_fastest moves to the next head";
  EXPECT_EQ(head_of(5, kHeads), 0);
  EXPECT_EQ(head_of(1, 2), 1) << "sections of two alternate between their heads";
  EXPECT_EQ(head_of(2, 2), 0);
  EXPECT_EQ(head_of(6, 2), 2);
  EXPECT_EQ(head_of(12, 2), 4) << "the last section is smaller";
  EXPECT_EQ(head_of(14, 2), 4);
}

TEST(Schedule, IsConstexprSoThatKernelsCanFoldIt) {
  static_assert(map_tile(4, 2, 3, 1).head == 2);
  static_assert(kv_tile_count(0, 64, 64, {128, 128, true}) == 1);
  static_assert(cta_tile(Persistence::pairs, 1, 2, 1, 3) == -1);
}

}  // namespace
}  // namespace swr
