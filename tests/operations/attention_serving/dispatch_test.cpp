// SPDX-License-Identifier: MIT
// Attention over unequal sequences as programs use it: looked up by its bounds and launched by the
// runtime. The driver is a fake one.
#include "driver/cuda_driver.h"
#include "operations/attention_serving/parts.h"
#include "operations/attention_serving/serving_attention.h"
#include "operations/attention_serving/serving_launch.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"

#include <deque>

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

/// Nothing that was measured says that a variant is better than the default far from where that
/// was.
TEST_F(ServingAttentionDispatch, BeyondTheHullOfWhatWasMeasuredTheDefaultAnswers) {
  ServingAttentionProblem longest = kDecode;
  longest.seq_kv = 65536;
  record(longest, kWhole, 500.0);
  const Lookup lookup(database_);
  const auto answer = [&](int batch, int seq_kv) {
    ServingAttentionProblem asked = kDecode;
    asked.batch = batch;
    asked.seq_kv = seq_kv;
    return lookup.best(asked, device_);
  };
  for (const int seq_kv : {4096, 8192, 20000, 65536, 131072}) {
    for (const int batch : {4, 8, 16}) {
      EXPECT_NE(answer(batch, seq_kv).level, MatchLevel::default_only) << batch << " x " << seq_kv;
    }
  }
  for (const auto& [batch, seq_kv] :
       {std::pair{8, 4095}, std::pair{8, 131073}, std::pair{3, 8192}, std::pair{17, 65536}}) {
    const Answer beyond = answer(batch, seq_kv);
    EXPECT_EQ(beyond.level, MatchLevel::default_only) << batch << " x " << seq_kv;
    ServingAttentionProblem asked = kDecode;
    asked.batch = batch;
    asked.seq_kv = seq_kv;
    EXPECT_EQ(beyond.variant, asked.operation().default_variant(asked, device_));
  }
}

/// So what is answered within the hull was compared with it.
TEST_F(ServingAttentionDispatch, TheDefaultIsAmongWhatIsMeasured) {
  ServingAttentionProblem problem = kDecode;
  for (const int head_dim : {64, 128, 192, 256}) {
    for (const int seq_q : {1, 4, 512, 4096}) {
      for (const int page_size : {0, 1, 16}) {
        problem.head_dim = head_dim;
        problem.head_dim_v = head_dim == 192 ? 128 : head_dim;
        problem.seq_q = seq_q;
        problem.page_size = page_size;
        const DeviceInfo device = profiled_device("h200");
        const Variant usual = problem.operation().default_variant(problem, device);
        const auto points =
            problem.operation().points(family_of(usual), problem, device, {}).listed;
        EXPECT_EQ(std::ranges::count(points, usual), 1) << to_string(problem) << to_key(usual);
      }
    }
  }
}

