// SPDX-License-Identifier: MIT
// Attention as servers call it, from C: what reaches the kernel, and what C programs can get wrong.
#include "driver/cuda_driver.h"
#include "operations/attention_serving/serving_attention.h"
#include "tests/capi/c_runtime_test.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include <swr/swr_serving_c.h>

namespace swr {
namespace {

class ServingCApiTest : public CRuntimeTest {
 protected:
  void SetUp() override {
    ServingAttentionProblem problem{.batch = 4,
                                    .heads_q = 8,
                                    .heads_kv = 2,
                                    .seq_q = 1,
                                    .seq_kv = 4096,
                                    .head_dim = 64,
                                    .head_dim_v = 64,
                                    .dtype = DType::bf16};
    const ServingAttentionVariant variant{.pack_gqa = true};
    record(problem, variant, 10.0);
    problem.mask = ServingMask::window;
    problem.window = 127;
    problem.softcap = Softcap::approximate;
    problem.sinks = true;
    record(problem, variant, 10.0);
    create_runtime();
  }

  /// Decoding from pages of 16 rows, all heads of a row together.
  static swr_serving_attention call() {
    swr_serving_attention call{};
    call.size = sizeof call;
    call.q = at(1);
    call.k = at(2);
    call.v = at(3);
    call.o = at(4);
    call.q_strides = call.o_strides = {0, 64, 8 * 64};
    call.k_strides = call.v_strides = {16 * 2 * 64, 64, 2 * 64};
    call.batch = 4;
    call.heads_q = 8;
    call.heads_kv = 2;
    call.head_dim = 64;
    call.dtype = SWR_BF16;
    call.max_seq_q = 1;
    call.max_seq_kv = 4096;
    call.total_q = 4;
    call.cu_seqlens_q = at<std::int32_t>(5);
    call.seqused_k = at<std::int32_t>(6);
    call.page_table = at<std::int32_t>(7);
    call.page_table_stride = call.pages_per_sequence = 256;
    call.page_size = 16;
    call.mask = SWR_MASK_CAUSAL;
    return call;
  }

  /// The call with a fault in it is refused with a message that has `text`.
  void refuses(const std::function<void(swr_serving_attention&)>& spoil, const char* text) {
    swr_serving_attention spoiled = call();
    spoil(spoiled);
    EXPECT_EQ(swr_runtime_serving_attention(runtime_, &spoiled, nullptr), SWR_INVALID_ARGUMENT)
        << text;
    EXPECT_THAT(swr_last_error(), HasSubstr(text));
  }

