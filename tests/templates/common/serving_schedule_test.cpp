// SPDX-License-Identifier: MIT
// Proves the schedule of unequal sequences: over random lengths, masks and launches, every
// (sequence, head, Q tile, K and V tile) that holds a visible pair is computed exactly once, no
// other is, every Q tile is written by exactly one CTA, and what CTAs share fits what the host
// provides.
#include "templates/common/serving_schedule.h"

#include "operations/attention_serving/launch_plan.h"
#include "tests/support/test.h"

namespace swr {
namespace {

/// The list of sequences as the host makes it.
class HostList {
 public:
  HostList(const ServingTiles& tiles, const ServingAttentionParams& params) {
    const int count = list_entries(params.batch);
    entries_.resize(static_cast<std::size_t>(count));
    std::iota(entries_.begin(), entries_.end(), 0);
    if (is_sorted(params.item_order, params.batch)) {
      std::stable_sort(entries_.begin(), entries_.end(), [&](int a, int b) {
        return sorting_key(tiles, params, a) > sorting_key(tiles, params, b);
      });
    }
    long long sum = 0;
    for (const int entry : entries_) {
      ends_.push_back(sum += entry_units(tiles, params, entry));
    }
  }

  long long end(int place) const { return ends_[static_cast<std::size_t>(place)]; }
  int entry(int place) const { return entries_[static_cast<std::size_t>(place)]; }
  long long units() const { return ends_.empty() ? 0 : ends_.back(); }

 private:
  std::vector<int> entries_;
  std::vector<long long> ends_;
};

/// (sequence, head, Q tile, part): what a CTA computes in one go.
struct Scan {
  int cta = 0;
  int sequence = 0;
  QTile tile;
  KvTiles kv_tiles;  ///< Of all.
  ItemPart part;
};

struct Problem {
  ServingTiles tiles;
  ServingAttentionParams params;
  Persistence persistence = Persistence::grid;
  int workers = 1;
  std::vector<int> cu_seqlens_q{};
  std::vector<int> seqused_k{};
  std::vector<int> leftpad_k{};

