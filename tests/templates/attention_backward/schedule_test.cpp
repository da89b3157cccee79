// SPDX-License-Identifier: MIT
// Proves the schedule of attention backward: every pair of tiles with a visible score exactly once,
// whatever the order, persistence, parts and mask; a turn of its own for every addition to dQ; no
// deadlock of those that wait for their turn.
#include "templates/attention_backward/schedule.h"

#include "tests/support/test.h"

namespace swr::backward {
namespace {

struct Case {
  SequenceShape shape;
  int heads_kv = 1;
  int group = 1;
  int tile_m = 16;
  int tile_n = 16;
  int workers = 1;
  int section_heads = 1;
  int parts = 1;
  bool last_first = false;
  QOrder order = QOrder::cyclic;
  Persistence persistence = Persistence::grid;
  int rotation = 1;
  int bands = 1;
  bool waits_for_later = false;  ///< Turns the other way round than tiles are dealt.

  int q_tiles() const { return ceil_div(shape.seq_q, tile_m); }
  int kv_tiles() const { return ceil_div(shape.seq_kv, tile_n); }
  KvItems items() const { return {heads_kv, kv_tiles(), parts, bands}; }
  long long ctas() const { return cta_count(persistence, items().count(), workers); }
};

/// One step of an item.
struct Step {
  int query_head;
  int q_tile;
  int kv_tile;
  int turn;
};

std::vector<Step> steps_of(const Case& c, long long item) {
  const KvTile tile = map_kv_tile(item / c.parts, c.items(), c.section_heads, c.last_first);
  const QTiles tiles = q_tiles_of(tile.index, c.tile_m, c.tile_n, c.shape);
  const Steps part =
      steps_of_part(tiles.count * c.group, static_cast<int>(item % c.parts), c.parts);
  const Walk walk{c.order, tiles, round_of(c.persistence, item, c.parts, c.ctas()),
                  tile.place % c.rotation % tiles.count};
  const Turns turns = turns_of(tile, {c.last_first != c.waits_for_later, c.kv_tiles(), c.bands});
  std::vector<Step> steps;
  for (int step = 0; step < part.count; ++step) {
    const Place at = place_at(walk, part.first + step, c.group);
    const int contributors = kv_tiles_of(at.q_tile, c.tile_m, c.tile_n, c.shape);
    steps.push_back(
        {tile.head * c.group + at.group_head, at.q_tile, tile.index, turns.at(contributors)});
  }
  return steps;
}

Case random_case(std::mt19937& random) {
  const auto from = [&](int lowest, int highest) {
    return std::uniform_int_distribution<int>(lowest, highest)(random);
  };
  Case c;
  c.shape = {from(1, 150), from(1, 150), from(0, 1) == 1};
  c.heads_kv = from(1, 4);
  c.group = from(1, 3);
  c.tile_m = 16 * from(1, 3);
  c.tile_n = 16 * from(1, 3);
  c.workers = from(1, 9);
  c.section_heads = from(1, c.heads_kv);
  c.parts = from(1, 4);
  c.last_first = from(0, 1) == 1;
  c.order = static_cast<QOrder>(from(0, 3));
  c.persistence = static_cast<Persistence>(from(0, 4));
  c.rotation = from(1, 6);
  c.bands = from(0, 1) == 1 ? from(2, 7) : 1;
  return c;
}

bool sees(const Case& c, int q_tile, int kv_tile) {
  for (int row = q_tile * c.tile_m; row < std::min(c.shape.seq_q, (q_tile + 1) * c.tile_m); ++row) {
    if (is_visible(row, kv_tile * c.tile_n, c.shape)) {
      return true;
    }
  }
  return false;
}

TEST(AttentionBackwardSchedule, EveryPairThatIsSeenComesExactlyOnce) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 3000; ++trial) {
    const Case c = random_case(random);
    std::multiset<std::tuple<int, int, int>> walked;
    for (long long cta = 0; cta < c.ctas(); ++cta) {
      for (int iteration = 0;; ++iteration) {
        const long long item = cta_tile(c.persistence, cta, c.ctas(), iteration, c.items().count());
        if (item < 0) {
          break;
        }
        for (const Step& step : steps_of(c, item)) {
          walked.insert({step.query_head, step.q_tile, step.kv_tile});
        }
      }
    }
    std::multiset<std::tuple<int, int, int>> expected;
    for (int head = 0; head < c.heads_kv * c.group; ++head) {
      for (int q_tile = 0; q_tile < c.q_tiles(); ++q_tile) {
        for (int kv_tile = 0; kv_tile < c.kv_tiles(); ++kv_tile) {
          if (sees(c, q_tile, kv_tile)) {
            expected.insert({head, q_tile, kv_tile});
          }
        }
      }
    }
    ASSERT_EQ(walked, expected) << "trial " << trial;
  }
}

