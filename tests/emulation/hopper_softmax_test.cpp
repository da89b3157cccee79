// SPDX-License-Identifier: MIT
// The online softmax of the Hopper family, run on the CPU against fp64: with a running maximum, and
// of capped scores, which need none while the cap is low.
#include "attention/hopper/softmax.cuh"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"

namespace swr {
namespace {

constexpr int kRowsOfWarp = 16;
constexpr int kScoreTiles = 3;
constexpr int kScoreTileKeys = 32;
constexpr int kScoreKeys = kScoreTiles * kScoreTileKeys;
constexpr float kHiddenScore = -std::numeric_limits<float>::infinity();

constexpr HopperAttentionConfig softmax_config(bool capped) {
  return {.head_dim = 64,
          .dtype = DType::bf16,
          .causal = false,
          .tile_m = 64,
          .tile_n = kScoreTileKeys,
          .stages = 2,
          .mainloop = Mainloop::overlap_ordered,
          .order = Order::cyclic,
          .persistence = Persistence::persistent,
          .p_operand = POperand::registers,
          .exp2_fma_eighths = 0,
          .unroll = 1,
          .capped_scores = capped};
}

using ScoreRow = std::array<float, kScoreKeys>;

/// Scores between -1 and 1, as a cap leaves them: drawn, all lowest, all highest, rising, partly
/// hidden and wholly.
std::vector<ScoreRow> capped_rows() {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<ScoreRow> rows(kRowsOfWarp);
  for (ScoreRow& row : rows) {
    for (float& score : row) {
      score = uniform(random);
    }
  }
  rows[1].fill(-1.0F);
  rows[2].fill(1.0F);
  for (int key = 0; key < kScoreKeys; ++key) {
    rows[3][static_cast<std::size_t>(key)] = -1.0F + 2.0F * static_cast<float>(key) / kScoreKeys;
  }
  std::fill(rows[9].begin() + 5, rows[9].end(), kHiddenScore);
  std::fill(rows[10].begin(), rows[10].end() - 5, kHiddenScore);
  rows[11].fill(kHiddenScore);
  return rows;
}

struct EndedRow {
  float shift_log2 = 0.0F;
  float sum = 0.0F;
};

/// What a warp makes of the rows, tile after tile.
template <HopperAttentionConfig C>
std::vector<EndedRow> ended_rows(const std::vector<ScoreRow>& rows, float scale_log2) {
  std::vector<EndedRow> ended(kRowsOfWarp);
  emulation::run({.grid = 1, .threads = 32}, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    hopper::Softmax<C> softmax(scale_log2);
    for (int tile = 0; tile < kScoreTiles; ++tile) {
      hopper::Scores<C> scores;
      for (int i = 0; i < kScoreTileKeys / 2; ++i) {
        const int row = lane / 4 + i / 2 % 2 * 8;
        const int key = tile * kScoreTileKeys + i / 4 * 8 + lane % 4 * 2 + i % 2;
        scores[i] = rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(key)];
      }
      softmax.raise_maximum(scores);
      softmax.exponentiate(scores);
    }
    for (int half = 0; half < 2; ++half) {
      ended[static_cast<std::size_t>(lane / 4 + 8 * half)] = {softmax.shift_log2(half),
                                                              softmax.sum(half)};
    }
  });
  return ended;
}

template <HopperAttentionConfig C>
void expect_right_sums(float scale_log2) {
  const std::vector<ScoreRow> rows = capped_rows();
  const std::vector<EndedRow> ended = ended_rows<C>(rows, scale_log2);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const float top = *std::max_element(rows[row].begin(), rows[row].end());
    if (top == kHiddenScore) {
      EXPECT_EQ(ended[row].sum, 0.0F) << row;
      EXPECT_LT(ended[row].shift_log2, -1e38F) << row << ": lower than any sink";
      continue;
    }
    const double scale = scale_log2;
    double sum = 0.0;
    for (const float score : rows[row]) {
      sum += std::exp2((static_cast<double>(score) - top) * scale);
    }
    EXPECT_NEAR(ended[row].shift_log2 + std::log2(static_cast<double>(ended[row].sum)),
                top * scale + std::log2(sum), 1e-4)
        << row;
  }
}

TEST(HopperSoftmax, KeepsAMaximumOfAnyScores) {
  expect_right_sums<softmax_config(false)>(2.0F);
  expect_right_sums<softmax_config(false)>(700.0F);
}

TEST(HopperSoftmax, KeepsNoneOfScoresUnderALowCap) {
  expect_right_sums<softmax_config(true)>(2.0F);
  expect_right_sums<softmax_config(true)>(72.1F);  // Gemma's cap of 50.
  expect_right_sums<softmax_config(true)>(700.0F);
  const std::vector<EndedRow> ended = ended_rows<softmax_config(true)>(capped_rows(), 72.1F);
  EXPECT_EQ(ended[1].shift_log2, 0.0F);
  EXPECT_EQ(ended[2].shift_log2, 0.0F);
}

}  // namespace
}  // namespace swr
