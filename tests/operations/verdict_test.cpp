// SPDX-License-Identifier: MIT
#include "operations/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swr {
namespace {

using reference::Comparison;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Verdict, AcceptsRoundingAndReportsTheError) {
  const Verdict verdict =
      judge(Comparison{.error_squared = 1e-6, .reference_squared = 4.0}, DType::fp16);
  EXPECT_EQ(verdict.failure, "");
  EXPECT_DOUBLE_EQ(verdict.relative_error, 5e-4);
}

TEST(Verdict, HoldsBf16ToAWiderLimitThanFp16) {
  const Comparison comparison{.error_squared = 2.5e-5, .reference_squared = 1.0};
  EXPECT_NE(judge(comparison, DType::fp16).failure, "");
  EXPECT_EQ(judge(comparison, DType::bf16).failure, "");
}

TEST(Verdict, NeverAcceptsNaN) {
  EXPECT_NE(judge(Comparison{.error_squared = kNaN, .reference_squared = 1.0}, DType::bf16).failure,
            "");
  EXPECT_EQ(judge(Comparison{.error_squared = kNaN}, DType::bf16).relative_error, kInfinity);
  EXPECT_NE(judge(Comparison{.worst_row_error = kNaN}, DType::bf16).failure, "");
  EXPECT_NE(judge(Comparison{.worst_lse_error = kNaN}, DType::bf16).failure, "");
}

TEST(Verdict, RejectsAWrongRowThatTheTotalHides) {
  const Comparison comparison{
      .error_squared = 1e-6, .reference_squared = 1.0, .worst_row_error = 1.4};
  EXPECT_NE(judge(comparison, DType::fp16).failure.find("worst row"), std::string::npos);
}

TEST(Verdict, RejectsAnyOutputWhereNoneBelongs) {
  EXPECT_NE(judge(Comparison{.error_squared = 1e-9, .reference_squared = 0.0}, DType::fp16).failure,
            "");
  EXPECT_EQ(judge(Comparison{}, DType::fp16).failure, "");
}

TEST(Verdict, RejectsAnInfiniteLogSumExpError) {
  EXPECT_NE(judge(Comparison{.worst_lse_error = kInfinity}, DType::fp16).failure, "");
}

TEST(Verdict, RejectsStrayWrites) {
  const Verdict verdict = judge(Comparison{.disturbed_words = 12}, DType::fp16);
  EXPECT_NE(verdict.failure.find("12 16-bit words"), std::string::npos) << verdict.failure;
}

}  // namespace
}  // namespace swr
