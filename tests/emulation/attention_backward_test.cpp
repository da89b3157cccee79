// SPDX-License-Identifier: MIT
// The portable attention backward kernels run on the CPU against fp64: every axis, ragged and tiny
// lengths, masks, grouped heads, strides, inputs that are not finite, sums of dQ in a fixed order
// and in any. Also: no access to shared memory conflicts with another of its instruction.
#include "tests/emulation/attention_backward_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace swr {
namespace {

using emulation::Access;
using emulation::AttentionCase;
using emulation::AttentionGradients;
using emulation::AttentionInputs;
using emulation::BackwardChoice;
using emulation::BackwardProblem;
using emulation::CopyTime;
using emulation::Deviation;
using emulation::Fault;
using emulation::MemoryOrder;
using emulation::Pace;
using emulation::Values;

constexpr KeyPassConfig kFused{.head_dim = 32,
                               .value_dim = 32,
                               .dtype = DType::fp16,
                               .causal = true,
                               .alignment_bytes = 16,
                               .tile_m = 32,
                               .tile_n = 32,
                               .warps = 2,
                               .rows_at_once = 16,
                               .column_groups = 1,
                               .stages = 1,
                               .dq_sum = DqSum::atomic,
                               .wide_adds = false,
                               .order = QOrder::cyclic,
                               .persistence = Persistence::grid,
                               .smem_swizzle = true};

constexpr QueryPassConfig kQuery{.head_dim = 32,
                                 .value_dim = 32,
                                 .dtype = DType::fp16,
                                 .causal = true,
                                 .alignment_bytes = 16,
                                 .tile_m = 32,
                                 .tile_n = 32,
                                 .warps = 2,
                                 .keys_at_once = 16,
                                 .stages = 1,
                                 .order = Order::cyclic,
                                 .persistence = Persistence::grid,
                                 .smem_swizzle = true};

/// The pass over Q tiles that goes with one over K and V tiles.
constexpr QueryPassConfig query_of(KeyPassConfig key, QueryPassConfig config = kQuery) {
  config.head_dim = key.head_dim;
  config.value_dim = key.value_dim;
  config.dtype = key.dtype;
  config.causal = key.causal;
  config.alignment_bytes = key.alignment_bytes;
  config.smem_swizzle = key.smem_swizzle;
  return config;
}

constexpr KeyPassConfig without_sums(KeyPassConfig config) {
  config.dq_sum = DqSum::none;
  return config;
}
constexpr KeyPassConfig in_order(KeyPassConfig config) {
  config.dq_sum = DqSum::ordered;
  return config;
}
constexpr KeyPassConfig without_mask(KeyPassConfig config) {
  config.causal = false;
  return config;
}

constexpr AttentionCase kShape{.batch = 1, .heads_q = 2, .heads_kv = 1, .seq_q = 75, .seq_kv = 90};

template <KeyPassConfig K>
AttentionCase case_of(AttentionCase shape) {
  shape.head_dim = K.head_dim;
  shape.value_dim = K.value_dim;
  shape.causal = K.causal;
  shape.scale = 1.0 / std::sqrt(K.head_dim);
  return shape;
}

std::string text(const AttentionCase& c) {
  return "batch " + std::to_string(c.batch) + " heads " + std::to_string(c.heads_q) + " on " +
         std::to_string(c.heads_kv) + " lengths " + std::to_string(c.seq_q) + " and " +
         std::to_string(c.seq_kv) + " head_dim " + std::to_string(c.head_dim) + "/" +
         std::to_string(c.value_dim) + (c.causal ? " causal" : "");
}

template <KeyPassConfig K, QueryPassConfig Q>
void expect_no_conflicts(const emulation::SharedTraffic& traffic) {
  for (const Access kind : {Access::ldmatrix, Access::store, Access::load}) {
    EXPECT_EQ(traffic[kind].conflicts(), 0)
        << "access " << static_cast<int>(kind) << " head_dim " << K.head_dim;
  }
}

/// Runs with copies as early as may be and as late, with either end's warp ahead.
template <KeyPassConfig K, QueryPassConfig Q = query_of(K)>
void expect_right(const AttentionCase& shape = kShape, BackwardChoice choice = {}) {
  static_assert(K.is_whole() && (K.sums_dq() || Q.is_whole()));
  for (const auto& [copies, pace] : {std::pair{CopyTime::early, Pace::first_warp_ahead},
                                     std::pair{CopyTime::late, Pace::last_warp_ahead}}) {
    choice.copies = copies;
    choice.pace = pace;
    const AttentionCase problem = case_of<K>(shape);
    BackwardProblem<K, Q> backward(problem, choice);
    ASSERT_TRUE(backward.run()) << text(problem);
    const Deviation off = backward.deviation();
    EXPECT_EQ(off.wrong, 0) << text(problem);
    EXPECT_LE(off.worst, 1.0) << text(problem);
    EXPECT_EQ(backward.disturbed(), 0) << text(problem);
    if (K.smem_swizzle && K.alignment_bytes == 16 && choice.room == 0) {
      expect_no_conflicts<K, Q>(backward.traffic());
    }
  }
}

/// The three ways dQ comes about.
template <KeyPassConfig K>
void expect_all_right(const AttentionCase& shape = kShape, const BackwardChoice& choice = {}) {
  expect_right<K>(shape, choice);
  expect_right<in_order(K)>(shape, choice);
  expect_right<without_sums(K)>(shape, choice);
}

// The reference itself.

double loss(const AttentionCase& problem, const AttentionInputs& inputs) {
  const emulation::AttentionOutputs outputs = emulation::attention(problem, inputs);
  double sum = 0.0;
  for (std::size_t i = 0; i < outputs.o.size(); ++i) {
    sum += outputs.o[i] * inputs.d_o[i];
  }
  for (std::size_t i = 0; i < inputs.d_lse.size(); ++i) {
    sum += std::isfinite(outputs.lse[i]) ? outputs.lse[i] * inputs.d_lse[i] : 0.0;
  }
  return sum;
}

/// `gradient` is that of loss() by the inputs that `member` names.
void expect_central_differences(const AttentionCase& problem, AttentionInputs inputs,
                                Values AttentionInputs::*member, const Values& gradient) {
  constexpr double kStep = 1e-5;
  Values& varied = inputs.*member;
  ASSERT_EQ(varied.size(), gradient.size());
  for (std::size_t i = 0; i < varied.size(); ++i) {
    const double value = varied[i];
    varied[i] = value + kStep;
    const double above = loss(problem, inputs);
    varied[i] = value - kStep;
    const double below = loss(problem, inputs);
    varied[i] = value;
    EXPECT_NEAR(gradient[i], (above - below) / (2.0 * kStep), 1e-7) << "element " << i;
  }
}

TEST(AttentionBackwardReference, AgreesWithCentralDifferences) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (const bool causal : {false, true}) {
    const AttentionCase problem{.batch = 2,
                                .heads_q = 2,
                                .heads_kv = 1,
                                .seq_q = 7,
                                .seq_kv = 5,
                                .head_dim = 4,
                                .value_dim = 3,
                                .causal = causal,
                                .scale = 0.7};
    const auto values = [&](int heads, int seq, int columns) {
      Values result(static_cast<std::size_t>(problem.batch * heads * seq * columns));
      std::generate(result.begin(), result.end(), [&] { return normal(random); });
      return result;
    };
    AttentionInputs inputs{values(2, 7, 4), values(1, 5, 4), values(1, 5, 3), values(2, 7, 3),
                           values(2, 7, 1)};
    const AttentionGradients gradients = emulation::attention_gradients(problem, inputs);
    expect_central_differences(problem, inputs, &AttentionInputs::q, gradients.dq);
    expect_central_differences(problem, inputs, &AttentionInputs::k, gradients.dk);
    expect_central_differences(problem, inputs, &AttentionInputs::v, gradients.dv);
  }
}

