// SPDX-License-Identifier: MIT
// Dispatch against a fake driver: what is looked up, loaded and launched, by several threads, on
// several devices, and while the database changes.
#include "db/missed_questions.h"
#include "driver/cuda_driver.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/own_memory.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

/// With the first device's context current.
class RuntimeTest : public ServingTest {
 protected:
  /// Chooses from the database; only exported kernels run.
  RuntimeOptions serving_only() {
    return {.database = database_, .exported = export_all(), .may_compile = false};
  }

  PrimaryContext context_{0};
  CUstream_st* stream_ = reinterpret_cast<CUstream_st*>(std::uintptr_t{64});
};

TEST_F(RuntimeTest, LaunchesTheBestVariantOnTheCallersStream) {
  AttentionVariant variant = tile(128, 64);
  attention(variant).swizzle = AttentionSwizzle::head_fastest;
  record(problem_of(4096), variant, 10.0);
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(4096)), stream_);
  const FakeLaunch launch = fake_last_launch();
  EXPECT_EQ(launch.grid_x, 8U * 4096 / 128);
  EXPECT_EQ(launch.block_x, 128U);
  constexpr unsigned kParked = 32;  // What a thread of so large a tile keeps out of registers.
  EXPECT_EQ(launch.dynamic_smem_bytes, (128U + 2 * 2 * 64) * 64 * 2 + kParked);
  EXPECT_EQ(launch.stream, stream_);
  EXPECT_EQ(launch.params.section_heads, 8) << "head_fastest";
  EXPECT_FLOAT_EQ(launch.params.scale_log2, std::log2(std::exp(1.0F)) / 8.0F) << "1 / sqrt(64)";
}

TEST_F(RuntimeTest, ALaunchOverlapsTheOneBeforeWhereItsExportedKernelWaitsForIt) {
  record(problem_of(4096), tile(128, 64), 10.0);
  {
    Runtime runtime(serving_only());
    runtime.attention(call_of(problem_of(4096)), stream_);
    EXPECT_TRUE(fake_last_launch().overlaps);
  }
  forget_waits();
  Runtime runtime({.exported = exported_, .may_compile = false});
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_FALSE(fake_last_launch().overlaps) << "an export from before attention waited";
}

TEST_F(RuntimeTest, ALaunchThatLeavesPlacesOnEverySmDoesNotOverlap) {
  record(problem_of(4096), tile(128, 64), 10.0);  // Two CTAs fit each of 96 SMs.
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(1024)), stream_);
  EXPECT_EQ(fake_last_launch().grid_x, 64U);
  EXPECT_FALSE(fake_last_launch().overlaps);
  runtime.attention(call_of(problem_of(2048)), stream_);
  EXPECT_EQ(fake_last_launch().grid_x, 128U);
  EXPECT_TRUE(fake_last_launch().overlaps);
}

TEST_F(RuntimeTest, SplitsGetMemoryOfTheirOwnPerStreamAndCapture) {
  AttentionVariant variant = tile(64, 64);
  attention(variant).kv_splits = 4;
  record(problem_of(4096), variant, 10.0);
  Runtime runtime(serving_only());
  const auto partials_on = [&](CUstream_st* stream) {
    runtime.attention(call_of(problem_of(4096)), stream);
    EXPECT_EQ(fake_last_launch().grid_x, 8U * 4096 / 64 * 4);
    EXPECT_EQ(fake_last_launch().params.kv_splits, 4);
    EXPECT_EQ(*fake_last_launch().params.arrivals, 0U);
    return fake_last_launch().params.partials;
  };
  expect_memory_by_stream_and_capture(partials_on, stream_);
}

TEST_F(RuntimeTest, NotesWhatNoMeasurementAnsweredOnceAProcess) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  const auto file = missed_questions_path(database_);
  runtime.attention(call_of(problem_of(2048)), stream_);
  EXPECT_TRUE(read_missed_questions(file).empty()) << "until it is asked to";
  runtime.note_missed(file);
  for (int i = 0; i < 3; ++i) {
    for (const int length : {4096, 1024, 512}) {
      runtime.attention(call_of(problem_of(length)), stream_);
    }
  }
  record(problem_of(1024), tile(128, 64), 1.0);
  runtime.refresh();
  runtime.attention(call_of(problem_of(1024)), stream_);
  runtime.attention(call_of(problem_of(512)), stream_);
  const std::vector<Problem> missed = read_missed_questions(file);
  EXPECT_EQ(missed, (std::vector<Problem>{problem_of(1024), problem_of(512)}));
}

