// SPDX-License-Identifier: MIT
// The kernels for unequal sequences, template and all, run on the CPU against fp64: random lengths,
// pages, windows, sinks and launches together. What a kernel has no business to read may also lie
// where reading ends the program.
#include "attention_serving/append/append.cuh"
#include "attention_serving/hopper/warpgroup_rows.cuh"
#include "attention_serving/merge/merge.cuh"
#include "attention_serving/portable/kernel.cuh"
#include "operations/attention_serving/launch_plan.h"
#include "tests/emulation/append_problem.h"
#include "tests/emulation/serving_problem.h"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"

namespace swr {
namespace {

using namespace serving_test;

/// Launches in the emulation.
template <ServingAttentionConfig C>
class Serving : public ServingMemory {
 public:
  Serving(const Problem& problem, unsigned seed)
      : ServingMemory(C, problem, seed), problem_(problem) {}

  void run() {
    const ServingLaunch launch = this->prepare();
    emulation::run({.grid = static_cast<unsigned>(launch.grid_x),
                    .threads = launch.block_x,
                    .smem_bytes = launch.dynamic_smem_bytes,
                    .copies = problem_.copies,
                    .pace = problem_.pace,
                    .fault = problem_.fault,
                    .ctas = problem_.ctas,
                    .end_launch_before = launch_before(),
                    .prefetch =
                        [this](const void* line, bool during_launch_before) {
                          const bool is_key = this->is_key_row(line);
                          prefetched_ += is_key && during_launch_before ? 1 : 0;
                          strayed_ += is_key ? 0 : 1;
                        }},
                   [&] { serving::run<C>(this->params(), 0); });
  }

  /// Lines of live keys that L2 was to fetch while the launch before ran; and of anything else.
  int prefetched() const { return prefetched_; }
  int strayed() const { return strayed_; }

 private:
  /// Writes tensors, lengths and tables, and leaves the counters at 0, when it ends.
  emulation::LaunchBefore launch_before() {
    emulation::LaunchBefore before;
    this->for_each_array([&](auto& array, ArrayUse use) {
      using Value = typename std::remove_reference_t<decltype(array)>::value_type;
      const bool is_length = use == ArrayUse::length || use == ArrayUse::page;
      const bool counts = std::is_same_v<Value, unsigned>;  // Of arrivals.
      if (counts || use == ArrayUse::tensor || (is_length && !problem_.lengths_are_ready)) {
        before.writes(array, static_cast<Value>(counts || use == ArrayUse::length ? 1
                                                : use == ArrayUse::page           ? 0
                                                                                  : kPoison));
      }
    });
    return before;
  }