// Axes.

constexpr KeyPassConfig with_dims(int head_dim, int value_dim, DType dtype) {
  KeyPassConfig config = kFused;
  config.head_dim = head_dim;
  config.value_dim = value_dim;
  config.dtype = dtype;
  return config;
}

TEST(EmulatedAttentionBackward, EveryHeadDimIsRight) {
  constexpr AttentionCase kOneHead{.seq_q = 40, .seq_kv = 50};
  expect_all_right<with_dims(16, 16, DType::bf16)>();
  expect_all_right<with_dims(48, 48, DType::fp16)>(kOneHead);
  expect_all_right<with_dims(64, 64, DType::bf16)>(kOneHead);
  expect_all_right<with_dims(80, 80, DType::fp16)>(kOneHead);
  expect_all_right<with_dims(96, 96, DType::bf16)>(kOneHead);
  expect_all_right<with_dims(64, 32, DType::fp16)>(kOneHead);
  expect_all_right<with_dims(32, 80, DType::fp16)>(kOneHead);
}

constexpr KeyPassConfig with_tile(int m, int n, int warps, int rows, int stages) {
  KeyPassConfig config = kFused;
  config.tile_m = m;
  config.tile_n = n;
  config.warps = warps;
  config.rows_at_once = rows;
  config.stages = stages;
  return config;
}
constexpr KeyPassConfig shared(KeyPassConfig config, int column_groups) {
  config.column_groups = column_groups;
  return config;
}