/// The launch follows from bounds, and its limit of shared memory from no batch.
TEST_F(ServingAttentionDispatch, ProgramsLaunchItThroughTheRuntime) {
  ServingAttentionProblem largest = kDecode;
  largest.batch = 600;
  record(largest, kRanges, 4000.0);
  RuntimeOptions options{.database = database_, .exported = export_all(), .may_compile = false};
  Runtime runtime(options);
  for (const int batch : {8, 4, 600, 12}) {
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

/// Loads what nobody has compiled, which the fake driver takes.
class LoadedUncompiled final : public FixedKernels {
 public:
  CUfunction function(const char* /*file*/, const char* entry) override {
    return kernels_.emplace_back(std::vector<std::byte>(1), entry).handle();
  }

 private:
  std::deque<Kernel> kernels_;
};

class ServingAttentionWithAppend : public ServingAttentionDispatch {
 protected:
  static ServingAttentionCall appending() {
    ServingAttentionCall appending = call(8);
    void* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 21U);
    appending.params.lengths.cu_seqlens_q = nullptr;
    appending.params.lengths.seq_k_new = 1;
    KvAppendParams& append = appending.append.emplace();
    append.k_new = append.v_new = memory;
    append.total_k_new = 8;
    append.rotary = {.cos = memory, .sin = memory, .stride = 64, .dim = 128};
    return appending;
  }

  void launch(const ServingAttentionCall& call) {
    ready_->launch(&call, {.calls = cuda_driver().launch_calls,
                           .functions = kernel_.handles(),
                           .overlap = LaunchOverlap::allowed,
                           .stream = nullptr});
  }

  static Kernel attention_kernel() {
    Kernel kernel(std::vector<std::byte>(1), "swr_serving_attention");
    kernel.allow_dynamic_smem(1 << 17);
    return kernel;
  }

  TileCounters tile_counters_{cuda_driver().launch_calls};
  SplitMemory split_memory_{cuda_driver().launch_calls};
  LoadedUncompiled fixed_kernels_;
  Kernel kernel_ = attention_kernel();
  std::unique_ptr<ReadyLaunch> ready_ =
      make_ready_serving_attention(problem_of(appending()), kRanges, 1,
                                   {device_, tile_counters_, split_memory_, fixed_kernels_});
};

TEST_F(ServingAttentionWithAppend, RowsAreAppendedBeforeAnybodyAttendsToTurnedQueries) {
  const long long before = fake_launches();
  launch(appending());
  EXPECT_EQ(fake_launches() - before, 2);
  const KvAppendParams& append = *fake_last_append();
  const ServingAttentionParams& launched = *fake_last_serving();
  EXPECT_EQ(append.attention.q, appending().params.q);
  EXPECT_EQ(append.head_dim, 128);
  EXPECT_EQ(append.head_dim_v, 128);
  ASSERT_NE(append.q_rotated, nullptr);
  EXPECT_EQ(launched.q, append.q_rotated);
  EXPECT_EQ(launched.q_strides.head, 128);
  EXPECT_EQ(launched.q_strides.batch, 32 * 128);
  EXPECT_EQ(launched.lengths.seq_k_new, 1);
  EXPECT_GE(
      static_cast<const char*>(append.q_rotated) - reinterpret_cast<const char*>(launched.partials),
      2LL * fake_last_launch().grid_x * 16 * 130 * 4)
      << "turned queries lie behind what CTAs share";
  ServingAttentionCall unturned = appending();
  unturned.append->rotary = {};
  launch(unturned);
  EXPECT_EQ(fake_last_append()->q_rotated, nullptr);
  EXPECT_EQ(fake_last_serving()->q, unturned.params.q);
}

TEST_F(ServingAttentionWithAppend, AWorkspaceOfTheCallerIsUsedAndNothingElse) {
  ServingAttentionCall call = appending();
  const long long bytes = ready_->prepare(&call);
  EXPECT_GT(bytes, ServingWorkspace::kZeroedBytes + 8LL * 32 * 128 * 2);
  char* const memory = reinterpret_cast<char*>(std::uintptr_t{1} << 30U);
  call.workspace = {memory, bytes};
  launch(call);
  const ServingAttentionParams& launched = *fake_last_serving();
  EXPECT_EQ(reinterpret_cast<char*>(launched.arrivals), memory);
  EXPECT_EQ(reinterpret_cast<char*>(launched.partials), memory + ServingWorkspace::kZeroedBytes);
  EXPECT_EQ(static_cast<const char*>(launched.q) + 8LL * 32 * 128 * 2, memory + bytes);
  call.workspace.bytes = bytes - 1;
  EXPECT_THAT([&] { launch(call); }, ::testing::ThrowsMessage<Error>(
                                         ::testing::HasSubstr("takes " + std::to_string(bytes))));
}

TEST_F(ServingAttentionWithAppend, WhereNothingMayBeCompiledAppendingSaysSo) {
  RuntimeOptions strict{.database = database_, .exported = export_all(), .may_compile = false};
  Runtime runtime(strict);
  EXPECT_THAT([&] { runtime.attention(appending(), nullptr); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("may_compile")));
}

TEST_F(ServingAttentionWithAppend, StatesAreMergedWithoutAProblem) {
  void* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 20U);
  MergeStatesCall merge;
  merge.params.parts = merge.params.o = memory;
  merge.params.part_lse = static_cast<const float*>(memory);
  merge.params.part_count = 2;
  merge.params.heads = 8;
  merge.params.rows = 5;
  merge.params.head_dim = 128;
  merge.params.part_strides = {5 * 8 * 128, 128, 8 * 128};
  merge.params.o_strides = {0, 128, 8 * 128};
  validate(merge);
  launch_merge(merge, {device_, fixed_kernels_, cuda_driver().launch_calls}, nullptr);
  EXPECT_EQ(fake_last_merge()->part_count, 2);
  EXPECT_EQ(fake_last_launch().grid_x, 3U);  // 5 * 8 * 16 pieces, 256 a CTA.
  merge.part_type = OutputType::fp16;
  EXPECT_THROW(validate(merge), Error);
  merge.part_type = OutputType::fp32;
  merge.params.head_dim = 100;
  EXPECT_THROW(validate(merge), Error);
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
  EXPECT_EQ(problem_of(call(0)).batch, 1) << "as of a call that has something to do";
}

}  // namespace
}  // namespace swr
