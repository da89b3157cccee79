// SPDX-License-Identifier: MIT
// The portable attention backward kernels run on the CPU against fp64: ragged and tiny lengths,
// masks, grouped heads, strides, parts, inputs that are not finite, and planted faults.
#include "tests/emulation/attention_backward_cases.h"
#include "tests/support/attention_reference.h"
#include "tests/support/float16.h"
#include "tests/support/test.h"
#include "tests/support/with.h"

namespace swr {
namespace {

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

// Shapes.

TEST(EmulatedAttentionBackward, EveryLengthAndMaskIsRight) {
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

constexpr KeyPassConfig aligned_to(int bytes) {
  return with(kFused, &KeyPassConfig::alignment_bytes, bytes);
}

TEST(EmulatedAttentionBackward, EveryLayoutAndAlignmentIsRight) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 3, .heads_kv = 1, .seq_q = 35, .seq_kv = 37};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    expect_all_right<aligned_to(16)>(kGrouped, {.memory = memory});
    expect_right<aligned_to(4)>(kGrouped, {.memory = memory, .parts = 2});
    expect_right<without_sums(aligned_to(2))>(kGrouped, {.memory = memory});
    expect_right<in_order(aligned_to(2))>(kGrouped, {.memory = memory});
  }
}

TEST(EmulatedAttentionBackward, TheGradientOfTheLogSumExpCounts) {
  expect_all_right<kFused>(kShape, {.with_d_lse = true});
}

TEST(EmulatedAttentionBackward, PartsOfAWalkAddUp) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 40};
  for (const int parts : {2, 5, 13}) {
    expect_all_right<kSmall>(kGrouped, {.parts = parts});
  }
  expect_right<shared(with_tile(64, 32, 4, 16, 2), 2)>(kGrouped, {.parts = 3});
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
  tensor.at(0, 0, row, 3) = bits_of(value, K.dtype);
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
  expect_all_non_finite_as_torch<kSmall>();
  expect_all_non_finite_as_torch<without_sums(kSmall)>();
  expect_all_non_finite_as_torch<without_mask(kSmall)>();
}