  Problem problem_;
  int prefetched_ = 0;
  int strayed_ = 0;
};

template <ServingAttentionConfig C>
void expect_right(const Problem& problem, unsigned seed) {
  Serving<C> serving(problem, seed);
  serving.run();
  EXPECT_EQ(serving.wrong_values(), 0) << "seed " << seed << ": " << problem;
  EXPECT_EQ(serving.disturbed(), 0) << "seed " << seed << ": " << problem;
}

template <ServingAttentionConfig C>
void expect_right_for_random_problems(int rounds, unsigned first_seed) {
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const unsigned seed = first_seed + static_cast<unsigned>(round);
    Random random(seed);
    expect_right<C>(drawn_problem(C.page_copy, random), seed);
  }
}

constexpr ServingAttentionConfig kDecode{.head_dim = 32,
                                         .head_dim_v = 32,
                                         .dtype = DType::fp16,
                                         .mask = ServingMask::causal,
                                         .tile_m = 16,
                                         .tile_n = 32,
                                         .warps = 2,
                                         .stages = 2};
constexpr ServingAttentionConfig kPrefill{.head_dim = 32,
                                          .head_dim_v = 32,
                                          .dtype = DType::fp16,
                                          .mask = ServingMask::causal,
                                          .tile_m = 32,
                                          .tile_n = 16,
                                          .warps = 2,
                                          .stages = 1,
                                          .pack_gqa = false,
                                          .deal = Deal::whole};

constexpr int kRounds = 100;

using Config = ServingAttentionConfig;

TEST(EmulatedServingAttention, DecodesFromPages) {
  expect_right_for_random_problems<kDecode>(kRounds, 1000);
}
TEST(EmulatedServingAttention, DecodesFromRows) {
  expect_right_for_random_problems<with(kDecode, &Config::kv_source, KvSource::rows)>(kRounds,
                                                                                      2000);
}
TEST(EmulatedServingAttention, DecodesFromRunsOfPages) {
  expect_right_for_random_problems<with(kDecode, &Config::page_copy, PageCopy::run16)>(kRounds,
                                                                                       3000);
}
/// Rows of several sequences' tiles, too: CTAs without work end at once.
TEST(EmulatedServingAttention, DecodesByIndex) {
  constexpr Config kDirect = with(kDecode, &Config::deal, Deal::direct);
  expect_right_for_random_problems<kDirect>(kRounds, 3500);
  expect_right_for_random_problems<with(kDirect, &Config::tile_m, 32, &Config::warps, 4,
                                        &Config::mask, ServingMask::window, &Config::page_copy,
                                        PageCopy::run16)>(kRounds, 3600);
}
/// Warps that share a block of rows divide the keys of every tile.
TEST(EmulatedServingAttention, DecodesInKeyGroups) {
  expect_right_for_random_problems<with(
      kDecode, &Config::head_dim, 64, &Config::head_dim_v, 64, &Config::dtype, DType::bf16,
      &Config::tile_n, 64, &Config::warps, 4, &Config::mask, ServingMask::window)>(kRounds, 4000);
  expect_right_for_random_problems<with(kDecode, &Config::warps, 2, &Config::stages, 1,
                                        &Config::deal, Deal::whole, &Config::mask,
                                        ServingMask::full)>(kRounds, 5000);
}
/// A warpgroup multiplies, from panels.
TEST(EmulatedServingAttention, DecodesByWarpgroup) {
  constexpr Config kWarpgroup = with(kDecode, &Config::head_dim, 64, &Config::head_dim_v, 64,
                                     &Config::tile_m, 64, &Config::warps, 4, &Config::wgmma, true);
  expect_right_for_random_problems<kWarpgroup>(kRounds / 4, 5300);
  expect_right_for_random_problems<with(
      kWarpgroup, &Config::deal, Deal::direct, &Config::dtype, DType::bf16, &Config::head_dim, 128,
      &Config::head_dim_v, 128, &Config::tile_n, 64, &Config::stages, 3)>(kRounds / 10, 5400);
  expect_right_for_random_problems<with(kWarpgroup, &Config::mask, ServingMask::window,
                                        &Config::softcap, Softcap::accurate, &Config::kv_source,
                                        KvSource::rows, &Config::tile_n, 48, &Config::stages, 1)>(
      kRounds / 4, 5500);
}
TEST(EmulatedServingAttention, IsRightForEveryDepth) {
  expect_right_for_random_problems<with(kDecode, &Config::stages, 1)>(kRounds, 6000);
  expect_right_for_random_problems<with(kDecode, &Config::stages, 3, &Config::order,
                                        Order::sawtooth, &Config::mask, ServingMask::window)>(
      kRounds, 7000);
  expect_right_for_random_problems<with(kDecode, &Config::stages, 4, &Config::tile_n, 16,
                                        &Config::warps, 1, &Config::order, Order::right_to_left)>(
      kRounds, 8000);
}

TEST(EmulatedServingAttention, PrefillsFromPages) {
  expect_right_for_random_problems<kPrefill>(kRounds, 9000);
}
TEST(EmulatedServingAttention, PrefillsFromRowsInEverySchedule) {
  constexpr Config kRows = with(kPrefill, &Config::kv_source, KvSource::rows);
  expect_right_for_random_problems<with(kRows, &Config::persistence, Persistence::persistent,
                                        &Config::order, Order::sawtooth)>(kRounds, 10000);
  expect_right_for_random_problems<with(kRows, &Config::persistence, Persistence::snake,
                                        &Config::order, Order::right_to_left, &Config::mask,
                                        ServingMask::window)>(kRounds, 11000);
  expect_right_for_random_problems<with(kRows, &Config::persistence, Persistence::pairs,
                                        &Config::stages, 2, &Config::mask, ServingMask::full)>(
      kRounds, 12000);
}
TEST(EmulatedServingAttention, PrefillsThroughWindows) {
  expect_right_for_random_problems<with(kPrefill, &Config::mask, ServingMask::window,
                                        &Config::stages, 2, &Config::tile_n, 32, &Config::warps,
                                        1)>(kRounds, 13000);
}
/// Chunks of a prompt on what is cached, shared by several CTAs.
TEST(EmulatedServingAttention, PrefillsInRanges) {
  expect_right_for_random_problems<with(kPrefill, &Config::deal, Deal::ranges, &Config::tile_m, 64,
                                        &Config::warps, 4, &Config::mask, ServingMask::window)>(
      kRounds, 14000);
  expect_right_for_random_problems<with(kPrefill, &Config::deal, Deal::ranges, &Config::pack_gqa,
                                        true, &Config::stages, 2)>(kRounds, 15000);
}

TEST(EmulatedServingAttention, CapsScores) {
  expect_right_for_random_problems<with(kDecode, &Config::softcap, Softcap::accurate, &Config::mask,
                                        ServingMask::window)>(kRounds, 16000);
  expect_right_for_random_problems<with(kPrefill, &Config::softcap, Softcap::approximate)>(kRounds,
                                                                                           17000);
}

/// Rows of V that are shorter than those of K, and longer.
TEST(EmulatedServingAttention, ServesOtherHeadDimsOfV) {
  expect_right_for_random_problems<with(kDecode, &Config::head_dim, 96, &Config::head_dim_v, 64,
                                        &Config::dtype, DType::bf16)>(kRounds / 2, 18000);
  expect_right_for_random_problems<with(kPrefill, &Config::head_dim, 192, &Config::head_dim_v, 128,
                                        &Config::dtype, DType::bf16, &Config::warps, 2)>(
      kRounds / 5, 19000);
  expect_right_for_random_problems<with(kPrefill, &Config::head_dim, 16, &Config::head_dim_v, 80,
                                        &Config::kv_source, KvSource::rows)>(kRounds / 2, 20000);
}
/// Rows whose 16-byte pieces the threads do not divide evenly.
TEST(EmulatedServingAttention, ServesOddHeadDims) {
  expect_right_for_random_problems<with(kDecode, &Config::head_dim, 80, &Config::head_dim_v, 80,
                                        &Config::stages, 1)>(kRounds / 2, 21000);
  expect_right_for_random_problems<with(kPrefill, &Config::head_dim, 112, &Config::head_dim_v, 112,
                                        &Config::page_copy, PageCopy::run16, &Config::stages, 2)>(
      kRounds / 2, 22000);
}

/// Lists of several entries a lane of the warp that adds them up, and of several sequences an
/// entry.
TEST(EmulatedServingAttention, ServesLongBatches) {
  for (const int batch : {64, kListEntries, kListEntries + 1, 1025}) {
    for (const ItemOrder order : {ItemOrder::as_given, ItemOrder::longest_first}) {
      Random random(static_cast<unsigned>(batch));
      Problem problem = drawn_problem(kDecode.page_copy, random);
      problem.batch = batch;
      problem.heads_q = problem.heads_kv = 1;
      problem.max_seq_q = 1;
      problem.max_seq_kv = 40;
      problem.item_order = order;
      problem.workers = 7;
      problem.leftpad.clear();
      problem.seq_q.clear();
      problem.seq_kv.clear();
      for (int i = 0; i < batch; ++i) {
        problem.seq_q.push_back(one_in(random, 3) ? 1 : 0);
        problem.seq_kv.push_back(drawn_length(random, 1, 40));
      }
      expect_right<kDecode>(problem, 1);
    }
  }
}

/// Three sequences of several tiles each.
Problem three_sequences() {
  Problem problem;
  problem.batch = 3;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.max_seq_q = 5;
  problem.max_seq_kv = 170;
  problem.seq_q = {1, 5, 2};
  problem.seq_kv = {150, 33, 170};
  return problem;
}

/// The same values wherever they lie: every bit of every result.
TEST(EmulatedServingAttention, PlacesOfKAndVChangeNoBit) {
  constexpr Config kRows = with(kDecode, &Config::kv_source, KvSource::rows);
  constexpr Config kRuns = with(kDecode, &Config::page_copy, PageCopy::run16);
  Serving<kDecode> first(three_sequences(), 1);
  first.run();
  const std::vector<float> expected = first.results();
  const auto expect_equal = [&]<ServingAttentionConfig C>(const Problem& problem) {
    Serving<C> other(problem, 2);
    other.take_values(first);
    other.run();
    EXPECT_EQ(other.results(), expected);
  };
  for (const int page_size : {1, 7, 16, 64}) {
    for (const bool outside : {false, true}) {
      Problem problem = three_sequences();
      problem.page_size = page_size;
      problem.heads_outside_rows = outside;
      problem.k_and_v_together = outside;
      problem.table_is_csr = !outside;
      expect_equal.operator()<kDecode>(problem);
      problem.leftpad = {3, 0, 0};
      problem.seq_kv = {150, 33, 170};
      problem.max_seq_kv = 170;
      expect_equal.operator()<kDecode>(problem);
    }
  }
  Problem runs = three_sequences();
  runs.page_size = 32;
  expect_equal.operator()<kRuns>(runs);
  Problem rows = three_sequences();
  expect_equal.operator()<kRows>(rows);
  rows.ragged_k = true;
  expect_equal.operator()<kRows>(rows);
}

/// Whichever CTA combines the parts, every bit is the same.
TEST(EmulatedServingAttention, PartsAreCombinedInTheirOrder) {
  Problem problem = three_sequences();
  problem.workers = 9;
  Serving<kDecode> first(problem, 1);
  first.run();
  problem.ctas = CtaOrder::descending;
  Serving<kDecode> second(problem, 1);
  second.run();
  EXPECT_EQ(first.results(), second.results());
  EXPECT_EQ(second.wrong_values(), 0);
  // With one CTA nothing is shared: another order of additions, so the test would notice.
  problem.workers = 1;
  Serving<kDecode> alone(problem, 1);
  alone.run();
  EXPECT_NE(first.results(), alone.results());
  EXPECT_EQ(alone.wrong_values(), 0);
}

/// Six items of equal length for twenty CTAs: eighteen take a third of an item each. Were one
/// sequence longer, all twenty would work, some on two items.
TEST(EmulatedServingAttention, EqualItemsAreDividedEvenly) {
  Problem problem = three_sequences();
  problem.workers = 20;
  problem.max_seq_q = 1;
  problem.seq_q = {1, 1, 1};
  problem.seq_kv = {170, 170, 170};
  Serving<kDecode> even(problem, 1);
  even.run();
  EXPECT_EQ(even.wrong_values(), 0);
  EXPECT_EQ(even.parts_left(), 18);
  problem.seq_kv = {170, 170, 100};
  Serving<kDecode> uneven(problem, 1);
  uneven.run();
  EXPECT_EQ(uneven.wrong_values(), 0);
  EXPECT_GT(uneven.parts_left(), 18);
}

/// A giant that every CTA has a part of, and dwarfs that one CTA has many of.
TEST(EmulatedServingAttention, SharesAGiant) {
  Problem problem = three_sequences();
  problem.batch = 12;
  problem.seq_q.assign(12, 1);
  problem.seq_kv.assign(12, 3);
  problem.seq_kv[5] = 1200;
  problem.max_seq_kv = 1200;
  problem.page_size = 1;
  for (const int workers : {2, 9, 40}) {
    problem.workers = workers;
    expect_right<kDecode>(problem, 3);
  }
}

/// Queries beyond the keys, windows that leave queries without any, sinks far from all scores.
TEST(EmulatedServingAttention, RowsWithoutKeysAreZero) {
  constexpr Config kWindow = with(kPrefill, &Config::mask, ServingMask::window);
  for (const bool with_sink : {false, true}) {
    Problem problem = three_sequences();
    problem.max_seq_q = 40;
    problem.seq_q = {40, 20, 3};
    problem.seq_kv = {10, 0, 90};
    problem.window = {.left = 4, .right = -1};
    problem.window.right = 0;
    if (with_sink) {
      problem.sink_type = SinkType::fp32;
      problem.largest_sink = 30.0F;
    }
    expect_right<kPrefill>(problem, 4);
    expect_right<kWindow>(problem, 4);
    problem.window = {.left = -1, .right = -1, .chunk = 16};
    expect_right<kWindow>(problem, 5);
  }
}

/// While the launch before still runs, L2 is told of the rows that every CTA takes first, and of no
/// others; not when their places are not known yet.
TEST(EmulatedServingAttention, FirstTilesAreFetchedAheadWhenLengthsAreReady) {
  constexpr Config kRows = with(kDecode, &Config::kv_source, KvSource::rows);
  const auto expect_fetched = [&]<ServingAttentionConfig C>(bool ready) {
    Problem problem = three_sequences();
    problem.lengths_are_ready = ready;
    problem.workers = 1;  // One item goes first: 32 keys of one head, a line for each row.
    Serving<C> serving(problem, 1);
    serving.run();
    EXPECT_EQ(serving.wrong_values(), 0);
    EXPECT_EQ(serving.prefetched(), ready ? 64 : 0);
    EXPECT_EQ(serving.strayed(), 0);
  };
  for (const bool ready : {false, true}) {
    expect_fetched.operator()<kDecode>(ready);
    expect_fetched.operator()<kRows>(ready);
  }
}

constexpr Config kBf16 = with(kDecode, &Config::dtype, DType::bf16);

/// One query and at most one key beside a sink.
Problem one_row(int keys, float largest_sink) {
  Problem problem;
  problem.batch = problem.heads_q = 1;
  problem.seq_q = {1};
  problem.seq_kv = {keys};
  problem.sink_type = SinkType::fp32;
  problem.largest_sink = largest_sink;
  return problem;
}
/// What keys have of the softmax of that row.
double share_of_keys(const ServingMemory& memory) {
  const auto sink = static_cast<double>(*static_cast<const float*>(memory.params().sinks));
  return -std::expm1(sink - memory.expected(0, 0, 0).lse);
}
/// Of a kernel that writes `times` what is right, and `added` to it.
int wrong_values_of(ServingMemory& memory, double times, double added) {
  const Row expected = memory.expected(0, 0, 0);
  auto* const o = static_cast<std::uint16_t*>(const_cast<void*>(memory.params().o));
  for (std::size_t d = 0; d < expected.o.size(); ++d) {
    o[d] = bits_of(static_cast<float>(times * expected.o[d] + added), DType::bf16);
  }
  *memory.params().lse = static_cast<float>(expected.lse);
  return memory.wrong_values();
}

/// What may differ is in proportion to what keys have of the softmax: half of a result is no
/// rounding, though a sink has all the rest; and where keys have next to nothing, a number that is
/// just not 0 is right.
TEST(EmulatedServingAttention, ToleranceIsOfWhatKeysHaveOfTheSoftmax) {
  unsigned seed = 0;
  double share = 1.0;
  while (share < 1e-4 || share > 1e-2) {
    ASSERT_LT(++seed, 1000U);
    share = share_of_keys(ServingMemory(kBf16, one_row(1, 20.0F), seed));
  }
  ServingMemory beside_sink(kBf16, one_row(1, 20.0F), seed);
  EXPECT_EQ(wrong_values_of(beside_sink, 1.0, 0.0), 0);
  EXPECT_EQ(wrong_values_of(beside_sink, 1.003, 0.0), 0);
  EXPECT_GT(wrong_values_of(beside_sink, 0.5, 0.0), kBf16.head_dim_v / 2);

  while (share > 1e-13) {
    ASSERT_LT(++seed, 1000U);
    share = share_of_keys(ServingMemory(kBf16, one_row(1, 1e4F), seed));
  }
  ServingMemory below_sink(kBf16, one_row(1, 1e4F), seed);
  EXPECT_EQ(wrong_values_of(below_sink, 0.0, 1.2e-38), 0);
  EXPECT_EQ(wrong_values_of(below_sink, 0.0, 1e-9), kBf16.head_dim_v);

  ServingMemory without_keys(kBf16, one_row(0, 4.0F), 1);
  EXPECT_EQ(wrong_values_of(without_keys, 1.0, 0.0), 0);
  EXPECT_EQ(wrong_values_of(without_keys, 0.0, 1.2e-38), kBf16.head_dim_v);
}

/// What the tests above rest on: faults that they would notice.
TEST(EmulatedServingAttention, PlantedFaultsShow) {
  constexpr Config kRows = with(kPrefill, &Config::kv_source, KvSource::rows, &Config::stages, 2);
  Problem problem = three_sequences();
  problem.workers = 1;
  problem.seq_q = {5, 5, 5};
  problem.ragged_q = false;
  const auto wrong_values = [&](Fault fault, CopyTime copies) {
    problem.fault = fault;
    problem.copies = copies;
    Serving<kRows> serving(problem, 1);
    serving.run();
    return serving.wrong_values();
  };
  EXPECT_GT(wrong_values(Fault::copies_not_awaited, CopyTime::late), 100);
  EXPECT_GT(wrong_values(Fault::launch_not_awaited, CopyTime::early), 100);
  EXPECT_DEATH(wrong_values(Fault::barriers_ignored, CopyTime::late), "uniform");
}

// The kernels beside attention for servers: merging results over different keys, and appending
// keys.

using serving_test::drawn;
using serving_test::one_in;
using serving_test::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUntouched = 12345.0F;

/// Parts of fp32 and an output of fp32, which show errors best.
class Merging {
 public:
  explicit Merging(unsigned seed) : random_(seed) {
    MergeStatesParams& p = params_;
    p.part_count = drawn(random_, 1, 5);
    p.heads = drawn(random_, 1, 4);
    p.rows = drawn(random_, 1, 9);
    p.head_dim = 8 * drawn(random_, 1, 10);
    p.lse_unit = one_in(random_, 2) ? 1.0F : std::log(2.0F);
    const long long width = p.head_dim + 4LL * drawn(random_, 0, 2);
    p.part_strides = {p.heads * p.rows * width, width, p.heads * width};
    p.part_lse_strides = {p.heads * p.rows, p.rows, 1};
    p.o_strides = {0, p.rows * width, width};
    p.lse_strides = {0, 1, p.heads};
    fill(static_cast<std::size_t>(p.heads * p.rows * width));
    p.parts = parts_.data();
    p.part_lse = part_lse_.data();
    p.o = o_.data();
    p.lse = lse_.data();
  }