  PrimaryContext context_{0};
};

TEST_F(ServingCApiTest, EveryFieldReachesTheKernel) {
  swr_serving_attention one = call();
  one.lse = at<float>(8);
  one.lse_strides = {0, 4, 1};
  one.lse_in_base_2 = 1;
  one.lengths_are_ready = 1;
  ASSERT_EQ(swr_runtime_serving_attention(runtime_, &one, nullptr), SWR_OK) << swr_last_error();
  ServingAttentionParams launched = *fake_last_serving();
  EXPECT_EQ(launched.q, at(1));
  EXPECT_EQ(launched.o, at(4));
  EXPECT_EQ(launched.lse, at(8));
  EXPECT_EQ(launched.lse_unit, 1.0F);
  EXPECT_EQ(launched.k_strides.batch, 16 * 2 * 64);
  EXPECT_EQ(launched.lengths.seqused_k, at(6));
  EXPECT_EQ(launched.pages.table, at(7));
  EXPECT_EQ(launched.pages.page_size, 16);
  EXPECT_TRUE(launched.lengths_are_ready);
  EXPECT_FLOAT_EQ(launched.scale_log2, std::log2(std::exp(1.0F)) / 8.0F);

  one.mask = SWR_MASK_WINDOW;
  one.window_left = 127;
  one.softcap = 50.0F;
  one.sinks = at(9);
  one.sink_dtype = SWR_BF16;
  ASSERT_EQ(swr_runtime_serving_attention(runtime_, &one, nullptr), SWR_OK) << swr_last_error();
  launched = *fake_last_serving();
  EXPECT_EQ(launched.window.left, 127);
  EXPECT_EQ(launched.window.right, 0);
  EXPECT_FLOAT_EQ(launched.softcap_scale, 0.125F / 50.0F);
  EXPECT_FLOAT_EQ(launched.scale_log2, 50.0F * std::log2(std::exp(1.0F)));
  EXPECT_EQ(launched.sinks, at(9));
  EXPECT_EQ(launched.sink_type, SinkType::bf16);
}

TEST_F(ServingCApiTest, AWorkspaceOfTheSizeThatIsSaidServes) {
  swr_serving_attention one = call();
  one.q = one.k = one.v = nullptr;
  std::int64_t bytes = 0;
  ASSERT_EQ(swr_runtime_prepare_serving(runtime_, &one, &bytes), SWR_OK) << swr_last_error();
  EXPECT_GT(bytes, SWR_WORKSPACE_ZEROED);
  EXPECT_EQ(swr_runtime_prepare_serving(runtime_, &one, nullptr), SWR_OK);
  one = call();
  one.workspace = at(100);
  one.workspace_bytes = bytes;
  ASSERT_EQ(swr_runtime_serving_attention(runtime_, &one, nullptr), SWR_OK) << swr_last_error();
  EXPECT_EQ(fake_last_serving()->arrivals, at(100));
  one.workspace_bytes = bytes - 1;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &one, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("ask again how many"));
  one.workspace_bytes = bytes;
  one.workspace = static_cast<char*>(at(100)) + 16;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &one, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("multiple of 256"));
}

TEST_F(ServingCApiTest, OlderAndNewerStructuresAreTold) {
  refuses([](auto& c) { c.size = 0; }, "set its field size to sizeof(swr_serving_attention)");
  refuses([](auto& c) { c.size = sizeof c - 8; }, "set its field size");
  refuses([](auto& c) { c.size = 1U << 20U; }, "set its field size");
  struct Newer {
    swr_serving_attention known;
    std::int64_t unknown;
  } newer{call(), 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &newer.known, nullptr), SWR_OK)
      << swr_last_error();
  newer.unknown = 1;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &newer.known, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("does not know"));
}

