// SPDX-License-Identifier: MIT
#include "tests/db/fixtures.h"
#include <swr/attention_problem.h>
#include <swr/runtime.h>

namespace swr {
namespace {

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
