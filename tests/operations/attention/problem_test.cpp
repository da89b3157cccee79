// SPDX-License-Identifier: MIT
#include "operations/attention/buffers.h"
#include "tests/db/fixtures.h"
#include <swr/attention_problem.h>
#include <swr/problem.h>
#include <swr/runtime.h>

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

constexpr TensorShape kShape{.batch = 3, .heads = 4, .seq = 5, .head_dim = 32};

TEST(TensorLayout, IsDenseAtFullAlignment) {
  const TensorLayout layout = make_layout(kShape, 16, MemoryOrder::bhsd);
  EXPECT_EQ(layout.strides.seq, 32);
  EXPECT_EQ(layout.strides.head, 5 * 32);
  EXPECT_EQ(layout.strides.batch, 4 * 5 * 32);
  EXPECT_EQ(layout.span_elements, 3 * 4 * 5 * 32);
}

TEST(TensorLayout, InterleavesHeadsInSequenceMajorOrder) {
  const TensorLayout layout = make_layout(kShape, 16, MemoryOrder::bshd);
  EXPECT_EQ(layout.strides.head, 32);
  EXPECT_EQ(layout.strides.seq, 4 * 32);
  EXPECT_EQ(layout.strides.batch, 5 * 4 * 32);
  EXPECT_EQ(layout.span_elements, 3 * 4 * 5 * 32);
}

TEST(TensorLayout, HasExactlyTheAlignmentAskedFor) {
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int alignment : {2, 4, 8}) {
      const TensorStrides strides = make_layout(kShape, alignment, order).strides;
      const long long common =
          2 * std::gcd(std::gcd(strides.batch, strides.head), std::gcd(strides.seq, 8LL));
      EXPECT_EQ(common, alignment);
    }
  }
}

template <typename Pointer>
Pointer at(std::uintptr_t address) {
  return reinterpret_cast<Pointer>(address);
}

/// Contiguous tensors at multiples of 4096.
AttentionCall contiguous_call() {
  AttentionCall call{.head_dim = 64};
  AttentionParams& p = call.params;
  p.q = at<const void*>(4096);
  p.k = at<const void*>(8192);
  p.v = at<const void*>(12288);
  p.o = at<void*>(16384);
  p.batch = 2;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seq_q = 100;
  p.seq_kv = 200;
  p.q_strides = p.o_strides = {4 * 100 * 64, 100 * 64, 64};
  p.k_strides = p.v_strides = {2 * 200 * 64, 200 * 64, 64};
  return call;
}

TEST(AttentionCall, PosesTheProblemOfItsTensors) {
  AttentionCall call = contiguous_call();
  call.causal = true;
  call.dtype = DType::bf16;
  const AttentionProblem expected{.batch = 2,
                                  .heads_q = 4,
                                  .heads_kv = 2,
                                  .seq_q = 100,
                                  .seq_kv = 200,
                                  .head_dim = 64,
                                  .dtype = DType::bf16,
                                  .causal = true,
                                  .alignment_bytes = 16};
  EXPECT_EQ(problem_of(call), expected);
}

TEST(AttentionCall, AlignmentIsThatOfTheWorstPointerOrStride) {
  AttentionCall call = contiguous_call();
  call.params.k = at<const void*>(8192 + 8);
  EXPECT_EQ(problem_of(call).alignment_bytes, 8);
  call.params.v_strides.seq = 66;
  EXPECT_EQ(problem_of(call).alignment_bytes, 4);
  call.params.o_strides.batch += 1;
  EXPECT_EQ(problem_of(call).alignment_bytes, 2);
}

TEST(AttentionCall, StridesOfSingleElementsDoNotMatter) {
  AttentionCall call = contiguous_call();
  call.params.batch = 1;
  for (TensorStrides* strides : {&call.params.q_strides, &call.params.k_strides,
                                 &call.params.v_strides, &call.params.o_strides}) {
    strides->batch = 1;
  }
  EXPECT_EQ(problem_of(call).alignment_bytes, 16);
}

TEST(AttentionCall, WhatNoKernelCanServeIsRefused) {
  const auto refusal = [](const AttentionCall& call) {
    const Error error = error_of([&] { (void)problem_of(call); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return std::string(error.what());
  };
  AttentionCall call = contiguous_call();
  call.params.v = nullptr;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("tensor V"));
  call = contiguous_call();
  call.params.q = at<const void*>(4097);
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("multiples of 2 bytes"));
  call = contiguous_call();
  call.head_dim = 40;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("head-dim"));
  call = contiguous_call();
  call.params.seq_kv = 0;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("seq-kv"));
  call = contiguous_call();
  call.params.heads_kv = 3;
  EXPECT_THAT(refusal(call), ::testing::HasSubstr("multiple"));
}

}  // namespace
}  // namespace swr