  const MergeStatesParams& params() const { return params_; }

  /// Elements that are wrong, those included that should not have changed.
  int wrong() {
    int wrong = 0;
    for (int head = 0; head < params_.heads; ++head) {
      for (int row = 0; row < params_.rows; ++row) {
        wrong += wrong_in_row(head, row);
      }
    }
    for (const float left : o_) {
      wrong += left == kUntouched ? 0 : 1;
    }
    return wrong;
  }

 private:
  void fill(std::size_t plane) {
    std::normal_distribution<float> normal;
    const auto count = static_cast<std::size_t>(params_.part_count);
    const auto rows = static_cast<std::size_t>(params_.heads * params_.rows);
    o_.assign(plane, kUntouched);
    lse_.assign(rows, kUntouched);
    parts_.resize(count * plane);
    part_lse_.resize(count * rows);
    for (float& value : parts_) {
      value = normal(random_);
    }
    for (float& value : part_lse_) {
      value = one_in(random_, 4) ? -kInfinity : 20.0F * normal(random_);
    }
    poison_empty_parts();
  }
  void poison_empty_parts() {
    for (int part = 0; part < params_.part_count; ++part) {
      for (int head = 0; head < params_.heads; ++head) {
        for (int row = 0; row < params_.rows; ++row) {
          if (part_lse(part, head, row) == -kInfinity) {
            std::fill_n(&parts_[part_at(part, head, row)], params_.head_dim, std::nanf(""));
          }
        }
      }
    }
  }