TEST_F(RuntimeTest, KernelsWithoutSplitsGetNoMemory) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().params.partials, nullptr);
  EXPECT_EQ(fake_last_launch().params.kv_splits, 1);
}

TEST_F(RuntimeTest, AGivenScaleIsKept) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  AttentionCall call = call_of(problem_of(4096));
  call.params.scale_log2 = 0.5F;
  runtime.attention(call, stream_);
  EXPECT_EQ(fake_last_launch().params.scale_log2, 0.5F);
}

TEST_F(RuntimeTest, LoadsAKernelOnceForAllItsShapesAndUnloadsItAtTheEnd) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const long long alive = fake_modules_alive();
  {
    Runtime runtime(serving_only());
    const long long loads = fake_module_loads();
    for (const int seq : {4096, 4096, 1000, 77}) {
      runtime.attention(call_of(problem_of(seq)), stream_);
      EXPECT_EQ(fake_last_launch().grid_x, 8U * static_cast<unsigned>((seq + 127) / 128));
    }
    EXPECT_EQ(fake_module_loads(), loads + 1);
  }
  EXPECT_EQ(fake_modules_alive(), alive);
}

TEST_F(RuntimeTest, APersistentLaunchFillsTheDevice) {
  AttentionVariant variant = tile(64, 64);
  attention(variant).persistence = Persistence::persistent;
  record(problem_of(4096), variant, 10.0);
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().grid_x, 96U * 3) << "40 KiB and 1 KiB reserved, thrice in 128 KiB";
}

/// The tile counters of launches of a kernel that draws its tiles.
class TileDrawingTest : public RuntimeTest {
 protected:
  void SetUp() override {
    AttentionVariant variant = tile(128, 64);
    attention(variant).family = Family::hopper;
    attention(variant).warps = 8;
    attention(variant).persistence = Persistence::dynamic;
    record(problem_of(4096), variant, 10.0);
  }
  unsigned* counter_of_launch(CUstream_st* stream) {
    runtime_->attention(call_of(problem_of(4096)), stream);
    return fake_last_launch().params.tile_counter;
  }

  std::unique_ptr<Runtime> runtime_;
  CUstream_st* other_stream_ = reinterpret_cast<CUstream_st*>(std::uintptr_t{128});
};

TEST_F(TileDrawingTest, LaunchesOfOneStreamShareACounterThatIsZero) {
  runtime_ = std::make_unique<Runtime>(serving_only());
  unsigned* const counter = counter_of_launch(stream_);
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(counter[0], 0U);
  EXPECT_EQ(counter[1], 0U);
  EXPECT_EQ(counter_of_launch(stream_), counter);
}

TEST_F(TileDrawingTest, StreamsAndContextsDoNotShareCounters) {
  runtime_ = std::make_unique<Runtime>(serving_only());
  std::set<unsigned*> counters{counter_of_launch(nullptr), counter_of_launch(stream_),
                               counter_of_launch(other_stream_)};
  const PrimaryContext second(1);
  counters.insert(counter_of_launch(stream_));
  EXPECT_EQ(counters.size(), 4U);
}

TEST_F(TileDrawingTest, EveryCapturedLaunchHasItsOwnCounter) {
  runtime_ = std::make_unique<Runtime>(serving_only());
  std::set<unsigned*> counters{counter_of_launch(stream_)};
  fake_capture(stream_);
  constexpr int kMoreThanOneBlock = 5000;
  for (int i = 0; i < kMoreThanOneBlock; ++i) {
    unsigned* const counter = counter_of_launch(stream_);
    EXPECT_TRUE(counters.insert(counter).second);
    EXPECT_EQ(counter[0] + counter[1], 0U);
  }
  fake_capture(nullptr);
  EXPECT_TRUE(counters.contains(counter_of_launch(stream_)));
}