  ServingLaunchPlan plan() const {
    return {.tiles = tiles, .head_dim_v = 64, .persistence = persistence, .workers = workers};
  }
  void point() {
    params.lengths.cu_seqlens_q = cu_seqlens_q.empty() ? nullptr : cu_seqlens_q.data();
    params.lengths.seqused_k = seqused_k.data();
    params.lengths.leftpad_k = leftpad_k.empty() ? nullptr : leftpad_k.data();
  }
  MaskedSequence sequence(int i) const {
    return masked_sequence(tiles, params, query_length(params, i), key_length(params, i));
  }
};

KvTiles shifted(KvTiles tiles, int by) { return {tiles.first + by, tiles.count}; }

/// All that the CTAs of a launch do, in the way a kernel goes about it.
std::vector<Scan> walk(const Problem& problem) {
  const ServingTiles& tiles = problem.tiles;
  const ServingAttentionParams& params = problem.params;
  const HostList list(tiles, params);
  const int ctas = serving_ctas(problem.plan(), params);
  std::vector<Scan> scans;
  const auto scan = [&](int cta, const ItemPlace& place, ItemPart part) {
    const QTile tile = item_tile(place.item, place.items, params.section_heads, params.item_order);
    const KvInterval interval =
        kv_interval(tile.index, tiles.tile_m, tiles.tile_n, problem.sequence(place.sequence));
    scans.push_back({cta, place.sequence, tile, shifted(part.tiles, interval.first), part});
  };
  const auto kv_tiles = [&](const ItemPlace& place) {
    const QTile tile = item_tile(place.item, place.items, params.section_heads, params.item_order);
    return kv_interval(tile.index, tiles.tile_m, tiles.tile_n, problem.sequence(place.sequence))
        .count();
  };
  for (int cta = 0; cta < ctas; ++cta) {
    if (tiles.deal == Deal::direct) {
      const DirectPlace place =
          direct_place(tiles, params, static_cast<unsigned>(cta), static_cast<unsigned>(ctas));
      const MaskedSequence sequence = problem.sequence(place.sequence);
      if (place.tile.index * tiles.tile_m < sequence.q_rows()) {
        const KvInterval interval =
            kv_interval(place.tile.index, tiles.tile_m, tiles.tile_n, sequence);
        ItemPart part;
        if (direct_part(part, place, interval.count(), params.least_units, cta)) {
          scans.push_back(
              {cta, place.sequence, place.tile, shifted(part.tiles, interval.first), part});
        }
      }
      continue;
    }
    if (tiles.deal == Deal::whole) {
      for (int iteration = 0;; ++iteration) {
        const long long unit = cta_tile(problem.persistence, cta, ctas, iteration, list.units());
        if (unit < 0) {
          break;
        }
        const ItemPlace place = place_of_unit(tiles, params, list, unit);
        scan(cta, place, {.tiles = {0, kv_tiles(place)}, .first_worker = cta});
      }
      continue;
    }
    const Ranges ranges = cut_ranges(list.units(), ctas, params.least_units);
    if (cta >= ranges.workers) {
      continue;
    }
    for (long long unit = ranges.first(cta); unit < ranges.end(cta);) {
      const ItemPlace place = place_of_unit(tiles, params, list, unit);
      ItemPart part;
      if (part_of_item(part, place, params.item_overhead, kv_tiles(place), ranges, cta)) {
        scan(cta, place, part);
      }
      unit = place.first_unit + place.items.units_per_item;
    }
  }
  return scans;
}

/// Whether a query may see a key, in the words of the contract.
bool may_see(const Problem& problem, int i, int query, int key) {
  const int seq_q = query_length(problem.params, i);
  const int seq_kv = key_length(problem.params, i);
  const KeyWindow window = problem.tiles.mask == ServingMask::full     ? KeyWindow{}
                           : problem.tiles.mask == ServingMask::causal ? KeyWindow{.right = 0}
                                                                       : problem.params.window;
  const int position = query + seq_kv - seq_q;
  if (window.left >= 0 && key < position - window.left) {
    return false;
  }
  if (window.right >= 0 && key > position + window.right) {
    return false;
  }
  if (window.chunk > 0) {
    int chunk = 0;  // Of the position, found by walking.
    while (chunk + window.chunk <= position) {
      chunk += window.chunk;
    }
    while (chunk > position) {
      chunk -= window.chunk;
    }
    return key >= chunk && key < chunk + window.chunk;
  }
  return true;
}

int drawn(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

/// Lengths from a family: all equal, anything, mostly short, some empty.
int drawn_length(std::mt19937& random, int family, int most) {
  switch (family) {
    case 0:
      return most;
    case 1:
      return drawn(random, 0, most);
    case 2:
      return drawn(random, 0, 9) == 0 ? most : drawn(random, 0, std::min(most, 5));
    default:
      return drawn(random, 0, 3) == 0 ? 0 : drawn(random, 1, most);
  }
}

Problem drawn_problem(std::mt19937& random, int batch) {
  Problem problem;
  problem.tiles = {.tile_m = 16 << drawn(random, 0, 2),
                   .tile_n = 16 * drawn(random, 1, 4),
                   .mask = static_cast<ServingMask>(drawn(random, 0, 2)),
                   .pack_gqa = drawn(random, 0, 1) == 1,
                   .deal = static_cast<Deal>(drawn(random, 0, 2))};
  ServingAttentionParams& params = problem.params;
  params.batch = batch;
  params.heads_kv = drawn(random, 1, 3);
  params.heads_q = params.heads_kv * drawn(random, 1, 4);
  params.max_seq_q = drawn(random, 0, 2) == 0 ? 1 : drawn(random, 1, batch > 40 ? 20 : 150);
  params.max_seq_kv = drawn(random, 1, batch > 40 ? 60 : 400);
  params.window = {drawn(random, -1, 80), drawn(random, -1, 40),
                   drawn(random, 0, 2) == 0 ? drawn(random, 1, 90) : 0};
  params.section_heads = drawn(random, 1, 12);
  params.item_order = static_cast<ItemOrder>(drawn(random, 0, 2));
  params.item_overhead = drawn(random, 0, 4);
  params.least_units = drawn(random, 0, 1) == 0 ? 1 : drawn(random, 1, 12);
  problem.persistence = static_cast<Persistence>(drawn(random, 0, 3));
  problem.workers = drawn(random, 1, 40);
  const int family = drawn(random, 0, 3);
  if (drawn(random, 0, 3) > 0) {
    problem.cu_seqlens_q = {0};
    for (int i = 0; i < batch; ++i) {
      problem.cu_seqlens_q.push_back(problem.cu_seqlens_q.back() +
                                     drawn_length(random, family, params.max_seq_q));
    }
    params.total_q = problem.cu_seqlens_q.back();
  }
  const bool padded = drawn(random, 0, 2) == 0;
  for (int i = 0; i < batch; ++i) {
    problem.seqused_k.push_back(drawn_length(random, family, params.max_seq_kv));
    if (padded) {
      problem.leftpad_k.push_back(drawn(random, 0, 1) * drawn(random, 0, 30));
    }
  }
  problem.point();
  return problem;
}

using TileId = std::tuple<int, int, int, int>;

/// K and V tiles with a visible pair, for every row of every Q tile.
std::set<TileId> needed_tiles(const Problem& problem) {
  std::set<TileId> needed;
  const int pack = packed_heads(problem.tiles, problem.params);
  const int heads = scheduled_heads(problem.tiles, problem.params);
  for (int i = 0; i < problem.params.batch; ++i) {
    const int keys = key_length(problem.params, i);
    for (int query = 0; query < query_length(problem.params, i); ++query) {
      for (int key = 0; key < keys; ++key) {
        if (!may_see(problem, i, query, key)) {
          continue;
        }
        for (int row = query * pack; row < (query + 1) * pack; ++row) {
          for (int head = 0; head < heads; ++head) {
            needed.insert({i, head, row / problem.tiles.tile_m, key / problem.tiles.tile_n});
          }
        }
      }
    }
  }
  return needed;
}

void expect_each_tile_once(const Problem& problem, const std::vector<Scan>& scans) {
  std::map<TileId, int> computed;
  for (const Scan& scan : scans) {
    for (int tile = 0; tile < scan.kv_tiles.count; ++tile) {
      ++computed[{scan.sequence, scan.tile.head, scan.tile.index, scan.kv_tiles.first + tile}];
    }
  }
  const std::set<TileId> needed = needed_tiles(problem);
  EXPECT_EQ(computed.size(), needed.size());
  for (const TileId& tile : needed) {
    EXPECT_EQ(computed[tile], 1);
  }
}

/// Every Q tile has the parts that each of them believes it has, in places of their own.
void expect_parts_meet(const Problem& problem, const std::vector<Scan>& scans) {
  std::map<std::tuple<int, int, int>, std::map<int, ItemPart>> items;
  std::set<int> slots;
  std::set<int> counters;
  const ServingLaunch launch = serving_launch(problem.plan(), problem.params);
  for (const Scan& scan : scans) {
    auto& parts = items[{scan.sequence, scan.tile.head, scan.tile.index}];
    EXPECT_TRUE(parts.emplace(scan.part.part, scan.part).second);
    if (scan.part.is_shared()) {
      EXPECT_EQ(scan.cta, scan.part.first_worker + scan.part.part);
      EXPECT_TRUE(slots.insert(scan.part.slot(scan.part.part)).second);
      EXPECT_LT(scan.part.slot(scan.part.part), 2 * launch.arrival_words);
      EXPECT_LT(scan.part.first_worker, launch.arrival_words);
      if (scan.part.part == 0) {
        EXPECT_TRUE(counters.insert(scan.part.first_worker).second);
      }
    }
  }
  long long q_tiles = 0;
  for (int i = 0; i < problem.params.batch; ++i) {
    q_tiles += items_of(problem.tiles, problem.params, query_length(problem.params, i),
                        key_length(problem.params, i))
                   .items();
  }
  EXPECT_EQ(static_cast<long long>(items.size()), q_tiles);
  EXPECT_LE(q_tiles, most_items(problem.tiles, problem.params));
  for (const auto& [item, parts] : items) {
    for (const auto& [number, part] : parts) {
      EXPECT_EQ(part.parts, static_cast<int>(parts.size()));
      EXPECT_EQ(part.first_worker, parts.begin()->second.first_worker);
      EXPECT_LT(number, part.parts);
    }
  }
}

TEST(ServingSchedule, EveryTileIsComputedOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    const Problem problem = drawn_problem(random, drawn(random, 1, 12));
    const std::vector<Scan> scans = walk(problem);
    expect_each_tile_once(problem, scans);
    expect_parts_meet(problem, scans);
    EXPECT_FALSE(HasFailure()) << "round " << round;
  }
}

/// One entry of the list for each sequence, and for two or three of them.
TEST(ServingSchedule, BatchesMayBeLongerThanTheList) {
  std::mt19937 random(6);
  for (const int batch : {31, 32, 33, kListEntries - 1, kListEntries, kListEntries + 1, 1025}) {
    for (int round = 0; round < 4; ++round) {
      const Problem problem = drawn_problem(random, batch);
      const std::vector<Scan> scans = walk(problem);
      expect_each_tile_once(problem, scans);
      expect_parts_meet(problem, scans);
    }
  }
}

/// Unmasked tiles hide nothing, and all that are not said to be unmasked hide something.
TEST(ServingSchedule, MasksAreWantedWhereAKeyIsHidden) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const Problem problem = drawn_problem(random, 2);
    for (int i = 0; i < problem.params.batch; ++i) {
      const MaskedSequence sequence = problem.sequence(i);
      const int m = problem.tiles.tile_m;
      const int n = problem.tiles.tile_n;
      for (int q = 0; q < ceil_div(sequence.q_rows(), m); ++q) {
        const KvInterval interval = kv_interval(q, m, n, sequence);
        int first_live = sequence.seq_kv;
        int last_live = -1;
        for (int tile = interval.first; tile < interval.end; ++tile) {
          bool hides = false;
          for (int row = q * m; row < std::min((q + 1) * m, sequence.q_rows()); ++row) {
            for (int key = tile * n; key < (tile + 1) * n; ++key) {
              const bool sees =
                  key < sequence.seq_kv && may_see(problem, i, row / sequence.packed_heads, key);
              hides = hides || !sees;
              if (sees) {
                first_live = std::min(first_live, key);
                last_live = std::max(last_live, key);
              }
            }
          }
          const bool unmasked = interval.unmasked_first <= tile && tile < interval.unmasked_end;
          ASSERT_EQ(unmasked, !hides) << "round " << round;
        }
        if (interval.count() > 0) {
          EXPECT_EQ(interval.keys.first, first_live);
          EXPECT_EQ(interval.keys.end, last_live + 1);
        }
      }
    }
  }
}

