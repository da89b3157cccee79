// SPDX-License-Identifier: MIT
// The loading warp of the Hopper family for unequal sequences, template and all, run on the CPU:
// with the maps that the driver is asked for it brings every row of K and V that some query sees,
// zeros for all others, and as many bytes as barriers count; else the emulation finds a deadlock.
#include "attention_serving/hopper/finder.cuh"
#include "attention_serving/hopper/producer.cuh"
#include "operations/attention_serving/tensor_maps.h"
#include "tests/emulation/serving_problem.h"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"

#include <list>

namespace swr {
namespace {

using namespace serving_test;

/// Maps that the "driver" has encoded.
std::list<ptx::EncodedMap> encoded_maps;

CUresult keep_map(CUtensorMap* map, CUtensorMapDataType /*type*/, cuuint32_t /*rank*/,
                  void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                  const cuuint32_t* box, const cuuint32_t* /*steps*/, CUtensorMapInterleave /*i*/,
                  CUtensorMapSwizzle swizzle, CUtensorMapL2promotion /*p*/,
                  CUtensorMapFloatOOBfill /*fill*/) {
  ptx::EncodedMap& one = encoded_maps.emplace_back();
  one.address = reinterpret_cast<std::uintptr_t>(address);
  std::copy_n(sizes, 5, one.sizes.begin());
  std::copy_n(strides, 4, one.strides.begin());
  std::copy_n(box, 5, one.box.begin());
  one.swizzle_bytes = swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64 : 128;
  const TensorMap opaque = ptx::map_of(one);
  std::memcpy(map, &opaque, sizeof opaque);
  return CUDA_SUCCESS;
}

constexpr ServingAttentionConfig problems_of(const HopperServingConfig& config) {
  return {.head_dim = config.head_dim,
          .head_dim_v = config.head_dim,
          .dtype = config.dtype,
          .mask = config.mask,
          .kv_source = config.kv_source,
          .page_copy = PageCopy::run16,
          .tile_m = config.tile_m,
          .tile_n = config.tile_n,
          .warps = 8,
          .persistence = config.persistence,
          .pack_gqa = false,
          .deal = Deal::whole};
}

/// A launch in which one thread of each computing warpgroup takes the tiles, compares them with
/// memory and gives them back.
template <HopperServingConfig C>
class Loads {
 public:
  Loads(const Problem& problem, unsigned seed)
      : problem_(problem), memory_(problems_of(C), problem, seed) {}

  void run() {
    memory_.prepare();
    const ServingAttentionParams& params = memory_.params();
    const ServingLaunch launch = serving_launch({.tiles = C.tiles(),
                                                 .head_dim_v = C.head_dim,
                                                 .threads = C.threads(),
                                                 .fixed_smem_bytes = C.fixed_smem_bytes(),
                                                 .persistence = C.persistence,
                                                 .workers = problem_.workers},
                                                params);
    LaunchCalls calls;
    calls.tensor_map_encode_tiled = keep_map;
    ServingMaps maps;
    encoded_maps.clear();
    ASSERT_EQ(encode_serving_maps(calls,
                                  {.q_box = C.q_box(),
                                   .kv_box = C.kv_box(),
                                   .kv_panels = C.has_whole_boxes() ? kDense.panels() : 0,
                                   .head_dim = C.head_dim,
                                   .dtype = C.dtype},
                                  params, maps),
              CUDA_SUCCESS);
    emulation::run({.grid = static_cast<unsigned>(launch.grid_x),
                    .threads = C.threads(),
                    .smem_bytes = launch.dynamic_smem_bytes,
                    .copies = problem_.copies,
                    .pace = problem_.pace,
                    .ctas = problem_.ctas},
                   [&] { take_part(params, maps); });
  }

  long long tiles() const { return tiles_; }
  long long wrong() const { return wrong_; }
  int disturbed() const { return memory_.disturbed(); }

 private:
  static constexpr HopperAttentionConfig kDense = C.dense();

  void take_part(const ServingAttentionParams& params, const ServingMaps& maps) {
    const hopper::SharedMemory<C.dense()> smem{0};
    const serving::ItemMemory<C> items{params, 0};
    if (threadIdx.x == 0) {
      smem.init_barriers();
      items.init_barriers();
    }
    ptx::griddepcontrol_wait();
    const serving::SequenceList<C> list(params, 0);
    list.build();
    const unsigned warp = threadIdx.x / 32;
    const auto finder = static_cast<unsigned>(kDense.consumers()) + 1;
    if (warp == 0) {
      serving::ServingProducer<C>(smem, items, {maps.q, maps.k, maps.v, maps.o, maps.steps}).run();
    } else if (threadIdx.x == 32 * finder) {
      serving::find_items<C>(items, list);
    } else if (threadIdx.x >= 128 && threadIdx.x % 128 == 0) {
      take_tiles(params, smem, items);
    }
  }

