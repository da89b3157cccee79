// SPDX-License-Identifier: MIT
// Attention backward from C: what reaches the kernels, and what C programs can get wrong.
#include "driver/cuda_driver.h"
#include "tests/capi/c_runtime_test.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include <swr/attention_backward_variant.h>
#include <swr/kernel.h>
#include <swr/swr_backward_c.h>

namespace swr {
namespace {

const AttentionBackwardProblem kProblem{.batch = 2,
                                        .heads_q = 8,
                                        .heads_kv = 2,
                                        .seq_q = 512,
                                        .seq_kv = 640,
                                        .head_dim = 192,
                                        .head_dim_v = 128,
                                        .dtype = DType::bf16,
                                        .causal = true,
                                        .deterministic = true};
const AttentionBackwardVariant kVariant{.form = BackwardForm::two_pass,
                                        .dq_sum = DqSum::none,
                                        .tile_m = 32,
                                        .tile_n = 32,
                                        .column_groups = 2};

class BackwardCApiTest : public CRuntimeTest {
 protected:
  void SetUp() override {
    record(kProblem, kVariant, 10.0);
    create_runtime();
  }

  /// Tensors [batch, seq, heads, columns], as projections leave them.
  static swr_attention_backward call() {
    swr_attention_backward call{};
    call.size = sizeof call;
    call.q = at(1);
    call.k = at(2);
    call.v = at(3);
    call.o = at(4);
    call.d_o = at(5);
    call.lse = at<float>(6);
    call.dq = at(7);
    call.dk = at(8);
    call.dv = at(9);
    call.q_strides = call.dq_strides = {512 * 8 * 192, 192, 8 * 192};
    call.o_strides = call.d_o_strides = {512 * 8 * 128, 128, 8 * 128};
    call.k_strides = call.dk_strides = {640 * 2 * 192, 192, 2 * 192};
    call.v_strides = call.dv_strides = {640 * 2 * 128, 128, 2 * 128};
    call.batch = 2;
    call.heads_q = 8;
    call.heads_kv = 2;
    call.seq_q = 512;
    call.seq_kv = 640;
    call.head_dim = 192;
    call.head_dim_v = 128;
    call.dtype = SWR_BF16;
    call.causal = 1;
    call.deterministic = 1;
    return call;
  }

  /// The call with a fault in it is refused with a message that has `text`.
  void refuses(const std::function<void(swr_attention_backward&)>& spoil, const char* text) {
    swr_attention_backward spoiled = call();
    spoil(spoiled);
    EXPECT_EQ(swr_runtime_attention_backward(runtime_, &spoiled, nullptr), SWR_INVALID_ARGUMENT)
        << text;
    EXPECT_THAT(swr_last_error(), HasSubstr(text));
  }

  PrimaryContext context_{0};
};

TEST_F(BackwardCApiTest, EveryFieldReachesTheKernels) {
  swr_attention_backward one = call();
  std::int64_t bytes = 0;
  ASSERT_EQ(swr_runtime_prepare_backward(runtime_, &one, &bytes), SWR_OK) << swr_last_error();
  EXPECT_EQ(bytes, launch_geometry(kProblem, kVariant, 1, 1).partials_bytes);
  one.d_lse = at<float>(10);
  one.scale = 0.25F;
  one.workspace = at(11);
  one.workspace_bytes = bytes;
  const long long before = fake_launches();
  ASSERT_EQ(swr_runtime_attention_backward(runtime_, &one, nullptr), SWR_OK) << swr_last_error();
  EXPECT_EQ(fake_launches() - before, 2);
  const AttentionBackwardParams& launched = *fake_last_backward();
  const std::vector<const void*> tensors{
      launched.q,  launched.k,  launched.v,  launched.o,     launched.d_o,      launched.lse,
      launched.dq, launched.dk, launched.dv, launched.d_lse, launched.row_stats};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i], at(i + 1)) << i;
  }
  EXPECT_EQ(launched.q_strides.seq, 8 * 192);
  EXPECT_EQ(launched.d_o_strides.seq, 8 * 128);
  EXPECT_EQ(launched.dk_strides.head, 192);
  EXPECT_EQ(launched.dv_strides.batch, 640 * 2 * 128);
  EXPECT_FLOAT_EQ(launched.scale, 0.25F);
  EXPECT_FLOAT_EQ(launched.scale_log2, 0.25F * 1.44269504F);
  EXPECT_EQ(launched.seq_kv, 640);
}

TEST_F(BackwardCApiTest, TheSizeIsKnownBeforeTheTensorsAre) {
  swr_attention_backward sizes = call();
  sizes.q = sizes.k = sizes.v = sizes.o = sizes.d_o = nullptr;
  sizes.dq = sizes.dk = sizes.dv = nullptr;
  sizes.lse = nullptr;
  std::int64_t bytes = 0;
  ASSERT_EQ(swr_runtime_prepare_backward(runtime_, &sizes, &bytes), SWR_OK) << swr_last_error();
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(swr_runtime_prepare_backward(runtime_, &sizes, nullptr), SWR_OK);
}

TEST_F(BackwardCApiTest, RefusesWhatNobodyCanServe) {
  refuses([](auto& a) { a.size = 8; }, "set its field size to sizeof(swr_attention_backward)");
  refuses([](auto& a) { a.dtype = SWR_FP32; }, "dtype must be SWR_FP16 or SWR_BF16");
  refuses([](auto& a) { a.scale = -1.0F; }, "scale must be positive");
  refuses([](auto& a) { a.heads_kv = 3; }, "must be a multiple of kv-heads");
  refuses([](auto& a) { a.head_dim = 144; }, "head-dim must be a multiple of 32");
  refuses([](auto& a) { a.lse = nullptr; }, "log-sum-exps that forward wrote");
  refuses([](auto& a) { a.dv = nullptr; }, "the tensor dV has no memory");
  refuses(
      [](auto& a) {
        a.workspace = at(11);
        a.workspace_bytes = 16;
      },
      "the workspace has 16 bytes");
  EXPECT_EQ(swr_runtime_attention_backward(runtime_, nullptr, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_EQ(swr_runtime_prepare_backward(nullptr, nullptr, nullptr), SWR_INVALID_ARGUMENT);
}

/// A program of a newer header than the library's.
TEST_F(BackwardCApiTest, UnknownFieldsMustBeZero) {
  struct Newer {
    swr_attention_backward known;
    std::uint64_t added;
  };
  Newer newer{call(), 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(swr_runtime_attention_backward(runtime_, &newer.known, nullptr), SWR_OK);
  newer.added = 1;
  EXPECT_EQ(swr_runtime_attention_backward(runtime_, &newer.known, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("fields that this libswr.so does not know"));
}

}  // namespace
}  // namespace swr