  static std::size_t offset(const TensorStrides& strides, int part, int head, int row) {
    return static_cast<std::size_t>(part * strides.batch + head * strides.head + row * strides.seq);
  }
  std::size_t part_at(int part, int head, int row) const {
    return offset(params_.part_strides, part, head, row);
  }
  float part_lse(int part, int head, int row) const {
    return part_lse_[offset(params_.part_lse_strides, part, head, row)];
  }
  double weight(int part, int head, int row) const {
    const double lse = part_lse(part, head, row);
    return params_.lse_unit == 1.0F ? std::exp2(lse) : std::exp(lse);
  }

  int wrong_in_row(int head, int row) {
    double total = 0.0;
    for (int part = 0; part < params_.part_count; ++part) {
      total += weight(part, head, row);
    }
    int wrong = 0;
    for (int column = 0; column < params_.head_dim; ++column) {
      double sum = 0.0;
      for (int part = 0; part < params_.part_count; ++part) {
        const double of_part = weight(part, head, row);
        sum += of_part == 0.0
                   ? 0.0
                   : of_part / total *
                         parts_[part_at(part, head, row) + static_cast<std::size_t>(column)];
      }
      float& found = o_[offset(params_.o_strides, 0, head, row) + static_cast<std::size_t>(column)];
      wrong += std::abs(found - sum) <= 1e-5 * (1.0 + std::abs(sum)) ? 0 : 1;
      found = kUntouched;
    }
    const double expected = params_.lse_unit == 1.0F ? std::log2(total) : std::log(total);
    const double found = lse_[offset(params_.lse_strides, 0, head, row)];
    const bool is_right = total == 0.0
                              ? found == -kInfinity
                              : std::abs(found - expected) <= 1e-4 + 1e-5 * std::abs(expected);
    return wrong + (is_right ? 0 : 1);
  }