TEST_F(TileDrawingTest, ACallersCounterIsKept) {
  runtime_ = std::make_unique<Runtime>(serving_only());
  std::array<unsigned, 2> counter{};
  AttentionCall call = call_of(problem_of(4096));
  call.params.tile_counter = counter.data();
  runtime_->attention(call, stream_);
  EXPECT_EQ(fake_last_launch().params.tile_counter, counter.data());
}

TEST_F(RuntimeTest, KernelsThatDrawNoTilesGetNoCounter) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().params.tile_counter, nullptr);
}

TEST_F(RuntimeTest, EveryContextGetsItsOwnKernel) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().device, 0);
  const PrimaryContext second(1);
  const long long loads = fake_module_loads();
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().device, 1);
  EXPECT_EQ(fake_module_loads(), loads + 1);
  context_.make_current();
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().device, 0);
  EXPECT_EQ(fake_module_loads(), loads + 1);
}

TEST_F(RuntimeTest, AThreadWithoutAContextTakesThatOfTheMemory) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  std::thread([&] {
    runtime.attention(call_of(problem_of(4096)), stream_);
    EXPECT_EQ(fake_last_launch().device, 1) << "where the fake memory lies";
  }).join();
}

TEST_F(RuntimeTest, AKernelIsAnsweredByTheObjectiveOfItsSpec) {
  KernelSpec spec = test::scale_spec("frugal_scale");
  spec.objective = "energy";
  const Operation& kernel = register_kernel(spec);
  const Problem problem = kernel_problem(kernel, {{"n", 5000}});
  const Variant frugal = parse_variant(kernel, "block_size_x=32");
  Runtime runtime({.database = database_});
  {
    Store store(database_, Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    store.record(run, problem, device_, measured(kernel.default_variant(problem, device_), 10.0));
    store.record(run, problem, device_, measured(frugal, 12.0));
  }
  runtime.refresh();
  EXPECT_NE(runtime.best(problem, device_).variant, frugal) << "nothing was decided by energy";
  {
    Store store(database_, Store::Mode::read_write);
    const auto stored = store.results(problem, device_);
    const auto chosen =
        std::ranges::find(stored, frugal, [](const auto& one) { return one.result.variant; });
    store.record_choice(store.begin_run(some_run()), problem, device_, "energy",
                        std::array{RankedResult{chosen->id}}, 0.01);
  }
  runtime.refresh();
  EXPECT_EQ(runtime.best(problem, device_).variant, frugal);
}

TEST_F(RuntimeTest, WhereNothingMayBeCompiledTheBestExportedKernelRuns) {
  record(problem_of(4096), tile(128, 64), 10.0);
  export_all();
  record(problem_of(4096), tile(64, 64), 5.0);
  Runtime runtime({.database = database_, .exported = exported_, .may_compile = false});
  EXPECT_EQ(runtime.best(problem_of(4096), device_).variant, tile(64, 64));
  EXPECT_EQ(runtime.prepare(problem_of(4096)).variant, tile(128, 64));
}

TEST_F(RuntimeTest, WhereNothingMayBeCompiledAndNothingFitsItIsSaid) {
  record(problem_of(4096), tile(128, 64), 10.0);
  AttentionProblem causal = problem_of(4096);
  causal.causal = true;
  Runtime runtime(serving_only());
  const long long launches = fake_launches();
  const Error error = error_of([&] { runtime.attention(call_of(causal), stream_); });
  EXPECT_EQ(error.code(), ErrorCode::not_compiled);
  EXPECT_THAT(error.what(), ::testing::HasSubstr(to_string(causal)));
  EXPECT_EQ(fake_launches(), launches);
}

TEST_F(RuntimeTest, AnExportedDirectoryAloneServes) {
  record(problem_of(4096), tile(128, 64), 10.0);
  record(problem_of(512), tile(64, 64), 1.0);
  Runtime runtime({.exported = export_all(), .may_compile = false});
  EXPECT_EQ(runtime.prepare(problem_of(6000)).variant, tile(128, 64));
  EXPECT_EQ(runtime.prepare(problem_of(600)).variant, tile(64, 64));
  EXPECT_FALSE(runtime.refresh());
}

TEST_F(RuntimeTest, ARefreshChoosesAnew) {
  record(problem_of(4096), tile(128, 64), 10.0);
  record(problem_of(8192), tile(64, 64), 40.0);
  Runtime runtime(serving_only());
  runtime.attention(call_of(problem_of(4096)), stream_);
  record(problem_of(4096), tile(64, 64), 5.0);
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().grid_x, 8U * 32) << "until it is refreshed";
  EXPECT_TRUE(runtime.refresh());
  runtime.attention(call_of(problem_of(4096)), stream_);
  EXPECT_EQ(fake_last_launch().grid_x, 8U * 64);
}

