// SPDX-License-Identifier: MIT
// The kernels beside attention for servers: merging results over different keys, and appending
// keys.
#include "attention_serving/append/append.cuh"
#include "attention_serving/merge/merge.cuh"
#include "operations/attention_serving/launch_plan.h"
#include "tests/emulation/append_problem.h"
#include "tests/emulation/serving_problem.h"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"

namespace swr {
namespace {
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
  MergeStatesParams params;
  params.parts = parts.data();
  params.part_lse = lse.data();
  params.o = o.data();
  params.part_strides = {8, 8, 8};
  params.part_lse_strides = {1, 1, 1};
  params.part_count = 2;
  params.heads = 1;
  params.rows = 1;
  params.head_dim = 8;
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
