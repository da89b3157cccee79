// SPDX-License-Identifier: MIT
#include "runtime/kernel_source.h"

#include "driver/cuda_driver.h"
#include "generator/cubin_cache.h"
#include "generator/template_set.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>

#include <fstream>

namespace swr {
namespace {

namespace fs = std::filesystem;

class KernelSourceTest : public ServingTest {
 protected:
  Choice choice(const Problem& problem) const {
    return {Lookup(database_).best(problem, device_), true};
  }
  /// Puts a cubin where the cache keeps it.
  void cache(const CompiledKernel& kernel, const std::string& name) const {
    fs::create_directories(directory_ / "cache" / "cubins");
    std::ofstream file(directory_ / "cache" / "cubins" / (name + ".cubin"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(kernel.cubin.data()),
               static_cast<std::streamsize>(kernel.cubin.size()));
  }
  KernelSource with_cache() const {
    return KernelSource({.database = database_, .generator = {.cache_dir = directory_ / "cache"}});
  }
  /// From now on results are of the templates in effect.
  void begin_current_run() {
    RunInfo run = some_run();
    run.templates_digest = TemplateSet::built_in().digest();
    run_ = store_.begin_run(run);
  }
};

TEST_F(KernelSourceTest, AnExportedKernelServesEveryShapeAndLaunchOfItsKind) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const KernelSource source({.exported = export_all()});
  Choice wanted = source.best_exported(problem_of(8192), device_).value();
  EXPECT_EQ(wanted.answer.level, MatchLevel::nearest);
  attention(wanted.answer.variant).swizzle = AttentionSwizzle::head_fastest;
  const auto kernel = source.find(problem_of(8192), wanted, 90);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->cubin, key_as_cubin({}, tile(128, 64), 90).cubin);
  EXPECT_FALSE(source.find(problem_of(8192), wanted, 120)) << "another architecture";
  AttentionProblem causal = problem_of(8192);
  causal.causal = true;
  EXPECT_FALSE(source.find(causal, wanted, 90)) << "another kind";
  attention(wanted.answer.variant).tile_m = 64;
  EXPECT_FALSE(source.find(problem_of(8192), wanted, 90)) << "another tile";
}

TEST_F(KernelSourceTest, NothingExportedFitsAnotherKind) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const KernelSource source({.exported = export_all()});
  AttentionProblem bf16 = problem_of(4096);
  bf16.dtype = DType::bf16;
  EXPECT_FALSE(source.best_exported(bf16, device_));
}

TEST_F(KernelSourceTest, TheRecordedCubinComesFromTheCacheWithoutACompiler) {
  begin_current_run();
  record(problem_of(4096), tile(128, 64), 10.0);
  const CompiledKernel recorded = key_as_cubin({}, tile(128, 64), 90);
  EXPECT_FALSE(with_cache().find(problem_of(4096), choice(problem_of(4096)), 90));
  cache(recorded, recorded.cubin_digest);
  const auto kernel = with_cache().find(problem_of(4096), choice(problem_of(4096)), 90);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->cubin, recorded.cubin);
  EXPECT_EQ(kernel->entry, "swr_attention");
}

TEST_F(KernelSourceTest, WhatWasTunedNearByServesFromTheCacheWhereTheBestIsNotAtHand) {
  begin_current_run();
  record(problem_of(4096), tile(64, 32), 10.0);
  const CompiledKernel recorded = key_as_cubin({}, tile(64, 32), 90);
  cache(recorded, recorded.cubin_digest);
  RuntimeOptions options{.database = database_, .may_compile = false};
  options.generator.cache_dir = directory_ / "cache";
  Runtime runtime(options);
  const PrimaryContext context(0);
  EXPECT_NE(runtime.best(problem_of(6000), device_).variant, tile(64, 32))
      << "the closed form knows better";
  EXPECT_EQ(runtime.prepare(problem_of(6000)).variant, tile(64, 32));
}

TEST_F(KernelSourceTest, ADamagedCubinInTheCacheIsNone) {
  begin_current_run();
  record(problem_of(4096), tile(128, 64), 10.0);
  cache(key_as_cubin({}, tile(64, 64), 90), key_as_cubin({}, tile(128, 64), 90).cubin_digest);
  EXPECT_FALSE(with_cache().find(problem_of(4096), choice(problem_of(4096)), 90));
}

TEST_F(KernelSourceTest, ACubinOfOtherTemplatesIsNotTaken) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const CompiledKernel recorded = key_as_cubin({}, tile(128, 64), 90);
  cache(recorded, recorded.cubin_digest);
  EXPECT_FALSE(with_cache().find(problem_of(4096), choice(problem_of(4096)), 90))
      << "it may take other parameters";
}

TEST_F(KernelSourceTest, ADigestThatIsAPathIsNoDigest) {
  EXPECT_FALSE(read_cached_cubin(directory_ / "cache", "../../tuned", Sharing::none));
}

}  // namespace
}  // namespace swr