TEST_F(RuntimeTest, OnAThreadWithoutAContextPrepareTakesTheFirstDevices) {
  record(problem_of(4096), tile(128, 64), 10.0);
  Runtime runtime(serving_only());
  std::thread([&] {
    EXPECT_EQ(runtime.prepare(problem_of(4096)).level, MatchLevel::exact);
    CUdevice device = -1;
    cuda_driver().context_get_device(&device);
    EXPECT_EQ(device, 0);
  }).join();
}

/// Elements of 2 bytes [batch, heads, seq, columns] in some order, with gaps that nobody may touch.
struct GappedTensor {
  GappedTensor(int batch, int heads, int seq, int columns, const TensorStrides& strides)
      : elements(static_cast<std::size_t>((batch - 1) * strides.batch + (heads - 1) * strides.head +
                                          (seq - 1) * strides.seq + columns),
                 kTouched),
        of(strides) {
    for (int b = 0; b < batch; ++b) {
      for (int h = 0; h < heads; ++h) {
        for (int s = 0; s < seq; ++s) {
          for (int c = 0; c < columns; ++c) {
            expected.insert(static_cast<std::size_t>(b * of.batch + h * of.head + s * of.seq + c));
          }
        }
      }
    }
  }
  void expect_zeros() const {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      ASSERT_EQ(elements[i], expected.contains(i) ? 0 : kTouched) << i;
    }
  }

  static constexpr unsigned short kTouched = 0x1234;
  std::vector<unsigned short> elements;
  TensorStrides of;
  std::set<std::size_t> expected;
};

TEST_F(RuntimeTest, RowsWithoutKeysAreZerosInAnyLayout) {
  Runtime runtime(RuntimeOptions{});
  constexpr int kBatch = 3;
  constexpr int kHeads = 2;
  constexpr int kSeq = 5;
  constexpr int kColumns = 16;
  const std::vector<std::pair<TensorStrides, int>> layouts{
      {{kHeads * kSeq * 16, kSeq * 16, 16}, 1},            // Contiguous.
      {{kHeads * kSeq * 16, 16, kHeads * 16}, 1},          // [batch, seq, heads, columns]
      {{kHeads * kSeq * 24, kSeq * 24, 24}, 1},            // Rows apart.
      {{16 * kSeq + 8, kBatch * (16 * kSeq + 8), 16}, 1},  // Heads outermost.
      {{1000, 400, 40}, kBatch * kHeads}};
  for (const auto& [strides, memsets] : layouts) {
    GappedTensor o(kBatch, kHeads, kSeq, kColumns, strides);
    std::vector<float> lse(kBatch * kHeads * kSeq + 1, 7.0F);
    AttentionCall call{.head_dim = kColumns, .dtype = DType::bf16, .causal = true};
    AttentionParams& p = call.params;
    p.o = o.elements.data();
    p.lse = lse.data();
    p.o_strides = strides;
    p.batch = kBatch;
    p.heads_q = p.heads_kv = kHeads;
    p.seq_q = kSeq;
    const long long before = fake_memsets();
    runtime.attention(call, stream_);
    EXPECT_EQ(fake_memsets() - before, memsets + 1);
    o.expect_zeros();
    EXPECT_EQ(lse.back(), 7.0F);
    lse.pop_back();
    EXPECT_THAT(lse, ::testing::Each(-std::numeric_limits<float>::infinity()));
  }
}

