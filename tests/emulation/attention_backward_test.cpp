// SPDX-License-Identifier: MIT
// The portable attention backward kernels run on the CPU against fp64: ragged and tiny lengths,
// masks, grouped heads, strides, parts, inputs that are not finite, and planted faults.
#include "tests/emulation/attention_backward_cases.h"

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
  KeyPassConfig config = kFused;
  config.alignment_bytes = bytes;
  return config;
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
