// SPDX-License-Identifier: MIT
// The runtime on a GPU: right outputs with kernels from the compiler, the cache and an export, from
// several threads and streams, and from a captured graph.
#include "export/export.h"
#include "export/manifest.h"
#include "operations/attention/workload.h"
#include "operations/gemm/buffers.h"
#include "operations/gemm/config.h"
#include "operations/gemm/kernel.h"
#include "tests/db/fixtures.h"
#include "tests/gpu/download.h"
#include "tests/gpu/driver_api_launcher.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/attention_reference.h"
#include "tests/support/float16.h"
#include "tests/support/with.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/runtime.h>

#include <numbers>

namespace swr {
namespace {

AttentionProblem served_problem(int seq) {
  return {.batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seq_q = seq,
          .seq_kv = seq + 30,
          .head_dim = 64,
          .dtype = DType::bf16,
          .causal = true};
}

AttentionCall call_on(const ProblemBuffers& buffers, bool with_lse) {
  const AttentionProblem& problem = buffers.problem();
  return {.params = buffers.params(with_lse),
          .head_dim = problem.head_dim,
          .dtype = problem.dtype,
          .causal = problem.causal};
}

class RuntimeOnGpu : public GpuTest {
 protected:
  /// A database that knows one shape.
  void record(int seq, const AttentionVariant& variant) {
    const CompiledKernel& kernel = bench().compile(served_problem(seq), variant);
    VariantResult result = measured(variant, 10.0);
    result.resources = kernel.resources;
    result.cubin_digest = kernel.cubin_digest;
    Store store(database_, Store::Mode::read_write);
    RunInfo run = some_run();
    run.templates_digest = bench().generator.templates_digest();
    store.record(store.begin_run(run), served_problem(seq), bench().device, result);
  }
  void export_all() {
    export_kernels(Store(database_, Store::Mode::read_only), bench().generator, exported_);
  }
  /// Runs a shape and says what is wrong with its outputs.
  static std::string failure(Runtime& runtime, int seq, const Stream& stream) {
    const ProblemBuffers buffers(served_problem(seq), bench().kernels, stream, 5,
                                 MemoryOrder::bshd);
    const Verifier verifier(bench().kernels, buffers, stream);
    runtime.attention(call_on(buffers, true), stream.handle());
    return verifier.check(true).failure;
  }