TEST(EmulatedAttentionBackward, EveryTileIsRight) {
  expect_all_right<with_tile(16, 16, 1, 16, 1)>();
  expect_all_right<with_tile(48, 48, 3, 48, 2)>({.seq_q = 60, .seq_kv = 70});
  expect_all_right<with_tile(64, 32, 1, 32, 2)>();
  expect_all_right<with_tile(64, 64, 4, 16, 1)>();
  expect_all_right<with_tile(48, 32, 2, 48, 2)>();
  expect_all_right<with_tile(16, 64, 2, 16, 2)>();
}

TEST(EmulatedAttentionBackward, WarpsMayShareKeys) {
  expect_all_right<shared(with_tile(32, 16, 2, 16, 1), 2)>();
  expect_all_right<shared(with_tile(64, 32, 4, 16, 2), 2)>();
  expect_all_right<shared(with_tile(64, 32, 2, 32, 1), 2)>();
  constexpr KeyPassConfig kWide = [] {
    KeyPassConfig config = shared(with_tile(32, 32, 4, 16, 1), 2);
    config.head_dim = 96;
    config.value_dim = 64;
    return config;
  }();
  expect_all_right<kWide>({.seq_q = 50, .seq_kv = 40});
}

TEST(EmulatedAttentionBackward, EveryLengthAndMaskIsRight) {
  constexpr KeyPassConfig kSmall = with_tile(16, 16, 1, 16, 2);
  for (const int seq_q : {1, 15, 16, 17, 50}) {
    for (const int seq_kv : {1, 16, 31, 49}) {
      const AttentionCase shape{.heads_q = 2, .heads_kv = 1, .seq_q = seq_q, .seq_kv = seq_kv};
      expect_all_right<kSmall>(shape);
      expect_all_right<without_mask(kSmall)>(shape);
    }
  }
}

TEST(EmulatedAttentionBackward, RowsWithoutKeysGiveNothing) {
  constexpr AttentionCase kHidden{.heads_q = 2, .heads_kv = 2, .seq_q = 100, .seq_kv = 21};
  expect_all_right<kFused>(kHidden);
  BackwardProblem<in_order(kFused), query_of(kFused)> backward(case_of<kFused>(kHidden), {});
  backward.run();
  const Values dq = backward.dq();
  for (int row = 0; row < 100 - 21; ++row) {
    for (int d = 0; d < kFused.head_dim; ++d) {
      EXPECT_EQ(dq[static_cast<std::size_t>(row * kFused.head_dim + d)], 0.0);
    }
  }
}

constexpr KeyPassConfig walking(QOrder order, Persistence persistence) {
  KeyPassConfig config = with_tile(16, 16, 1, 16, 1);
  config.order = order;
  config.persistence = persistence;
  return config;
}

