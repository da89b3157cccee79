// SPDX-License-Identifier: MIT
// Attention over unequal sequences as programs use it: looked up by its bounds and launched by the
// runtime. The driver is a fake one.
#include "driver/cuda_driver.h"
#include "operations/attention_serving/parts.h"
#include "operations/attention_serving/serving_attention.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

const ServingAttentionProblem kDecode{.batch = 8,
                                      .heads_q = 32,
                                      .heads_kv = 8,
                                      .seq_q = 1,
                                      .seq_kv = 8192,
                                      .head_dim = 128,
                                      .head_dim_v = 128,
                                      .dtype = DType::bf16};

class ServingAttentionDispatch : public ServingTest {
 protected:
  void SetUp() override {
    record(kDecode, kRanges, 70.0);
    record(kDecode, kWhole, 90.0);
    ServingAttentionProblem skewed = kDecode;
    skewed.lengths = LengthFamily::log_normal;
    record(skewed, kWhole, 30.0);
  }

  static ServingAttentionCall call(int batch) {
    void* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 20U);
    ServingAttentionCall call{.head_dim = 128, .head_dim_v = 128, .dtype = DType::bf16};
    ServingAttentionParams& p = call.params;
    p.q = p.k = p.v = p.o = memory;
    p.batch = batch;
    p.heads_q = 32;
    p.heads_kv = 8;
    p.max_seq_q = 1;
    p.max_seq_kv = 8192;
    p.total_q = batch;
    p.lengths.cu_seqlens_q = p.lengths.seqused_k = static_cast<const int*>(memory);
    p.pages = {.table = static_cast<const int*>(memory),
               .table_stride = 512,
               .pages_per_sequence = 512,
               .page_size = 16};
    return call;
  }

  const ServingAttentionVariant kRanges{.pack_gqa = true, .item_overhead = 2, .least_units = 8};
  const ServingAttentionVariant kWhole{.pack_gqa = true, .deal = Deal::whole};
  PrimaryContext context_{0};
};

TEST_F(ServingAttentionDispatch, IsLookedUpByItsBoundsAndTheFamilyOfItsLengths) {
  const Lookup lookup(database_);
  EXPECT_EQ(lookup.best(problem_of(call(8)), device_).variant, Variant(kRanges));
  EXPECT_EQ(lookup.best(problem_of(call(8)), device_).level, MatchLevel::exact);
  EXPECT_EQ(lookup.best(problem_of(call(12)), device_).variant, Variant(kRanges));
  EXPECT_EQ(lookup.best(problem_of(call(12)), device_).level, MatchLevel::nearest);
  ServingAttentionCall skewed = call(8);
  skewed.lengths = LengthFamily::log_normal;
  EXPECT_EQ(lookup.best(problem_of(skewed), device_).variant, Variant(kWhole));
}

/// The launch follows from bounds, and its limit of shared memory from no batch.
TEST_F(ServingAttentionDispatch, ProgramsLaunchItThroughTheRuntime) {
  RuntimeOptions options;
  options.database = database_;
  options.exported = export_all();
  options.may_compile = false;
  Runtime runtime(options);
  for (const int batch : {8, 3, 600, 12}) {
    const ServingAttentionCall one = call(batch);
    runtime.launch(problem_of(one), &one, one.params.q, nullptr);
    const ServingAttentionParams& launched = *fake_last_serving();
    EXPECT_EQ(launched.batch, batch);
    EXPECT_EQ(launched.item_overhead, 2);
    EXPECT_EQ(launched.least_units, 8);
    EXPECT_NE(launched.partials, nullptr);
    EXPECT_NE(launched.arrivals, nullptr);
    EXPECT_FLOAT_EQ(launched.scale_log2, 0.127517432F);  // log2(e) / sqrt(128).
    const ServingLaunch expected =
        serving_launch(plan_of(problem_of(one), kRanges, 96, 1), one.params);
    EXPECT_EQ(fake_last_launch().dynamic_smem_bytes,
              static_cast<unsigned>(expected.dynamic_smem_bytes));
    EXPECT_EQ(fake_last_launch().block_x, 128U);
  }
  EXPECT_EQ(fake_module_loads(), 1) << "one cubin serves all batches";
}

TEST_F(ServingAttentionDispatch, WindowsAreProblemsByHowFarTheyReach) {
  ServingAttentionCall window = call(8);
  window.mask = ServingMask::window;
  window.params.window = {.left = 1023, .right = 0};
  EXPECT_EQ(problem_of(window).window, 1023);
  window.params.window = {.left = -1, .right = 0, .chunk = 256};
  EXPECT_EQ(problem_of(window).window, 255);
  window.params.window = {.left = -1, .right = 0};
  EXPECT_EQ(problem_of(window).window, 65535);
  EXPECT_EQ(problem_of(call(8)).window, 0);
  EXPECT_THROW(problem_of(call(0)), Error);
}

}  // namespace
}  // namespace swr
