// SPDX-License-Identifier: MIT
#include <swr/attention_problem.h>
#include <swr/error.h>
#include <swr/problem.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace swr {
namespace {

AttentionProblem valid_problem() {
  return {.batch = 1, .heads_q = 8, .heads_kv = 2, .seq_q = 100, .seq_kv = 200, .head_dim = 80};
}

std::string rejection(const std::function<void(AttentionProblem&)>& change) {
  AttentionProblem problem = valid_problem();
  change(problem);
  try {
    validate(problem);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Problem, ValidatesWhatKernelsSupport) {
  EXPECT_EQ(rejection([](auto&) {}), "");
  EXPECT_EQ(rejection([](auto& p) { p.seq_q = 0; }), "seq must be at least 1, not 0");
  EXPECT_EQ(rejection([](auto& p) { p.head_dim = 63; }),
            "head-dim must be a multiple of 16 from 16 to 256, not 63");
  EXPECT_EQ(rejection([](auto& p) { p.head_dim = 272; }),
            "head-dim must be a multiple of 16 from 16 to 256, not 272");
  EXPECT_EQ(rejection([](auto& p) { p.heads_kv = 3; }),
            "heads (8) must be a multiple of kv-heads (3)");
  EXPECT_EQ(rejection([](auto& p) { p.alignment_bytes = 3; }),
            "alignment must be 2, 4, 8 or 16 bytes, not 3");
  EXPECT_NE(rejection([](auto& p) { p.seq_kv = 1 << 30; }), "");
  EXPECT_NE(rejection([](auto& p) { p.batch = 1 << 30; }), "");
}

double counted_flops(const AttentionProblem& problem) {
  long long visible = 0;
  for (int row = 0; row < problem.seq_q; ++row) {
    const int last_key = problem.causal ? row + problem.seq_kv - problem.seq_q : problem.seq_kv;
    visible += std::clamp(last_key + (problem.causal ? 1 : 0), 0, problem.seq_kv);
  }
  return 4.0 * problem.batch * problem.heads_q * problem.head_dim * static_cast<double>(visible);
}

TEST(Problem, FlopCountLeavesOutWhatTheMaskHides) {
  for (const bool causal : {false, true}) {
    for (const int seq_q : {1, 50, 100, 300}) {
      AttentionProblem problem = valid_problem();
      problem.causal = causal;
      problem.seq_q = seq_q;
      EXPECT_DOUBLE_EQ(flop_count(problem), counted_flops(problem)) << seq_q << causal;
    }
  }
}

TEST(Problem, CompulsoryBytesCountEachTensorOnce) {
  const CompulsoryBytes bytes = compulsory_bytes(valid_problem());
  EXPECT_EQ(bytes.write, 8 * 100 * 80 * 2);
  EXPECT_EQ(bytes.read, 8 * 100 * 80 * 2 + 2 * (2 * 200 * 80 * 2));
}

TEST(Problem, PrintsOnOneLine) {
  EXPECT_EQ(to_string(valid_problem()), "attention b1 h8/2 s100/200 d80 fp16");
}

}  // namespace
}  // namespace swr
