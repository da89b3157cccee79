// SPDX-License-Identifier: MIT
// The runtime on a GPU: right outputs with kernels from the compiler, the cache and an export, from
// several threads and streams, and from a captured graph.
#include "export/export.h"
#include "operations/attention/buffers.h"
#include "operations/attention/verifier.h"
#include "tests/db/fixtures.h"
#include "tests/gpu/gpu_test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/runtime.h>

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

}  // namespace
}  // namespace swr
