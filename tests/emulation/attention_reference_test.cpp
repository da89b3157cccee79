// SPDX-License-Identifier: MIT
// The fp32 reference of attention, run on the CPU against fp64: lengths around the borders of its
// tiles, head_dims around those of its columns, masks, grouped heads, strides, alignments, inputs
// that are not finite, and a planted fault.

#include "tests/emulation/attention_memory.h"
#include "tests/emulation/simt.h"
#include "tests/support/float16.h"

// After simt.h, whose CUDA it is written in; it includes nothing of templates/common.
// clang-format off
#include "reference/attention_reference.cuh"
#include "tests/support/test.h"
// clang-format on

namespace emulation {

/// How GoogleTest shows a problem.
[[maybe_unused]] static void PrintTo(const AttentionCase& problem, std::ostream* stream) {
  *stream << "batch " << problem.batch << " heads " << problem.heads_q << " on " << problem.heads_kv
          << " lengths " << problem.seq_q << " and " << problem.seq_kv << " head_dim "
          << problem.head_dim << (problem.causal ? " causal" : "");
}

}  // namespace emulation

namespace swr {
namespace {

using emulation::AttentionCase;
using emulation::Fault;
using emulation::MemoryOrder;
using emulation::Pace;
using emulation::StridedTensor;

struct Choice {
  DType dtype = DType::fp16;
  MemoryOrder memory = MemoryOrder::bhsd;
  int alignment_bytes = 16;
  Pace pace = Pace::first_warp_ahead;
  Fault fault = Fault::none;
  bool with_lse = true;
};

/// Finite, of both signs, from subnormal numbers up to 8.
std::uint16_t random_bits(std::mt19937& random, DType dtype) {
  const auto bits = static_cast<std::uint16_t>(random());
  const auto smaller = static_cast<std::uint16_t>(bits & 0xbfffU);
  return std::abs(value_of(bits, dtype)) < 8.0 ? bits : smaller;
}

class Attention : public emulation::AttentionMemory {
 public:
  explicit Attention(const AttentionCase& problem, const Choice& choice = {})
      : AttentionMemory(with_value_dim(problem), choice.dtype, choice.memory,
                        choice.alignment_bytes),
        choice_(choice),
        o_(rows() * static_cast<std::size_t>(problem.head_dim) + 2 * kGuard, kUnwritten),
        lse_(rows() + 2 * kGuard, kUnwritten) {
    std::mt19937 random(11);
    for (StridedTensor* const one : {&q_, &k_, &v_}) {
      one->for_each([&](std::uint16_t& element, std::size_t) {
        element = random_bits(random, choice_.dtype);
      });
    }
  }

  void run() {
    auto params = this->params<AttentionParams>();
    params.o = o_.data() + kGuard;
    params.lse = choice_.with_lse ? lse_.data() + kGuard : nullptr;
    const long long ctas = reference::cta_count(problem_.batch * problem_.heads_q, problem_.seq_q);
    emulation::run({.grid = static_cast<unsigned>(ctas),
                    .threads = reference::kThreads,
                    .smem_bytes = reference::kSmemBytes,
                    .pace = choice_.pace,
                    .fault = choice_.fault},
                   [&] {
                     reference::attention(
                         {params, choice_.dtype, problem_.causal, problem_.head_dim},
                         reinterpret_cast<float*>(emulation::cta->smem.data()));
                   });
  }

  /// Elements of O and log-sum-exps that differ from fp64.
  int wrong() {
    const emulation::AttentionOutputs expected = exact();
    return wrong(o_, expected.o) + (choice_.with_lse ? wrong(lse_, expected.lse) : 0);
  }

  /// Writes around O and the log-sum-exps, and to those where none were asked for.
  int disturbed() const {
    const auto lse = static_cast<std::size_t>(std::ranges::count(lse_, kUnwritten));
    const std::size_t expected = choice_.with_lse ? 2 * kGuard : lse_.size();
    return (lse == expected ? 0 : 1) + (std::ranges::count(o_, kUnwritten) == 2 * kGuard ? 0 : 1);
  }

 private:
  static constexpr std::size_t kGuard = 4;  ///< O begins at a multiple of 16 bytes.

  static AttentionCase with_value_dim(AttentionCase problem) {
    problem.value_dim = problem.head_dim;
    return problem;
  }
  static int wrong(const std::vector<float>& found, const emulation::Values& exact) {
    int count = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      count += is_near(static_cast<double>(found[kGuard + i]), exact[i], 4e-5) ? 0 : 1;
    }
    return count;
  }

  Choice choice_;
  std::vector<float> o_;
  std::vector<float> lse_;
};

void expect_right(const AttentionCase& problem, const Choice& choice = {}) {
  Attention attention(problem, choice);
  attention.run();
  EXPECT_EQ(attention.wrong(), 0) << ::testing::PrintToString(problem);
  EXPECT_EQ(attention.disturbed(), 0) << ::testing::PrintToString(problem);
}

AttentionCase lengths(int seq_q, int seq_kv, bool causal, int head_dim = 16) {
  return {.seq_q = seq_q, .seq_kv = seq_kv, .head_dim = head_dim, .causal = causal};
}

TEST(EmulatedAttentionReference, IsRightAroundTheBordersOfTiles) {
  for (const int seq_q : {1, 63, 64, 65, 127, 128, 129, 257}) {
    expect_right(lengths(seq_q, 65, false));
    expect_right(lengths(seq_q, 129, true));
  }
  for (const int seq_kv : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 160, 161, 257}) {
    expect_right(lengths(65, seq_kv, false));
    expect_right(lengths(65, seq_kv, true));
  }
}