TEST(AttentionBackwardSchedule, PairsWithoutMaskAreSeenWhole) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    const Case c = random_case(random);
    for (int q_tile = 0; q_tile < c.q_tiles(); ++q_tile) {
      for (int kv_tile = 0; kv_tile < c.kv_tiles(); ++kv_tile) {
        bool whole = true;
        for (int row = q_tile * c.tile_m; row < (q_tile + 1) * c.tile_m; ++row) {
          for (int key = kv_tile * c.tile_n; key < (kv_tile + 1) * c.tile_n; ++key) {
            whole = whole && row < c.shape.seq_q && is_visible(row, key, c.shape);
          }
        }
        ASSERT_EQ(pair_needs_mask(q_tile, kv_tile, c.tile_m, c.tile_n, c.shape), !whole);
      }
    }
  }
}

/// A problem whose additions take turns, on a device with room for so many CTAs.
struct Relayed {
  Case c;
  int room = 1;
};

Relayed random_relay(std::mt19937& random) {
  Relayed relayed{random_case(random), 1 + static_cast<int>(random() % 12)};
  relayed.c.order = static_cast<QOrder>(random() % 3);  // Rotated tiles take no turns.
  return relayed;
}

/// CTAs draw items in order and wait for their turns; chance decides who goes on. Returns false
/// when all wait. Checks that additions come in the order of their turns, all of them.
bool relay_ends(const Relayed& relayed, std::mt19937& random) {
  const Case& c = relayed.c;
  struct Running {
    std::vector<Step> steps;
    std::size_t next = 0;
  };
  std::vector<Running> running;
  std::map<std::pair<int, int>, int> turns;
  long long drawn = 0;
  while (true) {
    while (static_cast<int>(running.size()) < relayed.room && drawn < c.items().count()) {
      running.push_back({steps_of(c, drawn++)});
    }
    if (running.empty()) {
      break;
    }
    std::shuffle(running.begin(), running.end(), random);
    bool any = false;
    for (Running& one : running) {
      for (auto most = 1 + random() % 5; most > 0 && one.next < one.steps.size(); --most) {
        const Step& step = one.steps[one.next];
        int& turn = turns[{step.query_head, step.q_tile}];
        if (turn != step.turn) {
          break;
        }
        ++turn;
        ++one.next;
        any = true;
      }
    }
    any = std::erase_if(running, [](const Running& one) { return one.next == one.steps.size(); }) >
              0 ||
          any;
    if (!any) {
      return false;
    }
  }
  for (int head = 0; head < c.heads_kv * c.group; ++head) {
    for (int q_tile = 0; q_tile < c.q_tiles(); ++q_tile) {
      const int contributors = kv_tiles_of(q_tile, c.tile_m, c.tile_n, c.shape);
      EXPECT_EQ((turns[{head, q_tile}]), contributors);
    }
  }
  return true;
}

TEST(AttentionBackwardSchedule, ThoseWhoWaitForTheirTurnGetIt) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 3000; ++trial) {
    const Relayed relayed = random_relay(random);
    const bool ends = relay_ends(relayed, random);
    ASSERT_TRUE(ends) << "trial " << trial << " order " << static_cast<int>(relayed.c.order);
  }
}

/// The first band of every head before the second of any; from the last tile of a band to its
/// first, or the other way round.
TEST(AttentionBackwardSchedule, BandsAreDealtOneAfterTheOther) {
  const auto dealt = [](KvItems items, bool last_first) {
    std::vector<std::pair<int, int>> tiles;
    for (long long linear = 0; linear < items.tiles(); ++linear) {
      const KvTile tile = map_kv_tile(linear, items, 1, last_first);
      tiles.emplace_back(tile.head, tile.index);
    }
    return tiles;
  };
  using Tiles = std::vector<std::pair<int, int>>;
  EXPECT_EQ(
      dealt({2, 5, 1, 2}, true),
      (Tiles{{0, 1}, {0, 0}, {1, 1}, {1, 0}, {0, 4}, {0, 3}, {0, 2}, {1, 4}, {1, 3}, {1, 2}}));
  EXPECT_EQ(dealt({2, 3, 1, 3}, false), (Tiles{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(dealt({1, 3, 1, 1}, true), (Tiles{{0, 2}, {0, 1}, {0, 0}}));
}

TEST(AttentionBackwardSchedule, EveryTileHasABand) {
  for (int kv_tiles = 1; kv_tiles < 40; ++kv_tiles) {
    for (int bands = 1; bands <= 12; ++bands) {
      for (int index = 0; index < kv_tiles; ++index) {
        const Band band = band_of(index, kv_tiles, bands);
        ASSERT_LE(band.first, index);
        ASSERT_GT(band.end, index);
        ASSERT_LE(band.end - band.first, ceil_div(kv_tiles, bands));
      }
    }
  }
}

/// What those that wait rest on: the tiles that they wait for have been dealt.
TEST(AttentionBackwardSchedule, WhoWaitsForTilesDealtLaterWaitsForEver) {
  std::mt19937 random(6);
  Relayed relayed{{.shape = {128, 128, false}, .waits_for_later = true}, 3};
  EXPECT_FALSE(relay_ends(relayed, random));
  relayed.room = 8;
  EXPECT_TRUE(relay_ends(relayed, random));
}

}  // namespace
}  // namespace swr::backward