TEST(EmulatedAttentionBackward, EveryOrderAndPersistenceIsRight) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 60};
  const BackwardChoice choice{.section_heads = 3};
  const BackwardChoice last_first{.section_heads = 4, .last_kv_first = true};
  expect_all_right<walking(QOrder::sawtooth, Persistence::persistent)>(kGrouped, choice);
  expect_all_right<walking(QOrder::right_to_left, Persistence::snake)>(kGrouped, last_first);
  expect_all_right<walking(QOrder::sawtooth, Persistence::dynamic)>(kGrouped, last_first);
  expect_all_right<walking(QOrder::right_to_left, Persistence::pairs)>(kGrouped, choice);
  expect_right<walking(QOrder::rotated, Persistence::grid)>(kGrouped, last_first);
  expect_right<without_mask(walking(QOrder::rotated, Persistence::dynamic))>(kGrouped, choice);
  expect_right<without_sums(walking(QOrder::rotated, Persistence::persistent))>(kGrouped, choice);
}

TEST(EmulatedAttentionBackward, PartsOfAWalkAddUp) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 40};
  for (const int parts : {2, 5, 13}) {
    expect_all_right<with_tile(16, 16, 1, 16, 1)>(kGrouped, {.parts = parts});
  }
  expect_all_right<shared(with_tile(32, 16, 2, 16, 2), 2)>(kGrouped, {.parts = 3});
}

constexpr KeyPassConfig aligned_to(int bytes) {
  KeyPassConfig config = kFused;
  config.alignment_bytes = bytes;
  return config;
}

TEST(EmulatedAttentionBackward, EveryLayoutAndAlignmentIsRight) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 3, .heads_kv = 1, .seq_q = 35, .seq_kv = 37};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    expect_all_right<aligned_to(16)>(kGrouped, {.memory = memory});
    expect_all_right<aligned_to(4)>(kGrouped, {.memory = memory, .parts = 2});
    expect_all_right<aligned_to(2)>(kGrouped, {.memory = memory});
  }
}

TEST(EmulatedAttentionBackward, TheGradientOfTheLogSumExpCounts) {
  expect_all_right<kFused>(kShape, {.with_d_lse = true});
  expect_all_right<without_mask(kFused)>(kShape, {.with_d_lse = true});
}

TEST(EmulatedAttentionBackward, FourSumsMayBeAddedAtOnce) {
  constexpr KeyPassConfig kWide = [] {
    KeyPassConfig config = with_tile(64, 32, 2, 32, 1);
    config.wide_adds = true;
    return config;
  }();
  expect_right<kWide>();
}

constexpr QueryPassConfig query_tile(int m, int n, int warps, int keys, int stages, Order order,
                                     Persistence persistence) {
  QueryPassConfig config = query_of(kFused);
  config.tile_m = m;
  config.tile_n = n;
  config.warps = warps;
  config.keys_at_once = keys;
  config.stages = stages;
  config.order = order;
  config.persistence = persistence;
  return config;
}

TEST(EmulatedAttentionBackward, EveryPassOverQTilesIsRight) {
  constexpr KeyPassConfig kKeys = without_sums(kFused);
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 2, .heads_kv = 1, .seq_q = 70, .seq_kv = 90};
  expect_right<kKeys, query_tile(16, 16, 1, 16, 2, Order::sawtooth, Persistence::persistent)>(
      kGrouped);
  expect_right<kKeys, query_tile(64, 48, 2, 16, 1, Order::right_to_left, Persistence::snake)>(
      kGrouped);
  expect_right<kKeys, query_tile(48, 64, 3, 32, 2, Order::cyclic, Persistence::pairs)>(kGrouped);
  expect_right<kKeys, query_tile(32, 32, 1, 32, 2, Order::cyclic, Persistence::grid)>(kGrouped);
}

// Determinism.