TEST_F(RuntimeTest, EmptyBatchesLaunchNothingAndWrongSizesAreRefusedThereToo) {
  Runtime runtime(RuntimeOptions{});
  const long long launches = fake_launches();
  for (int AttentionParams::*const size : {&AttentionParams::batch, &AttentionParams::seq_q}) {
    AttentionCall call = call_of(problem_of(64));
    call.params.*size = 0;
    call.params.o = nullptr;
    runtime.attention(call, stream_);
    call.params.heads_kv = 3;
    EXPECT_EQ(error_of([&] { runtime.attention(call, stream_); }).code(),
              ErrorCode::invalid_argument);
  }
  AttentionCall call = call_of(problem_of(64));
  call.params.seq_kv = 0;
  call.params.o = nullptr;
  EXPECT_THAT(error_of([&] { runtime.attention(call, stream_); }).what(),
              ::testing::HasSubstr("has no memory"));
  call = call_of(problem_of(64));
  call.params.seq_kv = -1;
  EXPECT_THAT(error_of([&] { runtime.attention(call, stream_); }).what(),
              ::testing::HasSubstr("seq-kv must be at least 1, not -1"));
  EXPECT_EQ(fake_launches(), launches);
}

TEST_F(RuntimeTest, GradientsAreZerosWhereThereIsNoScore) {
  Runtime runtime(RuntimeOptions{});
  for (const auto [seq_q, seq_kv] : {std::pair{4, 0}, {0, 6}, {0, 0}}) {
    const int q_rows = std::max(1, seq_q);
    const int k_rows = std::max(1, seq_kv);
    GappedTensor dq(2, 4, q_rows, 32, {4 * q_rows * 32, q_rows * 32, 32});
    GappedTensor dk(2, 2, k_rows, 32, {k_rows * 2 * 32, 32, 2 * 32});
    GappedTensor dv(2, 2, k_rows, 16, {k_rows * 2 * 24, 24, 2 * 24});
    AttentionBackwardCall call{.head_dim = 32, .head_dim_v = 16};
    AttentionBackwardParams& p = call.params;
    p.dq = dq.elements.data();
    p.dk = dk.elements.data();
    p.dv = dv.elements.data();
    p.dq_strides = dq.of;
    p.dk_strides = dk.of;
    p.dv_strides = dv.of;
    p.batch = 2;
    p.heads_q = 4;
    p.heads_kv = 2;
    p.seq_q = seq_q;
    p.seq_kv = seq_kv;
    runtime.attention_backward(call, stream_);
    for (auto [tensor, rows] : {std::pair{&dq, seq_q}, {&dk, seq_kv}, {&dv, seq_kv}}) {
      if (rows == 0) {
        tensor->expected.clear();
      }
      tensor->expect_zeros();
    }
  }
}

TEST_F(RuntimeTest, AnUnreadableExportIsRefusedAtOnce) {
  EXPECT_EQ(error_of([&] { Runtime({.exported = directory_ / "none"}); }).code(),
            ErrorCode::not_found);
}

TEST_F(RuntimeTest, ThreadsShareOneKernelWhileTheDatabaseChanges) {
  record(problem_of(4096), tile(128, 64), 10.0);
  record(problem_of(8192), tile(64, 64), 40.0);
  Runtime runtime(serving_only());
  const long long loads = fake_module_loads();
  std::atomic<bool> done = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const PrimaryContext context(t % 2);
      for (int i = 0; !done || i < 50; ++i) {
        runtime.attention(call_of(problem_of(4096 + i % 5)), stream_);
        EXPECT_EQ(fake_last_launch().device, t % 2);
        EXPECT_EQ(fake_last_launch().params.seq_q, 4096 + i % 5);
        ++calls;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    record(problem_of(4096), tile(64, 64), 9.0 - 0.5 * i);
    runtime.refresh();
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GE(calls, 150);
  EXPECT_LE(fake_module_loads(), loads + 4) << "two kernels in two contexts";
}

}  // namespace
}  // namespace swr
