// SPDX-License-Identifier: MIT
// Kernels that ship: what serves, and what must never be loaded.
#include "driver/cuda_driver.h"
#include "generator/kernel_archive.h"
#include "generator/kernel_recipe.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"
#include <swr/gemm_problem.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

class ShippedKernelsTest : public ServingTest {
 protected:
  ~ShippedKernelsTest() override { unsetenv("SWR_KERNELS"); }

  /// As it would be compiled from the templates of today.
  KernelToArchive shipped(const Problem& problem, const Variant& variant) const {
    return {variant_recipe(templates_, problem, variant, 90).digest(), "attention portable",
            key_as_cubin(problem, variant, 90)};
  }
  /// With what is chosen for a problem, and others around it.
  void ship(const Problem& problem) const {
    const Variant chosen = Lookup(LookupOptions{}).best(problem, device_).variant;
    write_kernel_archive(archive_, {shipped(problem, chosen), shipped(problem, tile(64, 32)),
                                    shipped(problem, tile(16, 16))});
  }
  RuntimeOptions without_compiler() const {
    RuntimeOptions options{.may_compile = false, .kernels = archive_};
    options.generator.nvrtc_library = directory_ / "nowhere.so";
    return options;
  }
  void write(const std::string& text) const { std::ofstream(archive_, std::ios::binary) << text; }

  const TemplateSet templates_ = TemplateSet::built_in();
  fs::path archive_ = directory_ / "swr-kernels.bin";
  PrimaryContext context_{0};
};

TEST_F(ShippedKernelsTest, ServeUntunedAnswersWithoutACompiler) {
  ship(problem_of(4096));
  Runtime runtime(without_compiler());
  const long long launches = fake_launches();
  runtime.attention(call_of(problem_of(4096)), nullptr);
  EXPECT_EQ(fake_launches(), launches + 1);
}

TEST_F(ShippedKernelsTest, ServeWhatIsAddedToARuntime) {
  RuntimeOptions options = without_compiler();
  options.kernels = "";
  Runtime runtime(options);
  EXPECT_EQ(error_of([&] { runtime.prepare(problem_of(4096)); }).code(), ErrorCode::not_compiled);
  ship(problem_of(4096));
  runtime.use_kernels(archive_);
  EXPECT_EQ(runtime.prepare(problem_of(4096)).level, MatchLevel::modelled);
}

TEST_F(ShippedKernelsTest, AreFoundAsWhatTheyWere) {
  const Variant variant = tile(64, 32);
  ship(problem_of(4096));
  const KernelArchive archive(archive_);
  const CompiledKernel wanted = key_as_cubin(problem_of(4096), variant, 90);
  const auto found = archive.find(variant_recipe(templates_, problem_of(4096), variant, 90));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cubin, wanted.cubin);
  EXPECT_EQ(found->cubin_digest, wanted.cubin_digest);
  EXPECT_EQ(found->entry, wanted.entry);
  EXPECT_EQ(found->resources, wanted.resources);
  EXPECT_EQ(found->may_overlap, wanted.may_overlap);
  EXPECT_FALSE(archive.find(variant_recipe(templates_, problem_of(4096), variant, 120)));
}

TEST_F(ShippedKernelsTest, ServeEveryShapeThatTakesTheSameKernel) {
  ship(problem_of(4096));
  const KernelArchive archive(archive_);
  AttentionProblem causal = problem_of(4096);
  causal.causal = true;
  EXPECT_TRUE(archive.find(variant_recipe(templates_, problem_of(77), tile(64, 32), 90)));
  EXPECT_FALSE(archive.find(variant_recipe(templates_, causal, tile(64, 32), 90)));
}

TEST_F(ShippedKernelsTest, OfOtherTemplatesAreNone) {
  ship(problem_of(4096));
  const KernelArchive archive(archive_);
  const auto with = [&](const char* path) {
    const TemplateSet other = templates_.with(path, templates_.text(path) + "\n");
    return archive.find(variant_recipe(other, problem_of(4096), tile(64, 32), 90));
  };
  EXPECT_FALSE(with("common/smem_layout.h")) << "a file that the kernel includes";
  EXPECT_TRUE(with("softmax/softmax.cu")) << "one that it does not";
}