/// CTAs side by side in any order: who adds when is fixed.
template <KeyPassConfig K>
void expect_same_bits(const AttentionCase& shape, BackwardChoice choice) {
  std::set<std::vector<std::uint16_t>> results;
  for (unsigned seed = 0; seed < 6; ++seed) {
    choice.seed = seed;
    BackwardProblem<K, query_of(K)> backward(case_of<K>(shape), choice);
    ASSERT_TRUE(backward.run());
    EXPECT_LE(backward.deviation().worst, 1.0);
    results.insert(backward.bits());
  }
  EXPECT_EQ(results.size(), 1U);
}

constexpr AttentionCase kManyTiles{
    .batch = 1, .heads_q = 4, .heads_kv = 2, .seq_q = 90, .seq_kv = 110};

TEST(EmulatedAttentionBackward, AdditionsInTurnGiveTheSameBitsWhoeverComesFirst) {
  const BackwardChoice choice{.room = 3};
  expect_same_bits<in_order(walking(QOrder::cyclic, Persistence::grid))>(kManyTiles, choice);
  expect_same_bits<in_order(walking(QOrder::right_to_left, Persistence::grid))>(
      kManyTiles, {.last_kv_first = true, .room = 4});
  expect_same_bits<in_order(walking(QOrder::sawtooth, Persistence::dynamic))>(
      kManyTiles, {.section_heads = 2, .workers = 5, .room = 5});
  expect_same_bits<in_order(without_mask(walking(QOrder::rotated, Persistence::grid)))>(
      kManyTiles, {.room = 4});
  expect_same_bits<in_order(without_mask(walking(QOrder::rotated, Persistence::dynamic)))>(
      kManyTiles, {.section_heads = 2, .workers = 9, .parts = 2, .room = 9});
  expect_same_bits<in_order(without_mask(walking(QOrder::rotated, Persistence::grid)))>(
      kManyTiles, {.last_kv_first = true, .room = 20});
}

/// Else the tests before would not notice additions in any order.
TEST(EmulatedAttentionBackward, AtomicAdditionsDoNot) {
  std::set<std::vector<std::uint16_t>> results;
  for (unsigned seed = 0; seed < 6; ++seed) {
    constexpr KeyPassConfig kConfig = without_mask(walking(QOrder::cyclic, Persistence::grid));
    BackwardProblem<kConfig, query_of(kConfig)> backward(case_of<kConfig>(kManyTiles),
                                                         {.room = 8, .seed = seed});
    ASSERT_TRUE(backward.run());
    EXPECT_LE(backward.deviation().worst, 1.0);
    results.insert(backward.bits());
  }
  EXPECT_GT(results.size(), 1U);
}

// Inputs that are not finite.

enum class Spoilt { q, k, v, d_o };

template <KeyPassConfig K>
void expect_non_finite_as_torch(Spoilt which, float value, int row) {
  constexpr AttentionCase kFew{.heads_q = 2, .heads_kv = 1, .seq_q = 37, .seq_kv = 41};
  BackwardProblem<K, query_of(K)> backward(case_of<K>(kFew), {});
  emulation::StridedTensor& tensor = which == Spoilt::q   ? backward.q()
                                     : which == Spoilt::k ? backward.k()
                                     : which == Spoilt::v ? backward.v()
                                                          : backward.d_o();
  tensor.at(0, 0, row, 3) = static_cast<std::uint16_t>(ptx::encode<K.dtype>(value));
  ASSERT_TRUE(backward.run());
  EXPECT_EQ(backward.wrong_of_non_finite(), 0)
      << "tensor " << static_cast<int>(which) << " value " << value << " row " << row;
}

template <KeyPassConfig K>
void expect_all_non_finite_as_torch() {
  for (const Spoilt which : {Spoilt::q, Spoilt::k, Spoilt::v, Spoilt::d_o}) {
    for (const float value : {NAN, HUGE_VALF, -HUGE_VALF}) {
      for (const int row : {0, 20, 36}) {
        expect_non_finite_as_torch<K>(which, value, row);
      }
    }
  }
}