  Random random_;
  MergeStatesParams params_;
  std::vector<float> parts_;
  std::vector<float> part_lse_;
  std::vector<float> o_;
  std::vector<float> lse_;
};

TEST(EmulatedMergeStates, SumsOfStatesAreThoseOfFp64) {
  for (unsigned seed = 0; seed < 200 && !HasFailure(); ++seed) {
    Merging merging(seed);
    emulation::run(
        {.grid = static_cast<unsigned>(merge_ctas(merging.params(), 2)),
         .threads = serving::kMergeThreads,
         .smem_bytes = 16},
        [&] { serving::merge_states<OutputType::fp32, OutputType::fp32>(merging.params()); });
    EXPECT_EQ(merging.wrong(), 0) << "seed " << seed;
  }
}

TEST(EmulatedMergeStates, SixteenBitsAreRoundedOnce) {
  const std::vector<float> parts{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F, 8.0F,
                                 3.0F, 2.0F, 1.0F, 0.0F, 5.0F, 2.0F, 9.0F, 0.0F};
  const std::vector<float> lse{1.0F, 1.0F};
  std::vector<std::uint16_t> o(8);
  MergeStatesParams params{.parts = parts.data(),
                           .part_lse = lse.data(),
                           .o = o.data(),
                           .part_strides = {8, 8, 8},
                           .part_lse_strides = {1, 1, 1},
                           .part_count = 2,
                           .heads = 1,
                           .rows = 1,
                           .head_dim = 8};
  emulation::run({.threads = serving::kMergeThreads, .smem_bytes = 16},
                 [&] { serving::merge_states<OutputType::fp32, OutputType::bf16>(params); });
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(static_cast<float>(ptx::decode<DType::bf16>(o[i])), (parts[i] + parts[i + 8]) / 2,
                0x1p-7 * parts[i]);
  }
}