TEST_F(ServingCApiTest, EveryBadArgumentIsOneClearError) {
  const float infinity = std::numeric_limits<float>::infinity();
  refuses([](auto& c) { c.q = nullptr; }, "the tensor q has no memory");
  refuses([](auto& c) { c.o = static_cast<char*>(c.o) + 2; }, "address of o must be a multiple");
  refuses([](auto& c) { c.k_strides.seq = 129; }, "stride of k from row to row");
  refuses([](auto& c) { c.q_strides.head = 63; }, "stride of q from head to head");
  refuses([](auto& c) { c.batch = -1; }, "batch must be 0 to");
  refuses([](auto& c) { c.heads_kv = 3; }, "multiple of kv-heads");
  refuses([](auto& c) { c.heads_q = -8; }, "heads_q must be 1 to");
  refuses([](auto& c) { c.head_dim = 72; }, "multiple of 16 from 16 to 256, not 72");
  refuses([](auto& c) { c.head_dim_v = 512; }, "head-dim-v must be");
  refuses([](auto& c) { c.dtype = SWR_FP32; }, "dtype must be SWR_FP16 or SWR_BF16");
  refuses([](auto& c) { c.max_seq_q = -1; }, "max_seq_q must be 0 to");
  refuses([](auto& c) { c.max_seq_kv = 1 << 30; }, "max_seq_kv must be 0 to");
  refuses([](auto& c) { c.total_q = -1; }, "total_q must be 0 to");
  refuses([](auto& c) { c.cu_seqlens_k = c.cu_seqlens_q; }, "with pages pass seqused_k");
  refuses([](auto& c) { c.kv_batch_index = c.cu_seqlens_q; }, "kv_batch_index is for");
  refuses([](auto& c) { c.page_size = 0; }, "a page table needs page_size");
  refuses([](auto& c) { c.page_size = -1; }, "page_size must be 1 to 1023, not -1");
  refuses([](auto& c) { c.page_size = 1024; }, "page_size must be 1 to 1023");
  refuses([](auto& c) { c.page_table = nullptr; }, "pages need either a table or indptr");
  refuses([](auto& c) { c.page_indptr = c.cu_seqlens_q; }, "pages need either a table or indptr");
  refuses(
      [](auto& c) {
        c.page_table = nullptr;
        c.page_indptr = c.cu_seqlens_q;
      },
      "belong together");
  refuses([](auto& c) { c.pages_per_sequence = -1; }, "pages_per_sequence must be 0 to");
  refuses([](auto& c) { c.page_table_stride = -1; }, "must not be negative");
  refuses([](auto& c) { c.mask = 3; }, "mask must be 0 to 2, not 3");
  refuses(
      [](auto& c) {
        c.mask = SWR_MASK_WINDOW;
        c.window_left = -2;
      },
      "the window's left must be -1 to");
  refuses([](auto& c) { c.lengths = 7; }, "lengths must be 0 to 6");
  refuses([](auto& c) { c.scale = -1.0F; }, "scale must be positive");
  refuses([&](auto& c) { c.scale = infinity; }, "scale must be positive");
  refuses([](auto& c) { c.softcap = -1.0F; }, "softcap must be positive");
  refuses([](auto& c) { c.softcap = std::nanf(""); }, "softcap must be positive");
  refuses(
      [](auto& c) {
        c.sinks = at(9);
        c.sink_dtype = 3;
      },
      "sink_dtype must be");
  refuses([](auto& c) { c.seqused_k = reinterpret_cast<const std::int32_t*>(2); },
          "address of seqused_k must be a multiple of 4");
  EXPECT_EQ(swr_runtime_serving_attention(nullptr, nullptr, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, nullptr, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("'attention' is NULL"));
}

TEST_F(ServingCApiTest, SoAreThoseOfRowsThatAreAppended) {
  swr_kv_append append{};
  const auto refuses_append = [&](const std::function<void(swr_kv_append&)>& spoil,
                                  const char* text) {
    append = {};
    append.size = sizeof append;
    append.k_new = append.v_new = at(10);
    append.k_new_strides = append.v_new_strides = {128, 64, 128};
    append.seq_k_new = 1;
    spoil(append);
    refuses([&](auto& c) { c.append = &append; }, text);
  };
  refuses_append([](auto& a) { a.size = 8; }, "sizeof(swr_kv_append)");
  refuses_append([](auto& a) { a.k_new = nullptr; }, "the tensor k_new has no memory");
  refuses_append([](auto& a) { a.seq_k_new = 0; }, "needs the number of its rows");
  refuses_append([](auto& a) { a.seq_k_new = -1; }, "seq_k_new must be 0 to");
  refuses_append([](auto& a) { a.cu_seqlens_k_new = at<std::int32_t>(5); }, "not both");
  refuses_append([](auto& a) { a.rotary_cos = at(11); }, "both cos and sin");
  refuses_append(
      [](auto& a) {
        a.rotary_cos = a.rotary_sin = at(11);
        a.rotary_dim = 24;
      },
      "multiple of 16");
  refuses_append(
      [](auto& a) {
        a.rotary_cos = a.rotary_sin = at(11);
        a.rotary_dim = 80;
      },
      "the rotary dimension must be 16 to 64");
  append = {};
  append.size = sizeof append;
  append.k_new = append.v_new = at(10);
  append.seq_k_new = 1;
  refuses(
      [&](auto& c) {
        c.append = &append;
        c.seqused_k = nullptr;
      },
      "how many rows each sequence has before");
}

TEST_F(ServingCApiTest, AndThoseOfMerges) {
  swr_states states{};
  const auto refuses_states = [&](const std::function<void(swr_states&)>& spoil, const char* text) {
    states = {};
    states.size = sizeof states;
    states.parts = at(1);
    states.part_lse = at<float>(2);
    states.o = at(3);
    states.part_strides = {64 * 8, 64, 64};
    states.o_strides = {0, 64, 64};
    states.part_count = 2;
    states.heads = 1;
    states.rows = 8;
    states.head_dim = 64;
    states.part_dtype = SWR_FP32;
    states.output_dtype = SWR_BF16;
    spoil(states);
    EXPECT_EQ(swr_merge_states(runtime_, &states, nullptr), SWR_INVALID_ARGUMENT) << text;
    EXPECT_THAT(swr_last_error(), HasSubstr(text));
  };
  refuses_states([](auto& s) { s.size = 1; }, "sizeof(swr_states)");
  refuses_states([](auto& s) { s.part_lse = nullptr; }, "part_lse is NULL");
  refuses_states([](auto& s) { s.parts = nullptr; }, "the tensor parts has no memory");
  refuses_states([](auto& s) { s.part_count = 0; }, "parts must be 1 to");
  refuses_states([](auto& s) { s.head_dim = 100; }, "multiple of 8");
  refuses_states([](auto& s) { s.part_dtype = SWR_FP16; }, "must have the output's type");
  refuses_states([](auto& s) { s.o_strides.seq = 65; }, "stride of o");
  refuses_states([](auto& s) { s.rows = -1; }, "rows must be 0 to");
  EXPECT_EQ(swr_merge_states(runtime_, nullptr, nullptr), SWR_INVALID_ARGUMENT);
}

TEST_F(ServingCApiTest, WithoutKeysKAndVNeedNotBeThere) {
  swr_serving_attention none = call();
  none.k = none.v = nullptr;
  none.k_strides = none.v_strides = {};
  none.max_seq_kv = none.pages_per_sequence = 0;
  ASSERT_EQ(swr_runtime_serving_attention(runtime_, &none, nullptr), SWR_OK) << swr_last_error();
  EXPECT_EQ(fake_last_serving()->max_seq_kv, 0) << "whatever lengths say, no key is read";
  EXPECT_EQ(swr_runtime_prepare_serving(runtime_, &none, nullptr), SWR_OK) << swr_last_error();
}

TEST_F(ServingCApiTest, WithoutQueriesNothingIsLaunched) {
  const long long launches = fake_launches();
  for (const auto size : {&swr_serving_attention::batch, &swr_serving_attention::max_seq_q}) {
    swr_serving_attention none = call();
    none.*size = 0;
    none.q = none.o = nullptr;
    EXPECT_EQ(swr_runtime_serving_attention(runtime_, &none, nullptr), SWR_OK) << swr_last_error();
  }
  swr_serving_attention none = call();
  none.total_q = 0;
  none.q = none.o = nullptr;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &none, nullptr), SWR_OK) << swr_last_error();
  EXPECT_LE(fake_launches(), launches + 1) << "CTAs without sequences end at once";
}

TEST_F(ServingCApiTest, TakesBatchesOfAMillion) {
  swr_serving_attention many = call();
  many.batch = 1 << 20;
  many.total_q = 1 << 20;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &many, nullptr), SWR_OK) << swr_last_error();
  EXPECT_EQ(fake_last_serving()->batch, 1 << 20);
  many.batch = (1 << 20) + 1;
  EXPECT_EQ(swr_runtime_serving_attention(runtime_, &many, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("batch must be 0 to 1048576, not 1048577"));
}

}  // namespace
}  // namespace swr