TEST(EmulatedAttentionBackward, NonFiniteInputsSpreadNoFurtherThanInTorch) {
  constexpr KeyPassConfig kSmall = with_tile(16, 16, 1, 16, 1);
  expect_all_non_finite_as_torch<kSmall>();
  expect_all_non_finite_as_torch<without_sums(kSmall)>();
  expect_all_non_finite_as_torch<without_mask(in_order(kSmall))>();
}

/// exp(-lse) of a key past the end would overflow.
TEST(EmulatedAttentionBackward, LogSumExpsFarBelowZeroAreHarmless) {
  constexpr KeyPassConfig kSmall = without_mask(with_tile(16, 32, 2, 16, 1));
  for (const int seq_kv : {31, 33, 64}) {
    AttentionCase problem = case_of<kSmall>({.seq_q = 20, .seq_kv = seq_kv});
    problem.scale = 1.0;
    BackwardProblem<kSmall, query_of(kSmall)> backward(problem, {});
    // All scores are near -128.
    backward.q().for_each([](std::uint16_t& element, std::size_t) {
      element = static_cast<std::uint16_t>(ptx::encode<DType::fp16>(-2.0F));
    });
    backward.k().for_each([](std::uint16_t& element, std::size_t) {
      element = static_cast<std::uint16_t>(ptx::encode<DType::fp16>(2.0F));
    });
    ASSERT_TRUE(backward.run());
    const Deviation off = backward.deviation();
    EXPECT_EQ(off.wrong, 0);
    EXPECT_LE(off.worst, 1.0);
  }
}

// What the tests above rest on.

TEST(EmulatedAttentionBackward, PlantedFaultsShow) {
  constexpr KeyPassConfig kTwoWarps = without_mask(with_tile(32, 32, 2, 16, 2));
  for (const Fault fault :
       {Fault::copies_not_awaited, Fault::barriers_ignored, Fault::launch_not_awaited}) {
    BackwardProblem<kTwoWarps, query_of(kTwoWarps)> fused(
        case_of<kTwoWarps>(kShape),
        {.fault = fault, .copies = CopyTime::late, .pace = Pace::first_warp_ahead});
    fused.run();
    const Deviation off = fused.deviation();
    EXPECT_TRUE(off.wrong > 0 || off.worst > 1.0) << static_cast<int>(fault);
    constexpr KeyPassConfig kNoSums = without_sums(kTwoWarps);
    BackwardProblem<kNoSums, query_of(kNoSums)> two_pass(
        case_of<kNoSums>(kShape),
        {.fault = fault, .copies = CopyTime::late, .pace = Pace::first_warp_ahead});
    two_pass.run();
    const Deviation off_two = two_pass.deviation();
    EXPECT_TRUE(off_two.wrong > 0 || off_two.worst > 1.0) << static_cast<int>(fault);
  }
}

/// Whoever does not wait for its turn adds to what is not there.
TEST(EmulatedAttentionBackward, TurnsNotAwaitedShow) {
  constexpr KeyPassConfig kConfig =
      in_order(without_mask(walking(QOrder::cyclic, Persistence::grid)));
  BackwardProblem<kConfig, query_of(kConfig)> backward(
      case_of<kConfig>(kManyTiles), {.fault = Fault::turns_not_awaited, .room = 8});
  backward.run();
  const Deviation off = backward.deviation();
  EXPECT_TRUE(off.wrong > 0 || off.worst > 1.0);
}

TEST(EmulatedAttentionBackward, RowsThatAreNotSwizzledConflict) {
  constexpr KeyPassConfig kPlain = [] {
    KeyPassConfig config = with_tile(64, 64, 4, 16, 1);
    config.head_dim = config.value_dim = 64;
    config.smem_swizzle = false;
    return config;
  }();
  BackwardProblem<kPlain, query_of(kPlain)> backward(case_of<kPlain>(kShape), {});
  ASSERT_TRUE(backward.run());
  EXPECT_LE(backward.deviation().worst, 1.0);
  EXPECT_GT(backward.traffic()[Access::ldmatrix].conflicts(), 0);
}

}  // namespace
}  // namespace swr