/// A giant among dwarfs: without masks every CTA streams as many tiles as any other, but for what
/// beginning its items counts for.
TEST(ServingSchedule, RangesShareAGiantEvenly) {
  Problem problem;
  problem.tiles = {.tile_n = 64, .pack_gqa = true, .deal = Deal::ranges};
  problem.workers = 132;
  problem.seqused_k.assign(64, 100);
  problem.seqused_k[20] = 131072;
  problem.params.batch = 64;
  problem.params.heads_q = 32;
  problem.params.heads_kv = 8;
  problem.params.max_seq_q = 1;
  problem.params.max_seq_kv = 131072;
  problem.params.item_overhead = 1;
  problem.point();
  std::map<int, int> tiles;
  std::map<int, int> scans;
  for (const Scan& scan : walk(problem)) {
    tiles[scan.cta] += scan.kv_tiles.count;
    ++scans[scan.cta];
  }
  int least = 1 << 30;
  int most = 0;
  for (const auto& [cta, count] : tiles) {
    least = std::min(least, count + scans[cta]);
    most = std::max(most, count + scans[cta]);
  }
  EXPECT_EQ(tiles.size(), 132U);
  EXPECT_LE(most - least, 3);
}

/// Equal items are divided into whole parts, or dealt whole, by at least three in four CTAs.
TEST(ServingSchedule, EqualItemsAreDividedEvenly) {
  EXPECT_EQ(even_workers(8, 264), 264);
  EXPECT_EQ(even_workers(64, 264), 256);
  EXPECT_EQ(even_workers(200, 264), 200);
  EXPECT_EQ(even_workers(512, 264), 256);
  EXPECT_EQ(even_workers(7, 5), 5);  // Neither 5 nor 4 divides 7.
  EXPECT_EQ(even_workers(1, 1), 1);
  constexpr int kUnits = 129;  // Of an item.
  for (int items = 1; items < 600; ++items) {
    const int workers = even_workers(items, 264);
    ASSERT_LE(198, workers);
    ASSERT_LE(workers, 264);
    if (!are_even(items, workers)) {
      EXPECT_EQ(workers, 264);
      continue;
    }
    const Ranges ranges{1LL * items * kUnits, workers};
    for (int worker = 0; worker < workers; ++worker) {
      const long long first_item = ranges.first(worker) / kUnits;
      const long long last_item = (ranges.end(worker) - 1) / kUnits;
      const bool whole = ranges.first(worker) % kUnits == 0 && ranges.end(worker) % kUnits == 0;
      ASSERT_TRUE(first_item == last_item || whole) << items << " items, worker " << worker;
    }
  }
}