TEST_F(ShippedKernelsTest, NoDamagedFileGivesAnotherKernel) {
  ship(problem_of(4096));
  const std::string whole = bytes_of(archive_);
  const KernelRecipe recipe = variant_recipe(templates_, problem_of(4096), tile(64, 32), 90);
  const CompiledKernel wanted = key_as_cubin(problem_of(4096), tile(64, 32), 90);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write(damaged);
    try {
      const auto found = KernelArchive(archive_).find(recipe);
      EXPECT_TRUE(found && found->cubin == wanted.cubin) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable) << "byte " << at;
      EXPECT_THAT(error.what(), HasSubstr(archive_.string()));
    }
  }
}

TEST_F(ShippedKernelsTest, ACutFileIsRefused) {
  ship(problem_of(4096));
  const std::string whole = bytes_of(archive_);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write(whole.substr(0, length));
    EXPECT_EQ(error_of([&] { KernelArchive{archive_}; }).code(), ErrorCode::unreadable) << length;
  }
}

TEST_F(ShippedKernelsTest, AFileThatIsNamedMustBeRight) {
  write("something else");
  EXPECT_EQ(error_of([&] { Runtime{without_compiler()}; }).code(), ErrorCode::unreadable);
}

TEST_F(ShippedKernelsTest, AnInstalledOneThatIsDamagedIsLeftAsideAndSaid) {
  write("something else");
  setenv("SWR_KERNELS", archive_.c_str(), 1);
  RuntimeOptions options = without_compiler();
  options.kernels.reset();
  testing::internal::CaptureStderr();
  Runtime runtime(options);
  EXPECT_EQ(error_of([&] { runtime.prepare(problem_of(4096)); }).code(), ErrorCode::not_compiled);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is no archive of kernels"));
}

TEST_F(ShippedKernelsTest, WhatIsInstalledServesWithoutASetting) {
  ship(problem_of(4096));
  setenv("SWR_KERNELS", archive_.c_str(), 1);
  RuntimeOptions options = without_compiler();
  options.kernels.reset();
  Runtime runtime(options);
  EXPECT_EQ(runtime.prepare(problem_of(4096)).level, MatchLevel::modelled);
}

TEST_F(ShippedKernelsTest, ThatOneIsMissingIsSaidOnce) {
  ship(problem_of(4096));
  RuntimeOptions options = without_compiler();
  options.may_compile = true;
  Runtime runtime(options);
  testing::internal::CaptureStderr();
  for (const GemmProblem& missing :
       {GemmProblem{.m = 64, .n = 64, .k = 64}, GemmProblem{.m = 4096, .n = 64, .k = 64}}) {
    EXPECT_EQ(error_of([&] { runtime.prepare(missing); }).code(), ErrorCode::no_nvrtc);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("none of the 3 kernels for sm_90"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST_F(ShippedKernelsTest, AreExportedWhereThereIsNoCompiler) {
  write_kernel_archive(archive_, {shipped(problem_of(4096), tile(128, 64))});
  setenv("SWR_KERNELS", archive_.c_str(), 1);
  const GeneratorOptions options{.nvrtc_library = directory_ / "nowhere.so"};
  record(problem_of(4096), tile(128, 64), 10.0);
  EXPECT_EQ(export_kernels(store_, cubins_with(options), exported_).kernels.size(), 1U);
  record(problem_of(4096), tile(64, 64), 5.0);
  const Error error = error_of([&] { export_kernels(store_, cubins_with(options), exported_); });
  EXPECT_EQ(error.code(), ErrorCode::no_nvrtc);
  EXPECT_THAT(error.what(), HasSubstr("has no kernel for"));
}

}  // namespace
}  // namespace swr
