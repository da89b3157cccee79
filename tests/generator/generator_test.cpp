// SPDX-License-Identifier: MIT
#include "core/sha256.h"
#include "generator/cubin_cache.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>

#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

constexpr std::string_view kSaxpy = R"(
#include "tools/multiply.cuh"
#include "tests/support/test.h"
extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] += multiply(a, x[i]);
  }
}
)";
constexpr std::string_view kMultiply = R"(#pragma once
__device__ inline float multiply(float a, float b) { return a * b; }
)";

/// A small kernel of its own in an overlay.
class OverlayGenerator : public testing::Test {
 protected:
  OverlayGenerator() {
    overlay_.write("tools/saxpy.cu", kSaxpy);
    overlay_.write("tools/multiply.cuh", kMultiply);
  }

  GeneratorOptions options() const {
    return {.template_overlay = overlay_.path(),
            .cache_dir = cache_.path() / "cubins of swr",
            .nvrtc_library = {}};
  }

  CompiledKernel compile(int sm_arch = 90) const {
    return Generator(options()).compile_template("tools/saxpy.cu", "saxpy", sm_arch);
  }

  TempDirectory overlay_;
  TempDirectory cache_;
};

TEST_F(OverlayGenerator, CompilesATemplateWithoutAVariant) {
  const CompiledKernel kernel = compile();
  EXPECT_EQ(kernel.entry, "saxpy");
  EXPECT_EQ(kernel.sm_arch, 90);
  EXPECT_FALSE(kernel.from_cache);
  EXPECT_EQ(kernel.cubin_digest, sha256_hex(kernel.cubin));
  EXPECT_GT(kernel.resources.registers_per_thread, 0);
  EXPECT_EQ(kernel.resources.spill_store_bytes, 0);
  const std::string_view image(reinterpret_cast<const char*>(kernel.cubin.data()), 4);
  EXPECT_EQ(image,
            "\x7f"
            "ELF");
}

TEST_F(OverlayGenerator, SecondCompilationComesFromTheCache) {
  const CompiledKernel cold = compile();
  const CompiledKernel warm = compile();
  EXPECT_TRUE(warm.from_cache);
  EXPECT_EQ(warm.cubin, cold.cubin);
  EXPECT_EQ(warm.resources, cold.resources);
  EXPECT_EQ(warm.source_digest, cold.source_digest);
}

TEST_F(OverlayGenerator, IncludedTextAndArchitectureArePartOfTheKey) {
  const CompiledKernel original = compile();
  EXPECT_NE(compile(80).source_digest, original.source_digest);
  overlay_.write("tools/multiply.cuh", std::string(kMultiply) + "// changed\n");
  const CompiledKernel changed = compile();
  EXPECT_FALSE(changed.from_cache);
  EXPECT_NE(changed.source_digest, original.source_digest);
}

TEST_F(OverlayGenerator, UnrelatedTemplatesAreNotPartOfTheKey) {
  const CompiledKernel original = compile();
  overlay_.write("tools/unrelated.cuh", "#pragma once\n");
  EXPECT_EQ(compile().source_digest, original.source_digest);
}

TEST_F(OverlayGenerator, WorksWithoutACache) {
  GeneratorOptions uncached = options();
  uncached.cache_dir.reset();
  const Generator generator(uncached);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(generator.compile_template("tools/saxpy.cu", "saxpy", 90).from_cache);
  }
}

TEST_F(OverlayGenerator, NamesAnEntryThatDoesNotExist) {
  const Generator generator(options());
  const std::string message = message_of(ErrorCode::compile_failed, [&] {
    generator.compile_template("tools/saxpy.cu", "daxpy", 90);
  });
  EXPECT_THAT(message, HasSubstr("'daxpy'"));
}

TEST_F(OverlayGenerator, CompileErrorCarriesTheLogWithTheRealFileName) {
  overlay_.write("tools/multiply.cuh", "#pragma once\n\nfloat multiply(undeclared a);\n");
  const std::string message = message_of(ErrorCode::compile_failed, [&] { compile(); });
  EXPECT_THAT(message, HasSubstr("tools/multiply.cuh(3): error"));
}