/// Under a causal mask a run of folded Q tiles takes about as long as any other.
TEST(ServingSchedule, FoldedQTilesEvenOutACausalChunk) {
  const auto spread = [](ItemOrder order) {
    Problem problem;
    problem.tiles = {.tile_m = 64, .tile_n = 64, .mask = ServingMask::causal, .deal = Deal::ranges};
    problem.workers = 132;
    problem.seqused_k = {4096};
    problem.params.batch = 1;
    problem.params.heads_q = 8;
    problem.params.heads_kv = 8;
    problem.params.max_seq_q = 4096;
    problem.params.max_seq_kv = 4096;
    problem.params.item_order = order;
    problem.point();
    std::map<int, int> tiles;
    for (const Scan& scan : walk(problem)) {
      tiles[scan.cta] += scan.kv_tiles.count;
    }
    int most = 0;
    long long sum = 0;
    for (const auto& [cta, count] : tiles) {
      most = std::max(most, count);
      sum += count;
    }
    return static_cast<double>(most) * 132 / static_cast<double>(sum);
  };
  EXPECT_GT(spread(ItemOrder::as_given), 1.7);
  EXPECT_LT(spread(ItemOrder::folded), 1.35);
}

/// The bounds hold and the launch is the same for any lengths within them.
TEST(ServingSchedule, LaunchesFollowFromBoundsAlone) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    Problem problem = drawn_problem(random, drawn(random, 1, 40));
    const ServingLaunch launch = serving_launch(problem.plan(), problem.params);
    const HostList list(problem.tiles, problem.params);
    EXPECT_LE(list.units(), most_units(problem.tiles, problem.params));
    problem.params.lengths.seqused_k = nullptr;
    if (!problem.cu_seqlens_q.empty()) {
      // Never dereferenced on the host: in a server it points to device memory.
      problem.params.lengths.cu_seqlens_q = reinterpret_cast<const int*>(16);
    }
    const ServingLaunch unknown = serving_launch(problem.plan(), problem.params);
    EXPECT_EQ(launch.grid_x, unknown.grid_x);
    EXPECT_EQ(launch.partials_bytes, unknown.partials_bytes);
    EXPECT_EQ(launch.dynamic_smem_bytes, unknown.dynamic_smem_bytes);
  }
}