  /// In the order in which consumers need them: K a tile ahead of V.
  void take_tiles(const ServingAttentionParams& params, hopper::SharedMemory<kDense> smem,
                  const serving::ItemMemory<C>& items) {
    hopper::RingPosition<kDense.q_slots()> q;
    hopper::RingPosition<C.stages> k;
    hopper::RingPosition<C.stages> v;
    for (int iteration = 0;; ++iteration) {
      ptx::mbarrier_wait(smem.q_full(q.stage), q.parity);
      const serving::Item<C> item = items.of_slot(q.stage);
      const int tiles = serving::tiles_of<C>(item);
      if (tiles == 0) {
        return;
      }
      const bool backward = scans_backward(C.order, iteration);
      const auto tile_at = [&](int step) {
        return (C.has_window() ? item.kv_tiles().first : 0) + kv_tile_at(step, tiles, backward);
      };
      for (int step = 0; step <= tiles; ++step) {
        if (step < tiles) {
          ptx::mbarrier_wait(smem.k_full(k.stage), k.parity);
          compare(item, static_cast<const char*>(params.k), params.k_strides, smem.k(k.stage),
                  tile_at(step));
          ptx::mbarrier_arrive(smem.k_empty(k.stage));
          k.advance();
        }
        if (step > 0) {
          ptx::mbarrier_wait(smem.v_full(v.stage), v.parity);
          compare(item, static_cast<const char*>(params.v), params.v_strides, smem.v(v.stage),
                  tile_at(step - 1));
          ptx::mbarrier_arrive(smem.v_empty(v.stage));
          v.advance();
        }
      }
      for (int i = 0; i < smem.kArrivalsPerConsumer; ++i) {
        ptx::mbarrier_arrive(smem.q_empty(q.stage));
      }
      q.advance();
    }
  }

  void compare(const serving::Item<C>& item, const char* tensor, const TensorStrides& strides,
               unsigned tile_at, int tile) {
    static constexpr char kZeros[16] = {};
    const KeyRange keys = item.keys();
    ++tiles_;
    for (int row = 0; row < C.tile_n; ++row) {
      const int key = tile * C.tile_n + row;
      const bool is_seen = keys.contains(key);
      const char* const source =
          is_seen ? tensor + 2 * (place_of(item, strides, key) + item.kv_head() * strides.head)
                  : nullptr;
      for (int chunk = 0; chunk < C.head_dim / 8; ++chunk) {
        const std::byte* const found = emulation::shared(tile_at + offset_of(row, chunk), 16);
        const char* const expected = is_seen ? source + chunk * 16 : kZeros;
        wrong_ += std::memcmp(found, expected, 16) == 0 ? 0 : 1;
      }
    }
  }
  static long long place_of(const serving::Item<C>& item, const TensorStrides& strides, int key) {
    if constexpr (C.has_pages()) {
      const serving::Pages pages = item.pages();
      const int page_size = pages.split.page_size;
      return pages.ids[key / page_size] * strides.batch + key % page_size * strides.seq;
    } else {
      const serving::RowPlace first = item.first_key();
      return first.batch * strides.batch + (first.row + key) * strides.seq;
    }
  }
  static unsigned offset_of(int row, int chunk) {
    const int chunks = kDense.panel_columns() / 8;
    const int line = chunks * 16;
    const int unswizzled = row / 8 * kDense.kv_octet_bytes() +
                           chunk / chunks * kDense.kv_panel_bytes() + row % 8 * line +
                           chunk % chunks * 16;
    return ptx::swizzled_address(static_cast<unsigned>(unswizzled), line);
  }