  TempDirectory directory_;
  std::filesystem::path database_ = directory_ / "tuned.db";
  std::filesystem::path exported_ = directory_ / "kernels";
};

TEST_F(RuntimeOnGpu, CompilesLooksUpAndComputesRightOutputs) {
  record(150, {.tile_m = 64,
               .tile_n = 32,
               .order = Order::sawtooth,
               .persistence = Persistence::persistent,
               .swizzle = AttentionSwizzle::head_fastest});
  RuntimeOptions options{.database = database_, .generator = {.cache_dir = directory_ / "cache"}};
  options.lookup.shipped = false;
  Runtime runtime(options);
  for (const int seq : {150, 1, 77, 1000}) {
    EXPECT_EQ(failure(runtime, seq, bench().stream), "") << seq;
  }
  EXPECT_EQ(runtime.prepare(served_problem(150)).level, MatchLevel::exact);
  // The closed form knows better than a narrow tile.
  EXPECT_NE(runtime.prepare(served_problem(1000)).level, MatchLevel::default_only);
}

TEST_F(RuntimeOnGpu, ServesFromTheCacheAndFromAnExportWithoutCompiling) {
  record(150, {.tile_m = 64, .tile_n = 32});
  const GeneratorOptions cached{.cache_dir = directory_ / "cache"};
  Runtime({.database = database_, .generator = cached}).prepare(served_problem(150));
  Runtime from_cache({.database = database_, .generator = cached, .may_compile = false});
  EXPECT_EQ(failure(from_cache, 500, bench().stream), "");
  export_all();
  Runtime from_export({.exported = exported_, .may_compile = false});
  EXPECT_EQ(failure(from_export, 500, bench().stream), "");
}

TEST_F(RuntimeOnGpu, UntunedProblemsRunWithTheModelledVariant) {
  record(150, {.tile_m = 64, .tile_n = 32});
  RuntimeOptions options{.database = database_};
  options.lookup.shipped = false;
  Runtime runtime(options);
  AttentionProblem other = served_problem(200);
  other.head_dim = 96;
  EXPECT_EQ(runtime.prepare(other).level, MatchLevel::modelled);
  const ProblemBuffers buffers(other, bench().kernels, bench().stream, 5);
  const Verifier verifier(bench().kernels, buffers, bench().stream);
  runtime.attention(call_on(buffers, false), bench().stream.handle());
  EXPECT_EQ(verifier.check(false).failure, "");
}

TEST_F(RuntimeOnGpu, ThreadsOnTheirOwnStreamsComputeRightOutputs) {
  record(150, {.tile_m = 64, .tile_n = 32});
  export_all();
  Runtime runtime({.exported = exported_, .may_compile = false});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&runtime, t] {
      bench().context.make_current();
      const Stream stream;
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(failure(runtime, 100 + 50 * t + i, stream), "");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(RuntimeOnGpu, ACapturedCallReplaysToTheSameOutput) {
  constexpr int kReplays = 1000;
  record(150, {.tile_m = 64, .tile_n = 32});
  export_all();
  Runtime runtime({.exported = exported_, .may_compile = false});
  const ProblemBuffers buffers(served_problem(300), bench().kernels, bench().stream, 5);
  const Verifier verifier(bench().kernels, buffers, bench().stream);
  // The kernel is loaded while the stream is being captured.
  const Graph graph(bench().stream,
                    [&] { runtime.attention(call_on(buffers, true), bench().stream.handle()); });
  for (int i = 0; i < kReplays; ++i) {
    graph.launch(bench().stream);
  }
  EXPECT_EQ(verifier.check(true).failure, "");
}

// GEMM of the runtime on a GPU: right products with kernels from the compiler and from an export,
// also where splits of k meet in memory of the runtime, from several threads and from a graph.

GemmProblem product(int m, int n, int k) { return {.m = m, .n = n, .k = k}; }

GemmVariant portable_tile() { return {.tile_m = 64, .tile_n = 64}; }

GemmVariant split_tile() { return with(portable_tile(), &GemmVariant::splits, 4); }

GemmVariant hopper_tile() {
  return with(GemmVariant{.family = Family::hopper, .tile_m = 128, .tile_n = 128, .tile_k = 64},
              &GemmVariant::consumers, 2, &GemmVariant::cluster_m, 2, &GemmVariant::persistence,
              Persistence::persistent);
}

class GemmRuntimeOnGpu : public GpuTest {
 protected:
  void record(const GemmProblem& problem, const GemmVariant& variant) {
    const CompiledKernel kernel =
        bench().generator.compile(Problem(problem), Variant(variant), bench().device.sm_arch);
    VariantResult result = measured(variant, 10.0);
    result.resources = kernel.resources;
    result.cubin_digest = kernel.cubin_digest;
    Store store(database_, Store::Mode::read_write);
    RunInfo run = some_run();
    run.templates_digest = bench().generator.templates_digest();
    store.record(store.begin_run(run), problem, bench().device, result);
  }
  RuntimeOptions exported_only() const {
    export_kernels(Store(database_, Store::Mode::read_only), bench().generator, exported_);
    return {.exported = exported_, .may_compile = false};
  }

  /// A product of 0s and 1s, which is exact, and its call.
  struct Case {
    explicit Case(const GemmProblem& problem, const Stream& stream)
        : buffers(problem, bench().gemm_kernels(), stream, GemmInputs::binary, 1.0F,
                  problem.reads_c ? 0.5F : 0.0F, RowGap::none),
          call{.params = buffers.params(),
               .dtype = problem.dtype,
               .output = problem.output,
               .layout = problem.layout} {
      buffers.reset_output(stream);
    }
    std::string failure(const Stream& stream) const {
      const double different = buffers.compare(stream).different_elements;
      const unsigned long long disturbed = buffers.disturbed_words(stream);
      return different == 0.0 && disturbed == 0
                 ? ""
                 : std::to_string(different) + " elements differ, " + std::to_string(disturbed) +
                       " words around C were written";
    }
    GemmBuffers buffers;
    GemmCall call;
  };

  static std::string failure(Runtime& runtime, const GemmProblem& problem, const Stream& stream) {
    const Case given(problem, stream);
    runtime.gemm(given.call, stream.handle());
    return given.failure(stream);
  }

  TempDirectory directory_;
  std::filesystem::path database_ = directory_ / "tuned.db";
  std::filesystem::path exported_ = directory_ / "kernels";
};

TEST_F(GemmRuntimeOnGpu, CompilesLooksUpAndComputesRightProducts) {
  record(product(512, 512, 512), portable_tile());
  Runtime runtime({.database = database_, .generator = {.cache_dir = directory_ / "cache"}});
  for (const GemmProblem& problem : {product(512, 512, 512), product(1, 520, 264),
                                     product(300, 8, 1000), product(129, 264, 72)}) {
    EXPECT_EQ(failure(runtime, problem, bench().stream), "") << to_string(problem);
  }
  EXPECT_EQ(runtime.prepare(product(512, 512, 512)).level, MatchLevel::exact);
  EXPECT_NE(runtime.prepare(product(300, 8, 1000)).level, MatchLevel::default_only);
}

TEST_F(GemmRuntimeOnGpu, UntunedKindsRunWithTheModelledVariant) {
  Runtime runtime({.generator = {.cache_dir = directory_ / "cache"}});
  GemmProblem transposed = product(100, 72, 200);
  transposed.layout = GemmLayout::tn;
  transposed.output = OutputType::fp32;
  GemmProblem added = product(77, 136, 64);
  added.layout = GemmLayout::nn;
  added.batch = 3;
  added.reads_c = true;
  GemmProblem odd = product(33, 35, 37);
  odd.alignment_bytes = 2;
  for (const GemmProblem& problem : {transposed, added, odd}) {
    EXPECT_EQ(failure(runtime, problem, bench().stream), "") << to_string(problem);
  }
}

TEST_F(GemmRuntimeOnGpu, ServesHopperKernelsFromAnExport) {
  if (bench().device.sm_arch != 90) {
    GTEST_SKIP() << "the family needs sm_90";
  }
  record(product(1024, 1024, 1024), hopper_tile());
  Runtime runtime(exported_only());
  for (const GemmProblem& problem :
       {product(1024, 1024, 1024), product(1000, 520, 72), product(1, 4096, 512)}) {
    EXPECT_EQ(failure(runtime, problem, bench().stream), "") << to_string(problem);
  }
}

TEST_F(GemmRuntimeOnGpu, ThreadsOnTheirOwnStreamsSumSplitsInMemoryOfTheirOwn) {
  record(product(64, 512, 4096), split_tile());
  Runtime runtime(exported_only());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&runtime, t] {
      bench().context.make_current();
      const Stream stream;
      for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(failure(runtime, product(16 + 32 * t + i, 512, 4096), stream), "");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(GemmRuntimeOnGpu, ACapturedSplitReplaysToTheSameProduct) {
  constexpr int kReplays = 1000;
  record(product(64, 512, 4096), split_tile());
  Runtime runtime(exported_only());
  const Case given(product(64, 512, 4096), bench().stream);
  const Graph graph(bench().stream, [&] { runtime.gemm(given.call, bench().stream.handle()); });
  for (int i = 0; i < kReplays; ++i) {
    graph.launch(bench().stream);
  }
  EXPECT_EQ(given.failure(bench().stream), "");
}

// A measured winner goes through the store and the export, and runs from the exported files with
// the driver's C interface alone.

AttentionProblem shipped_problem() {
  return {.batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seq_q = 150,
          .seq_kv = 170,
          .head_dim = 64,
          .dtype = DType::bf16,
          .causal = true};
}

AttentionVariant shipped_variant() {
  return {.tile_m = 64,
          .tile_n = 32,
          .warps = 4,
          .order = Order::sawtooth,
          .persistence = Persistence::persistent,
          .workers = 3,
          .swizzle = AttentionSwizzle::head_sections,
          .section_heads = 3};
}

/// bf16 values n / 64 with |n| < 128, which bf16 holds exactly.
std::vector<std::uint16_t> random_elements(std::mt19937& random, int rows, int head_dim) {
  std::uniform_int_distribution<int> numerator(-127, 127);
  std::vector<std::uint16_t> elements;
  for (int i = 0; i < rows * head_dim; ++i) {
    const float value = static_cast<float>(numerator(random)) / 64.0F;
    elements.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  return elements;
}

std::vector<double> decoded(const std::vector<std::uint16_t>& elements) {
  std::vector<double> values;
  for (const std::uint16_t element : elements) {
    values.push_back(value_of(element, DType::bf16));
  }
  return values;
}

TensorStrides contiguous(int heads, int seq, int head_dim) {
  const long long row = head_dim;
  return {.batch = row * seq * heads, .head = row * seq, .seq = row};
}

/// What the caller of a shipped kernel knows of its own tensors.
AttentionParams arguments_for(const AttentionProblem& problem, int section_heads) {
  AttentionParams params;
  params.q_strides = contiguous(problem.heads_q, problem.seq_q, problem.head_dim);
  params.k_strides = contiguous(problem.heads_kv, problem.seq_kv, problem.head_dim);
  params.v_strides = params.k_strides;
  params.o_strides = params.q_strides;
  params.batch = problem.batch;
  params.heads_q = problem.heads_q;
  params.heads_kv = problem.heads_kv;
  params.seq_q = problem.seq_q;
  params.seq_kv = problem.seq_kv;
  params.scale_log2 =
      std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(problem.head_dim));
  params.section_heads = section_heads;
  return params;
}

class ExportedCubin : public GpuTest {
 protected:
  /// Measures the variant, stores the result and exports it.
  void export_winner(const Problem& problem, const Variant& variant) {
    const VariantResult result = measured(problem, variant);
    bench().context.make_current();  // The evaluator leaves none.
    ASSERT_EQ(result.state, ResultState::ok) << result.detail;
    Store store(directory_ / "tuned.db", Store::Mode::read_write);
    store.record(store.begin_run({}), problem, bench().device, result);
    export_kernels(store, bench().generator, out_);
  }

  static VariantResult measured(const Problem& problem, const Variant& variant) {
    MeasureOptions options;
    options.counters = false;
    MeasuringEvaluator evaluator(bench().generator, options);
    return evaluator.evaluate(problem, variant,
                              bench().generator.compile(problem, variant, bench().device.sm_arch));
  }

  TempDirectory directory_;
  std::filesystem::path out_ = directory_ / "out";
};

TEST_F(ExportedCubin, GivesTheRightOutputWithNothingButTheDriver) {
  ASSERT_NO_FATAL_FAILURE(export_winner(shipped_problem(), shipped_variant()));
  const Manifest manifest = read_manifest(out_);
  ASSERT_EQ(manifest.kernels.size(), 1U);
  const ExportedKernel& kernel = manifest.kernels.front();
  EXPECT_FALSE(kernel.rebuilt);
  const auto& problem = kernel.problem.as<AttentionProblem>();
  EXPECT_EQ(problem, shipped_problem());

  std::mt19937 random(5);
  const int rows_q = problem.batch * problem.heads_q * problem.seq_q;
  const int rows_kv = problem.batch * problem.heads_kv * problem.seq_kv;
  const auto q = random_elements(random, rows_q, problem.head_dim);
  const auto k = random_elements(random, rows_kv, problem.head_dim);
  const auto v = random_elements(random, rows_kv, problem.head_dim);
  const ShippedKernel shipped{
      .cubin = read_cubin(out_, kernel),
      .entry = kernel.entry,
      .grid_x = static_cast<unsigned>(kernel.launch.grid_x),
      .block_x = static_cast<unsigned>(kernel.launch.block_x),
      .dynamic_smem_bytes = static_cast<unsigned>(kernel.launch.dynamic_smem_bytes)};
  const auto o =
      run_shipped_kernel(shipped, arguments_for(problem, kernel.launch.section_heads), q, k, v);
  const emulation::AttentionOutputs expected = emulation::attention(
      case_of(problem),
      {.q = decoded(q), .k = decoded(k), .v = decoded(v), .d_o = {}, .d_lse = {}});
  EXPECT_LT(relative_error(decoded(o), expected.o), 1e-2);
}

TEST_F(ExportedCubin, OfGemmGivesTheRightProduct) {
  const GemmProblem problem{.m = 300, .n = 264, .k = 520, .layout = GemmLayout::nn};
  const GemmVariant variant{.tile_m = 64,
                            .tile_n = 128,
                            .persistence = Persistence::persistent,
                            .workers = 3,
                            .k_order = Order::sawtooth,
                            .raster = Raster::serpentine,
                            .raster_group = 2,
                            .swizzle_stride = 128};
  ASSERT_NO_FATAL_FAILURE(export_winner(problem, variant));
  const Manifest manifest = read_manifest(out_);
  ASSERT_EQ(manifest.kernels.size(), 1U);
  const ExportedKernel& exported = manifest.kernels.front();
  EXPECT_EQ(exported.problem, Problem(problem));
  EXPECT_EQ(exported.launch.grid_x, 3);

  const auto& shipped = exported.variant.as<GemmVariant>();
  const GemmReferenceKernels references(bench().generator, bench().device.sm_arch);
  const GemmBuffers buffers(problem, references, bench().stream, GemmInputs::binary, 1.0F, 0.0F);
  GemmKernel kernel({.entry = exported.entry,
                     .cubin = read_cubin(out_, exported),
                     .may_overlap = exported.may_overlap},
                    make_gemm_config(problem, shipped), shipped.workers);
  GemmParams params = make_gemm_params(problem, shipped);
  const GemmParams matrices = buffers.params();
  params.a = matrices.a;
  params.b = matrices.b;
  params.c = matrices.c;
  params.a_strides = matrices.a_strides;
  params.b_strides = matrices.b_strides;
  params.c_strides = matrices.c_strides;
  buffers.reset_output(bench().stream);
  kernel.launch(params, bench().stream.handle());
  EXPECT_EQ(buffers.compare(bench().stream).different_elements, 0.0);
  EXPECT_EQ(buffers.disturbed_words(bench().stream), 0U);
}

}  // namespace
}  // namespace swr