/// exp(-lse) of a key past the end would overflow.
TEST(EmulatedAttentionBackward, LogSumExpsFarBelowZeroAreHarmless) {
  constexpr KeyPassConfig kTwoWarps = without_mask(with_tile(32, 32, 2, 16, 2));
  for (const int seq_kv : {31, 33, 64}) {
    AttentionCase problem = case_of<kTwoWarps>({.seq_q = 20, .seq_kv = seq_kv});
    problem.scale = 1.0;
    BackwardProblem<kTwoWarps, query_of(kTwoWarps)> backward(problem, {});
    // All scores are near -128.
    backward.q().for_each(
        [](std::uint16_t& element, std::size_t) { element = bits_of(-2.0F, DType::fp16); });
    backward.k().for_each(
        [](std::uint16_t& element, std::size_t) { element = bits_of(2.0F, DType::fp16); });
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

TEST(EmulatedAttentionBackward, RowsThatAreNotSwizzledConflict) {
  constexpr KeyPassConfig kPlain = [] {
    return with(with_tile(64, 64, 4, 16, 1), &KeyPassConfig::head_dim, 64,
                &KeyPassConfig::value_dim, 64, &KeyPassConfig::smem_swizzle, false);
  }();
  BackwardProblem<kPlain, query_of(kPlain)> backward(case_of<kPlain>(kShape), {});
  ASSERT_TRUE(backward.run());
  EXPECT_LE(backward.deviation().worst, 1.0);
  EXPECT_GT(backward.traffic()[Access::ldmatrix].conflicts(), 0);
}

// The portable attention backward kernels run on the CPU against fp64: head_dims, tiles, warps and
// stages. Also: no access to shared memory conflicts with another of its instruction.

TEST(EmulatedAttentionBackward, EveryHeadDimIsRight) {
  constexpr AttentionCase kOneHead{.seq_q = 40, .seq_kv = 50};
  expect_right<with_dims(kFused, 16, 16, DType::bf16)>(kOneHead);
  expect_right<without_sums(with_dims(kFused, 48, 48, DType::fp16))>(kOneHead);
  expect_right<in_order(with_dims(kFused, 80, 80, DType::fp16))>(kOneHead);
  expect_right<with_dims(kFused, 96, 96, DType::bf16)>(kOneHead);
  expect_right<in_order(with_dims(kFused, 64, 32, DType::fp16))>(kOneHead);
  expect_right<without_sums(with_dims(kFused, 32, 80, DType::bf16))>(kOneHead);
}

TEST(EmulatedAttentionBackward, EveryTileIsRight) {
  expect_right<with_tile(48, 48, 3, 48, 2)>({.seq_q = 60, .seq_kv = 70});
  expect_right<with_tile(64, 32, 1, 32, 2)>();
  expect_right<in_order(with_tile(64, 64, 4, 16, 1))>();
  expect_right<in_order(with_tile(16, 64, 2, 16, 2))>();
  expect_right<without_sums(with_tile(32, 64, 2, 32, 2))>();
}

TEST(EmulatedAttentionBackward, WarpsMayShareKeys) {
  constexpr KeyPassConfig kWide =
      with_dims(shared(with_tile(32, 32, 4, 16, 1), 2), 96, 64, DType::fp16);
  expect_right<shared(with_tile(32, 16, 2, 16, 1), 2)>();
  expect_right<in_order(shared(with_tile(64, 32, 2, 32, 1), 2))>();
  expect_right<kWide>({.seq_q = 50, .seq_kv = 40});
  expect_right<without_sums(kWide)>({.seq_q = 50, .seq_kv = 40});
}

TEST(EmulatedAttentionBackward, FourSumsMayBeAddedAtOnce) {
  constexpr KeyPassConfig kWide = [] {
    return with(with_tile(64, 32, 2, 32, 1), &KeyPassConfig::wide_adds, true);
  }();
  expect_right<kWide>();
}

constexpr QueryPassConfig query_tile(int m, int n, int warps, int keys, int stages, Order order,
                                     Persistence persistence) {
  return with(query_of(kFused), &QueryPassConfig::tile_m, m, &QueryPassConfig::tile_n, n,
              &QueryPassConfig::warps, warps, &QueryPassConfig::keys_at_once, keys,
              &QueryPassConfig::stages, stages, &QueryPassConfig::order, order,
              &QueryPassConfig::persistence, persistence);
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

// The portable attention backward kernels run on the CPU: every order and persistence is right, and
// additions to dQ in turn give the same bits whichever CTAs run ahead.

TEST(EmulatedAttentionBackward, EveryOrderAndPersistenceIsRight) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 60};
  const BackwardChoice choice{.section_heads = 3};
  const BackwardChoice last_first{.section_heads = 4, .last_kv_first = true, .bands = 2};
  expect_right<walking(QOrder::sawtooth, Persistence::persistent)>(kGrouped, choice);
  expect_right<without_sums(walking(QOrder::sawtooth, Persistence::dynamic))>(kGrouped, choice);
  expect_right<in_order(walking(QOrder::right_to_left, Persistence::snake))>(kGrouped, last_first);
  expect_right<walking(QOrder::right_to_left, Persistence::pairs)>(kGrouped, choice);
  expect_right<walking(QOrder::rotated, Persistence::grid)>(kGrouped, last_first);
  expect_right<without_sums(without_mask(walking(QOrder::rotated, Persistence::persistent)))>(
      kGrouped, choice);
}

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
  expect_same_bits<in_order(walking(QOrder::cyclic, Persistence::grid))>(
      kManyTiles, {.section_heads = 2, .last_kv_first = true, .bands = 3, .room = 4});
  expect_same_bits<in_order(walking(QOrder::sawtooth, Persistence::dynamic))>(
      kManyTiles, {.section_heads = 2, .workers = 5, .room = 5});
  expect_same_bits<in_order(without_mask(walking(QOrder::cyclic, Persistence::dynamic)))>(
      kManyTiles, {.section_heads = 2, .workers = 9, .parts = 2, .room = 9});
  expect_same_bits<in_order(without_mask(walking(QOrder::sawtooth, Persistence::grid)))>(
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

// The portable attention backward kernels run on the CPU against fp64 for thousands of random
// problems: sizes, heads, strides, inputs, launches.

class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  int from(int lowest, int highest) {
    return std::uniform_int_distribution<int>(lowest, highest)(random_);
  }
  bool coin() { return from(0, 1) == 1; }

  AttentionCase shape() {
    const int heads_kv = from(1, 2);
    return {.batch = from(1, 2),
            .heads_q = heads_kv * from(1, 3),
            .heads_kv = heads_kv,
            .seq_q = from(1, 40),
            .seq_kv = from(1, 40)};
  }
  BackwardChoice choice() {
    return {.memory = coin() ? MemoryOrder::bhsd : MemoryOrder::bshd,
            .section_heads = from(1, 4),
            .workers = from(1, 6),
            .parts = coin() ? 1 : from(2, 4),
            .last_kv_first = coin(),
            .bands = from(1, 3),
            .with_d_lse = coin(),
            .copies = coin() ? CopyTime::early : CopyTime::late,
            .pace = coin() ? Pace::first_warp_ahead : Pace::last_warp_ahead,
            .room = static_cast<unsigned>(coin() ? 0 : 8),
            .seed = seed()};
  }
  unsigned seed() { return static_cast<unsigned>(random_()); }

 private:
  std::mt19937 random_;
};

constexpr int kProblemsEach = 500;

template <KeyPassConfig K>
void expect_right_at_random(unsigned seed) {
  RandomProblems problems(seed);
  for (int i = 0; i < kProblemsEach; ++i) {
    AttentionCase problem = case_of<K>(problems.shape());
    problem.scale *= std::pow(2.0, problems.from(-2, 2));
    const BackwardChoice choice = problems.choice();
    BackwardProblem<K, query_of(K)> backward(problem, choice, problems.seed());
    ASSERT_TRUE(backward.run()) << text(problem) << " number " << i;
    const Deviation off = backward.deviation();
    ASSERT_EQ(off.wrong, 0) << text(problem) << " number " << i;
    ASSERT_LE(off.worst, 1.0) << text(problem) << " number " << i;
    ASSERT_EQ(backward.disturbed(), 0) << text(problem) << " number " << i;
  }
}

constexpr KeyPassConfig at(KeyPassConfig config, QOrder order, Persistence persistence,
                           DType dtype) {
  config = with_dims(config, 16, 16, dtype);
  config.order = order;
  config.persistence = persistence;
  return config;
}

TEST(EmulatedAttentionBackward, RandomProblemsWithAtomicSumsAreRight) {
  expect_right_at_random<at(kSmall, QOrder::sawtooth, Persistence::dynamic, DType::bf16)>(1);
}
TEST(EmulatedAttentionBackward, RandomProblemsWithoutMaskAndAtomicSumsAreRight) {
  expect_right_at_random<without_mask(
      at(with_tile(32, 16, 1, 16, 2), QOrder::rotated, Persistence::snake, DType::fp16))>(2);
}
TEST(EmulatedAttentionBackward, RandomProblemsWithSumsInTurnAreRight) {
  expect_right_at_random<in_order(
      at(kSmall, QOrder::right_to_left, Persistence::grid, DType::fp16))>(3);
}
TEST(EmulatedAttentionBackward, RandomProblemsWithoutMaskAndSumsInTurnAreRight) {
  expect_right_at_random<in_order(
      without_mask(at(kSmall, QOrder::cyclic, Persistence::grid, DType::bf16)))>(4);
}
TEST(EmulatedAttentionBackward, RandomProblemsInTwoPassesAreRight) {
  expect_right_at_random<without_sums(
      at(with_tile(16, 32, 1, 16, 2), QOrder::cyclic, Persistence::dynamic, DType::bf16))>(5);
}
TEST(EmulatedAttentionBackward, RandomProblemsOfWarpsThatShareKeysAreRight) {
  constexpr KeyPassConfig kShared = shared(with_tile(32, 16, 2, 16, 1), 2);
  expect_right_at_random<with_dims(kShared, 32, 32, DType::fp16)>(6);
}

}  // namespace
}  // namespace swr