TEST(EmulatedAttentionReference, IsRightForEveryHeadDim) {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    const bool causal = head_dim % 16 == 0;
    expect_right({.seq_q = 40, .seq_kv = 140, .head_dim = head_dim, .causal = causal, .scale = 0.1},
                 {.dtype = head_dim % 32 == 0 ? DType::bf16 : DType::fp16});
  }
}

TEST(EmulatedAttentionReference, IsRightForLongHeadsOverSeveralTiles) {
  for (const int head_dim : {64, 96, 128, 192, 256}) {
    for (const bool causal : {false, true}) {
      expect_right(
          {.seq_q = 130, .seq_kv = 261, .head_dim = head_dim, .causal = causal, .scale = 0.1},
          {.pace = Pace::last_warp_ahead});
    }
  }
}

TEST(EmulatedAttentionReference, AlignsTheMaskToTheLastRowAndKey) {
  for (const auto& [seq_q, seq_kv] : {std::pair{1, 300},
                                      {129, 300},
                                      {300, 129},
                                      {300, 1},
                                      {257, 128},
                                      {256, 128},
                                      {255, 128},
                                      {128, 128}}) {
    expect_right(lengths(seq_q, seq_kv, true, 24));
  }
}

/// A block without any key, one with some rows without, and log-sum-exps that nobody wants.
TEST(EmulatedAttentionReference, GivesRowsWithoutKeysZeros) {
  expect_right(lengths(400, 17, true, 64));
  expect_right(lengths(400, 17, true, 64), {.with_lse = false});
}

/// Heads of an odd length and stride begin at multiples of 8 bytes although their rows do not.
TEST(EmulatedAttentionReference, IsRightForGroupedHeadsStridesAndAlignments) {
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int alignment_bytes : {2, 4, 8, 16}) {
      for (const DType dtype : {DType::fp16, DType::bf16}) {
        expect_right({.batch = 2,
                      .heads_q = 6,
                      .heads_kv = 2,
                      .seq_q = 21,
                      .seq_kv = 71,
                      .head_dim = 80,
                      .causal = dtype == DType::fp16,
                      .scale = 0.1},
                     {.dtype = dtype, .memory = memory, .alignment_bytes = alignment_bytes});
      }
    }
  }
}

TEST(EmulatedAttentionReference, WarpsWaitForEachOther) {
  const AttentionCase problem{.seq_q = 128, .seq_kv = 256, .head_dim = 144, .scale = 0.1};
  for (const Pace pace : {Pace::together, Pace::first_warp_ahead, Pace::last_warp_ahead}) {
    expect_right(problem, {.pace = pace});
  }
  Attention hurried(problem, {.fault = Fault::barriers_ignored});
  hurried.run();
  EXPECT_GT(hurried.wrong(), 0);
}

class EmulatedAttentionReferenceOf : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  Attention random_inputs() const {
    return Attention({.seq_q = 150, .seq_kv = 170, .head_dim = 64, .causal = causal_},
                     {.dtype = dtype_});
  }
  /// All rows of Q have a 1 in column 3, so that this column of K decides where it is infinite.
  Attention with_ones() const {
    Attention attention = random_inputs();
    for (int row = 0; row < 150; ++row) {
      attention.q().at(0, 0, row, 3) = special_.one;
    }
    return attention;
  }
  static void expect_right(Attention attention) {
    attention.run();
    EXPECT_EQ(attention.wrong(), 0);
  }

  DType dtype_ = std::get<0>(GetParam());
  bool causal_ = std::get<1>(GetParam());
  Special special_ = special(dtype_);
};

TEST_P(EmulatedAttentionReferenceOf, NaNInQReachesItsRow) {
  for (const int row : {0, 70, 149}) {
    Attention attention = random_inputs();
    attention.q().at(0, 0, row, 9) = special_.nan;
    expect_right(std::move(attention));
  }
}

TEST_P(EmulatedAttentionReferenceOf, NaNInKReachesTheRowsThatSeeIt) {
  for (const int key : {0, 100, 169}) {
    Attention attention = random_inputs();
    attention.k().at(0, 0, key, 5) = special_.nan;
    expect_right(std::move(attention));
  }
}

/// Rows that do not see the key but share its tile multiply it by 0.
TEST_P(EmulatedAttentionReferenceOf, WhatIsNotFiniteInVReachesItsColumn) {
  if (causal_) {
    GTEST_SKIP() << "which rows multiply a hidden key by 0 depends on the tile";
  }
  for (const std::uint16_t bits : {special_.nan, special_.plus_infinity, special_.minus_infinity}) {
    Attention attention = random_inputs();
    attention.v().at(0, 0, 100, 7) = bits;
    expect_right(std::move(attention));
  }
}

TEST_P(EmulatedAttentionReferenceOf, ScoresOfMinusInfinityCountAsHidden) {
  for (const auto& [first, last] : {std::pair{0, 0}, {100, 100}, {169, 169}, {0, 127}, {0, 169}}) {
    Attention attention = with_ones();
    for (int key = first; key <= last; ++key) {
      attention.k().at(0, 0, key, 3) = special_.minus_infinity;
    }
    expect_right(std::move(attention));
  }
}

TEST_P(EmulatedAttentionReferenceOf, AScoreOfPlusInfinityMakesItsRowNaN) {
  for (const int key : {0, 100, 169}) {
    Attention attention = with_ones();
    attention.k().at(0, 0, key, 3) = special_.plus_infinity;
    expect_right(std::move(attention));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EmulatedAttentionReferenceOf,
                         ::testing::Combine(::testing::Values(DType::fp16, DType::bf16),
                                            ::testing::Bool()),
                         [](const auto& given) {
                           return std::string(std::get<0>(given.param) == DType::bf16 ? "bf16"
                                                                                      : "fp16") +
                                  (std::get<1>(given.param) ? "_causal" : "");
                         });

}  // namespace
}  // namespace swr
