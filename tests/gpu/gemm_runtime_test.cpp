// SPDX-License-Identifier: MIT
// GEMM of the runtime on a GPU: right products with kernels from the compiler and from an export,
// also where splits of k meet in memory of the runtime, from several threads and from a graph.
#include "export/export.h"
#include "operations/gemm/buffers.h"
#include "tests/db/fixtures.h"
#include "tests/gpu/gpu_test.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/runtime.h>

namespace swr {
namespace {

GemmProblem product(int m, int n, int k) { return {.m = m, .n = n, .k = k}; }

GemmVariant portable_tile() { return {.tile_m = 64, .tile_n = 64}; }

GemmVariant split_tile() {
  GemmVariant variant = portable_tile();
  variant.splits = 4;
  return variant;
}

GemmVariant hopper_tile() {
  GemmVariant variant{.family = Family::hopper, .tile_m = 128, .tile_n = 128, .tile_k = 64};
  variant.consumers = 2;
  variant.cluster_m = 2;
  variant.persistence = Persistence::persistent;
  return variant;
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

}  // namespace
}  // namespace swr