  Problem problem_;
  ServingMemory memory_;
  long long tiles_ = 0;
  long long wrong_ = 0;
};

template <HopperServingConfig C>
void expect_right_loads(const Problem& problem, unsigned seed) {
  Loads<C> loads(problem, seed);
  loads.run();
  EXPECT_EQ(loads.wrong(), 0) << "seed " << seed << ": " << problem;
  EXPECT_EQ(loads.disturbed(), 0) << "seed " << seed << ": " << problem;
}

/// As drawn for the emulation of the portable family, but pages that boxes divide.
template <HopperServingConfig C>
void expect_right_loads_of_random_problems(int rounds, unsigned first_seed) {
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const auto seed = first_seed + static_cast<unsigned>(round);
    Random random(seed);
    Problem problem = drawn_problem(PageCopy::run16, random, one_in(random, 3) ? 4 : 1);
    problem.page_size = C.piece_rows << drawn(random, 0, 2);
    expect_right_loads<C>(problem, seed);
  }
}

/// What a captured launch may be replayed with: lengths far below their bounds, none at all, more
/// queries than keys, ends at a page's end and one row off it.
Problem replayed_problem(unsigned seed, int page_size) {
  Random random(seed);
  Problem problem;
  problem.batch = 9;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.max_seq_q = 4;
  problem.max_seq_kv = 3000;
  problem.page_size = page_size;
  problem.k_and_v_together = true;
  problem.workers = 5;
  problem.copies = seed % 2 == 0 ? CopyTime::early : CopyTime::late;
  problem.seq_q = {1, 4, 0, 4, 3, 4, 2};
  problem.seq_kv = {0, 1, 700, 128, 127, 3000, 16 * drawn(random, 1, 60)};
  while (problem.seq_q.size() < 9) {
    problem.seq_q.push_back(drawn(random, 0, 4));
    problem.seq_kv.push_back(drawn(random, 0, 3000));
  }
  return problem;
}

constexpr HopperServingConfig kPages16{.kv_source = KvSource::pages, .piece_rows = 16};
constexpr HopperServingConfig kPages64{.kv_source = KvSource::pages, .piece_rows = 64};
constexpr HopperServingConfig kPages8{.head_dim = 64,
                                      .kv_source = KvSource::pages,
                                      .piece_rows = 8,
                                      .tile_n = 80,
                                      .order = Order::sawtooth,
                                      .persistence = Persistence::snake};
constexpr HopperServingConfig kWholeRows{};
constexpr HopperServingConfig kDrawnRows{.persistence = Persistence::dynamic};
constexpr HopperServingConfig kWindowRows{.mask = ServingMask::window, .piece_rows = 16};
constexpr HopperServingConfig kWindowPages{
    .mask = ServingMask::window, .kv_source = KvSource::pages, .piece_rows = 16};
constexpr HopperServingConfig kWindowPages96{.head_dim = 96,
                                             .mask = ServingMask::window,
                                             .kv_source = KvSource::pages,
                                             .piece_rows = 16,
                                             .tile_m = 64,
                                             .order = Order::right_to_left,
                                             .persistence = Persistence::grid};

TEST(ServingHopperLoads, BringPages) {
  expect_right_loads_of_random_problems<kPages16>(12, 1);
  expect_right_loads_of_random_problems<kPages64>(6, 100);
  expect_right_loads_of_random_problems<kPages8>(6, 200);
}

TEST(ServingHopperLoads, BringRows) { expect_right_loads_of_random_problems<kWholeRows>(6, 300); }

/// Whoever draws it, every Q tile is computed once, and the counter is given back.
TEST(ServingHopperLoads, AreDrawnOnce) {
  expect_right_loads_of_random_problems<kDrawnRows>(3, 700);
  const Problem problem = replayed_problem(2, 0);
  Loads<kWholeRows> dealt(problem, 2);
  Loads<kDrawnRows> drawn(problem, 2);
  dealt.run();
  drawn.run();
  EXPECT_GT(dealt.tiles(), 0);
  EXPECT_EQ(drawn.tiles(), dealt.tiles());
  EXPECT_EQ(drawn.disturbed(), 0);
}

TEST(ServingHopperLoads, BringWhatAWindowShows) {
  expect_right_loads_of_random_problems<kWindowPages>(12, 400);
  expect_right_loads_of_random_problems<kWindowPages96>(6, 500);
  expect_right_loads_of_random_problems<kWindowRows>(6, 600);
}

TEST(ServingHopperLoads, BringWhatReplaysAskFor) {
  for (const unsigned seed : {1U, 2U}) {
    expect_right_loads<kPages16>(replayed_problem(seed, seed == 1 ? 16 : 48), seed);
    expect_right_loads<kWindowPages>(replayed_problem(seed, seed == 1 ? 48 : 16), seed);
  }
}

}  // namespace
}  // namespace swr