/// CSR as FlashInfer gives it, graph dummies that claim more than their table holds.
TEST(ServingSchedule, LengthsComeFromWhateverIsGiven) {
  const std::vector<int> indptr{0, 3, 3, 4};
  const std::vector<int> last{5, 1, 16};
  const std::vector<int> indices{7, 8, 9, 2};
  ServingAttentionParams params{.batch = 3,
                                .max_seq_q = 1,
                                .max_seq_kv = 1000,
                                .pages = {.indptr = indptr.data(),
                                          .indices = indices.data(),
                                          .last_page_len = last.data(),
                                          .page_size = 16}};
  EXPECT_EQ(key_length(params, 0), 37);
  EXPECT_EQ(key_length(params, 1), 0);
  EXPECT_EQ(key_length(params, 2), 16);
  EXPECT_EQ(sequence_at(params, 2).pages, indices.data() + 3);

  const std::vector<int> used{100, 0, 20};
  params.pages = {
      .table = indices.data(), .table_stride = 1, .pages_per_sequence = 4, .page_size = 16};
  params.lengths.seqused_k = used.data();
  EXPECT_EQ(key_length(params, 0), 64);
  EXPECT_EQ(key_length(params, 1), 0);
  params.lengths.seq_k_new = 3;
  EXPECT_EQ(key_length(params, 1), 3);
  EXPECT_EQ(key_length(params, 2), 23);
  const std::vector<int> left{0, 8, 30};
  params.lengths.leftpad_k = left.data();
  EXPECT_EQ(key_length(params, 1), 0);
  EXPECT_EQ(key_length(params, 2), 0);
  EXPECT_EQ(sequence_at(params, 2).first_kv, 30);
}

}  // namespace
}  // namespace swr