// The bound on the errors of gradients: rounding of O, P, dS and results in otherwise exact
// arithmetic stays within it, also where a gradient cancels, and faults do not.

namespace emulation {
namespace {

using swr::DType;

double unit_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11; }

double rounded_to(DType dtype, double value) {
  return swr::value_of(swr::bits_of(static_cast<float>(value), dtype), dtype);
}

/// As the program drew the elements of a seed with which ErrorsSeenOnAGpuComeOfARoundedO was found.
AttentionInputs drawn_inputs(const AttentionCase& problem, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  const auto drawn = [&](int heads, int seq, int columns) {
    std::normal_distribution<float> normal;
    Values values(static_cast<std::size_t>(problem.batch * heads * seq * columns));
    for (double& value : values) {
      value = rounded_to(dtype, static_cast<double>(normal(random)));
    }
    return values;
  };
  AttentionInputs inputs;
  inputs.q = drawn(problem.heads_q, problem.seq_q, problem.head_dim);
  inputs.k = drawn(problem.heads_kv, problem.seq_kv, problem.head_dim);
  inputs.v = drawn(problem.heads_kv, problem.seq_kv, problem.value_dim);
  inputs.d_o = drawn(problem.heads_q, problem.seq_q, problem.value_dim);
  return inputs;
}

/// What kernels compute, in fp64 but for what they round to 16 bits: O before delta, P and dS
/// before the products with them, and the gradients.
AttentionGradients as_kernels_round(const AttentionCase& c, const AttentionInputs& in,
                                    DType dtype) {
  const AttentionOutputs forward = attention(c, in);
  AttentionGradients out{Values(in.q.size()), Values(in.k.size()), Values(in.v.size())};
  const auto place = [](int heads, int seq, int columns, int b, int h, int s) {
    return static_cast<std::size_t>(((b * heads + h) * seq + s) * columns);
  };
  const auto d = static_cast<std::size_t>(c.head_dim);
  const auto dv = static_cast<std::size_t>(c.value_dim);
  for (int b = 0; b < c.batch; ++b) {
    for (int h = 0; h < c.heads_q; ++h) {
      for (int row = 0; row < c.seq_q; ++row) {
        const std::size_t q = place(c.heads_q, c.seq_q, c.head_dim, b, h, row);
        const std::size_t o = place(c.heads_q, c.seq_q, c.value_dim, b, h, row);
        double delta = 0.0;
        for (std::size_t i = 0; i < dv; ++i) {
          delta += in.d_o[o + i] * rounded_to(dtype, forward.o[o + i]);
        }
        for (int key = 0; key < c.visible_keys(row); ++key) {
          const std::size_t k = place(c.heads_kv, c.seq_kv, c.head_dim, b, c.kv_head(h), key);
          const std::size_t v = place(c.heads_kv, c.seq_kv, c.value_dim, b, c.kv_head(h), key);
          double s = 0.0;
          double dp = 0.0;
          for (std::size_t i = 0; i < d; ++i) {
            s += in.q[q + i] * in.k[k + i];
          }
          for (std::size_t i = 0; i < dv; ++i) {
            dp += in.d_o[o + i] * in.v[v + i];
          }
          const double p =
              std::exp(s * c.scale - forward.lse[place(c.heads_q, c.seq_q, 1, b, h, row)]);
          const double ds = rounded_to(dtype, p * (dp - delta));
          for (std::size_t i = 0; i < d; ++i) {
            out.dq[q + i] += ds * in.k[k + i];
            out.dk[k + i] += ds * in.q[q + i];
          }
          for (std::size_t i = 0; i < dv; ++i) {
            out.dv[v + i] += rounded_to(dtype, p) * in.d_o[o + i];
          }
        }
      }
    }
  }
  for (Values* const values : {&out.dq, &out.dk}) {
    for (double& value : *values) {
      value = rounded_to(dtype, value * c.scale);
    }
  }
  for (double& value : out.dv) {
    value = rounded_to(dtype, value);
  }
  return out;
}

/// Of the gradient's own norm, which says nothing where it cancels.
double relative_to_norm(const Values& found, const Values& exact) {
  double error = 0.0;
  double size = 1e-6 * static_cast<double>(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (found[i] - exact[i]) * (found[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

AttentionCase small_case(int seq_q, int seq_kv, int head_dim, bool causal) {
  return {.seq_q = seq_q,
          .seq_kv = seq_kv,
          .head_dim = head_dim,
          .value_dim = head_dim,
          .causal = causal,
          .scale = 1.0 / std::sqrt(static_cast<double>(head_dim))};
}

void expect_rounding(const AttentionCase& problem, const AttentionInputs& inputs, DType dtype) {
  GradientSizes sizes;
  const AttentionGradients exact = attention_gradients(problem, inputs, sizes);
  const AttentionGradients found = as_kernels_round(problem, inputs, dtype);
  const auto expect = [&](const char* name, const Values& a, const Values& b, const Values& size) {
    const GradientError error = gradient_error(a, b, size);
    EXPECT_TRUE(error.is_rounding(unit_of(dtype)))
        << name << " of " << problem.seq_q << " rows and " << problem.seq_kv
        << " keys: " << error.all / unit_of(dtype) << " and " << error.row / unit_of(dtype)
        << " units";
  };
  expect("dQ", found.dq, exact.dq, sizes.dq);
  expect("dK", found.dk, exact.dk, sizes.dk);
  expect("dV", found.dv, exact.dv, sizes.dv);
}

/// A problem that was found as far from fp64 as it says, on an H200
/// (experiments/attention_backward).
struct Seen {
  unsigned seed;
  AttentionCase problem;
  double dq;
  double dk;
};

TEST(GradientBound, ErrorsSeenOnAGpuComeOfARoundedO) {
  const Seen all[] = {{273, small_case(85, 2, 128, true), 2.18e-2, 2.05e-2},
                      {19117, small_case(2, 2, 256, true), 5.58e-2, 5.32e-2},
                      {23160, small_case(2, 2, 128, true), 1.23e-2, 1.19e-2}};
  for (const Seen& seen : all) {
    const AttentionInputs inputs = drawn_inputs(seen.problem, DType::bf16, seen.seed);
    const AttentionGradients exact = attention_gradients(seen.problem, inputs);
    const AttentionGradients found = as_kernels_round(seen.problem, inputs, DType::bf16);
    EXPECT_NEAR(relative_to_norm(found.dq, exact.dq), seen.dq, 0.02 * seen.dq) << seen.seed;
    EXPECT_NEAR(relative_to_norm(found.dk, exact.dk), seen.dk, 0.02 * seen.dk) << seen.seed;
    expect_rounding(seen.problem, inputs, DType::bf16);
  }
}

TEST(GradientBound, RoundingOfFewKeysStaysWithin) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto from = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const int head_dim = 16 << from(0, 3);
    const AttentionCase problem = small_case(from(1, 6), from(1, 6), head_dim, from(0, 1) == 1);
    const DType dtype = from(0, 1) == 1 ? DType::bf16 : DType::fp16;
    expect_rounding(problem, drawn_inputs(problem, dtype, static_cast<unsigned>(i)), dtype);
  }
}

TEST(GradientBound, RoundingOfManyKeysStaysWithin) {
  for (const bool causal : {false, true}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      const AttentionCase problem = small_case(150, 200, 64, causal);
      expect_rounding(problem, drawn_inputs(problem, dtype, 9), dtype);
    }
  }
}

/// One row off by 3 % shows, whichever it is, and so do all off by 1.5 %.
TEST(GradientBound, AFaultOfOneRowShows) {
  const AttentionCase problem = small_case(128, 128, 128, false);
  const AttentionInputs inputs = drawn_inputs(problem, DType::bf16, 4);
  GradientSizes sizes;
  const AttentionGradients exact = attention_gradients(problem, inputs, sizes);
  const AttentionGradients right = as_kernels_round(problem, inputs, DType::bf16);
  const auto check = [](const Values& good, const Values& truth, const Values& size) {
    const auto columns = static_cast<std::ptrdiff_t>(truth.size() / size.size());
    for (std::ptrdiff_t row = 0; row < static_cast<std::ptrdiff_t>(size.size()); ++row) {
      Values wrong = good;
      std::for_each(wrong.begin() + row * columns, wrong.begin() + (row + 1) * columns,
                    [](double& value) { value *= 1.03; });
      const GradientError error = gradient_error(wrong, truth, size);
      EXPECT_FALSE(error.is_rounding(0x1p-8)) << row << ": " << error.row * 0x1p8 << " units";
      EXPECT_EQ(error.worst_row, row);
    }
    Values wrong = good;
    std::for_each(wrong.begin(), wrong.end(), [](double& value) { value *= 1.015; });
    EXPECT_FALSE(gradient_error(wrong, truth, size).is_rounding(0x1p-8));
  };
  check(right.dq, exact.dq, sizes.dq);
  check(right.dk, exact.dk, sizes.dk);
  check(right.dv, exact.dv, sizes.dv);
}

TEST(GradientBound, WhatIsNotFiniteIsNoRounding) {
  const Values exact(32, 1.0);
  const Values sizes(2, 4.0);
  EXPECT_TRUE(gradient_error(exact, exact, sizes).is_rounding(0x1p-8));
  for (const double bad : {NAN, INFINITY}) {
    Values found = exact;
    found[20] = bad;
    const GradientError error = gradient_error(found, exact, sizes);
    EXPECT_FALSE(error.is_rounding(0x1p-8));
    EXPECT_EQ(error.worst_row, 1);
  }
}

}  // namespace
}  // namespace emulation