// The kernel that appends to the caches, run on the CPU: every new row lands where the tables say,
// turned as RoFormer defines it, and nothing else changes.

using serving_test::Appending;
using serving_test::Elements;
using serving_test::kPoison;

template <DType Type>
void expect_right(unsigned seed) {
  Appending problem(Type, seed);
  const Elements q = problem.q();
  emulation::LaunchBefore before;
  for (Elements* const elements : {&problem.k_new(), &problem.v_new(), &problem.q()}) {
    before.writes(*elements, kPoison);
  }
  emulation::run({.grid = static_cast<unsigned>(append_ctas(problem.params(), 2)),
                  .threads = serving::kAppendThreads,
                  .smem_bytes = 16,
                  .end_launch_before = before},
                 [&] { serving::append_rows<Type>(problem.params()); });
  EXPECT_EQ(problem.q(), q);
  EXPECT_EQ(problem.wrong_elements(), 0) << "seed " << seed;
}

TEST(EmulatedKvAppend, NewRowsLandTurnedAndNothingElseChanges) {
  for (unsigned seed = 0; seed < 250 && !HasFailure(); ++seed) {
    expect_right<DType::bf16>(seed);
    expect_right<DType::fp16>(seed + 1000);
  }
}

/// Also behind and ahead of sequences without new rows.
TEST(EmulatedKvAppend, RowsFindTheirSequence) {
  const std::vector<int> ends{0, 0, 3, 3, 3, 4, 9, 9};
  for (int row = 0; row < 9; ++row) {
    const serving::SequenceRow found = serving::find_row(ends.data(), 7, 0, row);
    EXPECT_LE(ends[static_cast<std::size_t>(found.sequence)], row);
    EXPECT_GT(ends[static_cast<std::size_t>(found.sequence) + 1], row);
    EXPECT_EQ(ends[static_cast<std::size_t>(found.sequence)] + found.row, row);
  }
  EXPECT_EQ(serving::find_row(nullptr, 5, 4, 11).sequence, 2);
  EXPECT_EQ(serving::find_row(nullptr, 5, 4, 11).row, 3);
}

}  // namespace
}  // namespace swr