TEST_F(OverlayGenerator, ThreadsCompileAtTheSameTime) {
  const Generator generator(options());
  std::vector<std::thread> threads;
  for (const int arch : {80, 86, 89, 90, 80, 86, 89, 90}) {
    threads.emplace_back([&generator, arch] {
      EXPECT_EQ(generator.compile_template("tools/saxpy.cu", "saxpy", arch).sm_arch, arch);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(OverlayGenerator, MayBeDestroyedBeforeTheThreadsThatCompiled) {
  // NVRTC leaves thread-local state behind, whose destructors run when the thread ends.
  std::promise<void> compiled;
  std::promise<void> destroyed;
  std::thread thread;
  {
    const Generator generator(options());
    thread = std::thread([&] {
      generator.compile_template("tools/saxpy.cu", "saxpy", 90);
      compiled.set_value();
      destroyed.get_future().wait();
    });
    compiled.get_future().wait();
  }
  destroyed.set_value();
  thread.join();
}

/// Compiles for several architectures in a child process; returns the child's id.
pid_t compile_in_child(const GeneratorOptions& options, const std::vector<int>& archs) {
  const pid_t child = fork();
  if (child != 0) {
    return child;
  }
  try {
    const Generator generator(options);
    for (const int arch : archs) {
      if (generator.compile_template("tools/saxpy.cu", "saxpy", arch).cubin.empty()) {
        _exit(1);
      }
    }
  } catch (const std::exception& error) {
    _exit(2);
  }
  _exit(0);
}

TEST_F(OverlayGenerator, TwoProcessesShareAColdCache) {
  const std::vector<int> archs{80, 86, 89, 90, 100, 120};
  const pid_t first = compile_in_child(options(), archs);
  const pid_t second = compile_in_child(options(), archs);
  for (const pid_t child : {first, second}) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  const Generator generator(options());
  for (const int arch : archs) {
    EXPECT_TRUE(generator.compile_template("tools/saxpy.cu", "saxpy", arch).from_cache) << arch;
  }
}

TEST_F(OverlayGenerator, TemplatesDigestTellsAnOverlayFromStockTemplates) {
  const Generator overlaid(options());
  const Generator stock({});
  EXPECT_NE(overlaid.templates_digest(), stock.templates_digest());
  EXPECT_EQ(stock.templates_digest(), Generator({}).templates_digest());
}

TEST(Generator, RejectsAnArchitectureThatNvrtcDoesNotKnow) {
  const Generator generator({});
  const std::string message = message_of(ErrorCode::invalid_argument, [&] {
    generator.compile(AttentionProblem{.seq_q = 64, .seq_kv = 64}, AttentionVariant{}, 91);
  });
  EXPECT_THAT(message, HasSubstr("it supports"));
}

TEST(Generator, RejectsAnArchitectureBelowTheFamily) {
  const Generator generator({});
  const std::string message = message_of(ErrorCode::invalid_argument, [&] {
    generator.compile(AttentionProblem{.seq_q = 64, .seq_kv = 64}, AttentionVariant{}, 75);
  });
  EXPECT_THAT(message, HasSubstr("needs sm_80"));
}

TEST(Generator, RejectsAProblemBeforeItReachesSource) {
  const Generator generator({});
  const AttentionProblem problem{.seq_q = 64, .seq_kv = 64, .head_dim = 63};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { generator.config_header(problem, AttentionVariant{}); }),
              HasSubstr("head-dim"));
}

TEST(Generator, SaysWhichCacheDirectoryCannotBeUsed) {
  const TempDirectory directory;
  const auto file = directory.write("file", "");
  const std::string message = message_of(ErrorCode::not_writable, [&] {
    const Generator generator({.template_overlay = {}, .cache_dir = file, .nvrtc_library = {}});
  });
  EXPECT_THAT(message, HasSubstr(file.string()));
  EXPECT_THAT(message, HasSubstr("--cache-dir"));
}

TEST(Generator, SaysThatTheOverlayIsMissing) {
  const std::string message = message_of(ErrorCode::unreadable, [] {
    const Generator generator(
        {.template_overlay = "/no/templates", .cache_dir = {}, .nvrtc_library = {}});
  });
  EXPECT_THAT(message, HasSubstr("/no/templates"));
}

TEST(Generator, SaysThatNvrtcIsMissing) {
  const std::string message = message_of(ErrorCode::no_nvrtc, [] {
    const Generator generator(
        {.template_overlay = {}, .cache_dir = {}, .nvrtc_library = "/no/libnvrtc.so"});
  });
  EXPECT_THAT(message, HasSubstr("/no/libnvrtc.so"));
}

TEST(Generator, ServesTemplateTexts) {
  const Generator generator({});
  EXPECT_THAT(generator.template_text("common/attention_schedule.h"), HasSubstr("map_tile"));
  EXPECT_THAT(generator.template_text("swr/axes.h"), HasSubstr("sawtooth"));
  EXPECT_THROW(generator.template_text("nowhere.cu"), Error);
}

/// griddepcontrol exists from sm_90 on; portable GEMM does without.
TEST(Generator, SaysWhichKernelsWaitForTheLaunchBefore) {
  const Generator generator({});
  const AttentionProblem problem{.seq_q = 64, .seq_kv = 64, .head_dim = 16};
  const AttentionVariant small{.tile_m = 16, .tile_n = 16, .warps = 1, .stages = 1};
  EXPECT_FALSE(generator.compile(problem, small, 80).may_overlap);
  EXPECT_TRUE(generator.compile(problem, small, 90).may_overlap);
  EXPECT_TRUE(generator.compile(problem, small, 121).may_overlap);
  const GemmProblem product{.m = 64, .n = 64, .k = 64};
  EXPECT_FALSE(generator.compile(product, GemmVariant{}, 90).may_overlap);
}

TEST(Generator, FlattensAVariantWithItsConfiguration) {
  const Generator generator({});
  const std::string flat = generator.flatten(
      AttentionProblem{.seq_q = 64, .seq_kv = 64, .head_dim = 128}, AttentionVariant{.stages = 3});
  EXPECT_THAT(flat, HasSubstr(".head_dim = 128,"));
  EXPECT_THAT(flat, HasSubstr(".stages = 3,"));
  EXPECT_THAT(flat, HasSubstr("swr_attention"));
}

}  // namespace
}  // namespace swr
