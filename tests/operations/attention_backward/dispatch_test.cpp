// SPDX-License-Identifier: MIT
// Attention backward as programs use it: several launches a call, in memory of the caller's or the
// runtime's. The driver is a fake one.
#include "driver/cuda_driver.h"
#include "operations/attention_backward/parts.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"

namespace swr {
namespace {

const AttentionBackwardProblem kTraining{.batch = 2,
                                         .heads_q = 8,
                                         .heads_kv = 2,
                                         .seq_q = 1024,
                                         .seq_kv = 1024,
                                         .head_dim = 128,
                                         .head_dim_v = 128,
                                         .dtype = DType::bf16,
                                         .causal = true};
const AttentionBackwardVariant kAtomic{.tile_m = 32, .tile_n = 128, .warps = 8, .wide_adds = true};
const AttentionBackwardVariant kTwoPass{
    .form = BackwardForm::two_pass, .dq_sum = DqSum::none, .tile_m = 32, .tile_n = 64};

/// Without sums of dQ, whose tiles exceed the shared memory of the fake device.
const AttentionBackwardVariant kHopper{.family = Family::hopper,
                                       .form = BackwardForm::two_pass,
                                       .dq_sum = DqSum::none,
                                       .tile_m = 128,
                                       .tile_n = 128,
                                       .warps = 8,
                                       .stages = 2};

void* somewhere(int place) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(place + 1) << 20U);
}

class AttentionBackwardDispatch : public ServingTest {
 protected:
  void SetUp() override {
    record(kTraining, kAtomic, 300.0);
    AttentionBackwardProblem deterministic = kTraining;
    deterministic.deterministic = true;
    record(deterministic, kTwoPass, 400.0);
    record(narrow(), kHopper, 100.0);
    options_.database = database_;
    options_.exported = export_all();
    options_.may_compile = false;
  }

  static AttentionBackwardCall call_of(const AttentionBackwardProblem& problem) {
    AttentionBackwardCall call{.head_dim = problem.head_dim,
                               .head_dim_v = problem.head_dim_v,
                               .dtype = problem.dtype,
                               .causal = problem.causal,
                               .deterministic = problem.deterministic};
    AttentionBackwardParams& p = call.params;
    p.q = somewhere(0);
    p.k = somewhere(1);
    p.v = somewhere(2);
    p.o = somewhere(3);
    p.d_o = somewhere(4);
    p.lse = static_cast<const float*>(somewhere(5));
    p.dq = somewhere(6);
    p.dk = somewhere(7);
    p.dv = somewhere(8);
    p.batch = problem.batch;
    p.heads_q = problem.heads_q;
    p.heads_kv = problem.heads_kv;
    p.seq_q = problem.seq_q;
    p.seq_kv = problem.seq_kv;
    const auto strides = [](int heads, int seq, int columns) {
      return TensorStrides{1LL * heads * seq * columns, 1LL * seq * columns, columns};
    };
    p.q_strides = p.dq_strides = strides(p.heads_q, p.seq_q, problem.head_dim);
    p.o_strides = p.d_o_strides = strides(p.heads_q, p.seq_q, problem.head_dim_v);
    p.k_strides = p.dk_strides = strides(p.heads_kv, p.seq_kv, problem.head_dim);
    p.v_strides = p.dv_strides = strides(p.heads_kv, p.seq_kv, problem.head_dim_v);
    return call;
  }
  static AttentionBackwardProblem narrow() {
    AttentionBackwardProblem problem = kTraining;
    problem.head_dim = problem.head_dim_v = 64;
    return problem;
  }
  static AttentionBackwardProblem deterministic() {
    AttentionBackwardProblem problem = kTraining;
    problem.deterministic = true;
    return problem;
  }

  RuntimeOptions options_;
  PrimaryContext context_{0};
};

TEST_F(AttentionBackwardDispatch, ACallLaunchesTheKernelsOfItsForm) {
  Runtime runtime(options_);
  long long before = fake_launches();
  runtime.attention_backward(call_of(kTraining), nullptr);
  EXPECT_EQ(fake_launches() - before, 3) << "prepare, the pass, finish";
  const AttentionBackwardParams launched = *fake_last_backward();
  EXPECT_FLOAT_EQ(launched.scale, 0.0883883476F);  // 1 / sqrt(128).
  EXPECT_FLOAT_EQ(launched.scale_log2, 0.127517432F);
  EXPECT_NE(launched.row_stats, nullptr);
  EXPECT_EQ(launched.parts, 1);
  EXPECT_EQ(launched.row_pitch, 1024);

  before = fake_launches();
  runtime.attention_backward(call_of(deterministic()), nullptr);
  EXPECT_EQ(fake_launches() - before, 2) << "a pass over Q tiles, one over K and V tiles";
  EXPECT_EQ(fake_last_launch().block_x, 128U);
  EXPECT_NE(fake_last_overlaps(), 0);
}

TEST_F(AttentionBackwardDispatch, HopperKernelsTakeMapsOfSixTensors) {
  Runtime runtime(options_);
  const long long launches = fake_launches();
  const long long maps = fake_tensor_maps();
  const long long replaced = fake_replaced_addresses();
  const auto made = [&] {
    return fake_tensor_maps() - maps + fake_replaced_addresses() - replaced;
  };
  runtime.attention_backward(call_of(narrow()), nullptr);
  EXPECT_EQ(fake_launches() - launches, 2);
  EXPECT_EQ(fake_last_launch().block_x, 384U);
  EXPECT_EQ(made(), 6);
  runtime.attention_backward(call_of(narrow()), nullptr);
  EXPECT_EQ(made(), 6) << "they are kept";
}

TEST_F(AttentionBackwardDispatch, AlignmentIsThatOfEveryTensor) {
  AttentionBackwardCall call = call_of(kTraining);
  EXPECT_EQ(problem_of(call), kTraining);
  call.params.dv = static_cast<char*>(call.params.dv) + 4;
  EXPECT_EQ(problem_of(call).alignment_bytes, 4);
  call = call_of(kTraining);
  call.params.d_o_strides.seq = 129;
  EXPECT_EQ(problem_of(call).alignment_bytes, 2);
}

}  // namespace
}  // namespace swr
