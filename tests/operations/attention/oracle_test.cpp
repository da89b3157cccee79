// SPDX-License-Identifier: MIT
#include "tests/support/attention_oracle.h"
#include <swr/attention_problem.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swr {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::NanSensitiveDoubleEq;

/// Tensor whose row r holds the value r in every column.
std::vector<double> row_numbers(int rows, int head_dim) {
  std::vector<double> tensor;
  for (int row = 0; row < rows; ++row) {
    tensor.insert(tensor.end(), static_cast<std::size_t>(head_dim), row);
  }
  return tensor;
}

std::vector<double> constant(int rows, int head_dim, double value) {
  return std::vector<double>(static_cast<std::size_t>(rows * head_dim), value);
}

TEST(AttentionOracle, AveragesValuesWhenAllScoresAreEqual) {
  const AttentionProblem problem{.seq_q = 2, .seq_kv = 5, .head_dim = 16};
  const OracleOutputs outputs =
      attention_oracle(problem, {constant(2, 16, 0.0), constant(5, 16, 3.0), row_numbers(5, 16)});
  EXPECT_THAT(outputs.o, Each(DoubleNear(2.0, 1e-12)));
  EXPECT_THAT(outputs.lse, Each(DoubleEq(std::log(5.0))));
}

TEST(AttentionOracle, ScalesByTheRootOfHeadDim) {
  // Scores 16 * 0.5 * {0, 1} / 4 = {0, 2}.
  const AttentionProblem problem{.seq_q = 1, .seq_kv = 2, .head_dim = 16};
  const OracleOutputs outputs =
      attention_oracle(problem, {constant(1, 16, 0.5), row_numbers(2, 16), row_numbers(2, 16)});
  EXPECT_NEAR(outputs.lse[0], std::log(1.0 + std::exp(2.0)), 1e-12);
  EXPECT_NEAR(outputs.o[0], std::exp(2.0) / (1.0 + std::exp(2.0)), 1e-12);
}

TEST(AttentionOracle, AlignsTheCausalMaskToTheBottomRight) {
  const AttentionProblem problem{.seq_q = 2, .seq_kv = 3, .head_dim = 16, .causal = true};
  const OracleOutputs outputs =
      attention_oracle(problem, {constant(2, 16, 0.0), constant(3, 16, 1.0), row_numbers(3, 16)});
  EXPECT_NEAR(outputs.o[0], 0.5, 1e-12);
  EXPECT_NEAR(outputs.o[16], 1.0, 1e-12);
}

TEST(AttentionOracle, GivesZeroToRowsThatSeeNoKey) {
  const AttentionProblem problem{.seq_q = 3, .seq_kv = 1, .head_dim = 16, .causal = true};
  const OracleOutputs outputs =
      attention_oracle(problem, {constant(3, 16, 1.0), constant(1, 16, 1.0), constant(1, 16, 7.0)});
  EXPECT_EQ(outputs.o[0], 0.0);
  EXPECT_EQ(outputs.lse[1], -std::numeric_limits<double>::infinity());
  EXPECT_NEAR(outputs.o[2 * 16], 7.0, 1e-12);
}

TEST(AttentionOracle, SharesKeysAndValuesWithinAGroupOfHeads) {
  const AttentionProblem problem{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 1, .seq_kv = 1, .head_dim = 16};
  const OracleOutputs outputs =
      attention_oracle(problem, {constant(8, 16, 0.0), constant(4, 16, 0.0), row_numbers(4, 16)});
  for (int head = 0; head < 8; ++head) {
    EXPECT_EQ(outputs.o[static_cast<std::size_t>(head) * 16], head / 2);
  }
}

TEST(AttentionOracle, TreatsInfiniteAndNaNScoresAsASafeSoftmax) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const AttentionProblem problem{.seq_q = 1, .seq_kv = 3, .head_dim = 16};
  const auto with_keys = [&](double first, double second) {
    std::vector<double> k = constant(3, 16, 1.0);
    k[0] = first;
    k[16] = second;
    k[32] = second;
    return attention_oracle(problem, {constant(1, 16, 1.0), k, row_numbers(3, 16)});
  };
  EXPECT_THAT(with_keys(-kInfinity, 1.0).o, Each(DoubleNear(1.5, 1e-12)));
  EXPECT_THAT(with_keys(-kInfinity, -kInfinity).o, Each(0.0));
  EXPECT_EQ(with_keys(-kInfinity, -kInfinity).lse[0], -kInfinity);
  EXPECT_THAT(with_keys(kInfinity, 1.0).o, Each(NanSensitiveDoubleEq(std::nan(""))));
  EXPECT_THAT(with_keys(std::nan(""), 1.0).o, Each(NanSensitiveDoubleEq(std::nan(""))));
}

TEST(DecodeElement, ReadsBothTypes) {
  EXPECT_EQ(decode_element(DType::fp16, 0x3c00), 1.0);
  EXPECT_EQ(decode_element(DType::fp16, 0xc500), -5.0);
  EXPECT_EQ(decode_element(DType::fp16, 0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(decode_element(DType::fp16, 0x7bff), 65504.0);
  EXPECT_EQ(decode_element(DType::fp16, 0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(decode_element(DType::fp16, 0xffff)));
  EXPECT_EQ(decode_element(DType::bf16, 0x3f80), 1.0);
  EXPECT_EQ(decode_element(DType::bf16, 0xc0a0), -5.0);
  EXPECT_TRUE(std::isnan(decode_element(DType::bf16, 0xffff)));
}

}  // namespace
}  // namespace swr
