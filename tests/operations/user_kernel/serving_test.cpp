// SPDX-License-Identifier: MIT
// Users' kernels in programs: what is stored answers, is exported and launched, on a driver that
// runs functions of this test.
#include "core/sha256.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include "export/export.h"
#include "tests/db/fixtures.h"
#include "tests/export/built_package.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include <swr/kernel_call.h>
#include <swr/kernel_spec.h>

namespace {

float served_variable[2];
unsigned served_grid = 0;
int served_finishes = 0;

template <typename Value>
Value argument(void** arguments, int place) {
  return *static_cast<Value*>(arguments[place]);
}

}  // namespace

extern "C" {

FakeVariable fake_variable_offsets{served_variable, sizeof served_variable};

void fake_kernel_serve(FakeShape shape, void** arguments) {
  auto* const y = argument<float*>(arguments, 0);
  const auto* const x = argument<const float*>(arguments, 1);
  const auto n = argument<int>(arguments, 3);
  for (int i = 0; i < n; ++i) {
    y[i] = argument<float>(arguments, 2) * x[i] + served_variable[0];
  }
  served_grid = shape.grid[0];
}

void fake_kernel_finish(FakeShape /*shape*/, void** /*arguments*/) { ++served_finishes; }
}

namespace swr {
namespace {

/// Two kernels and constant memory. Larger blocks than a size are illegal for it.
KernelSpec served_spec() {
  KernelSpec spec = test::scale_spec("served");
  spec.constraints = {"block_size_x <= n"};
  spec.arguments.push_back({.name = "offsets",
                            .type = "float",
                            .size = "2",
                            .is_constant = true,
                            .fill = KernelFill::zeros});
  spec.steps[0].entry = "serve";
  spec.steps.push_back(
      {.entry = "finish", .block = {"32"}, .grid = {"1"}, .arguments = {"y"}, .repeat = "2"});
  return spec;
}

CompiledKernel fake_cubin(const Problem& problem, const Variant& variant, int sm_arch) {
  const std::string key = to_key(kernel_of(variant)) + to_string(problem);
  CompiledKernel kernel{.entry = "serve", .further_entries = {"finish"}, .sm_arch = sm_arch};
  for (const char c : key) {
    kernel.cubin.push_back(static_cast<std::byte>(c));
  }
  kernel.cubin_digest = sha256_hex(kernel.cubin);
  kernel.resources.registers_per_thread = 32;
  return kernel;
}

class UserServing : public ::testing::Test {
 protected:
  void record(int n, const char* key, double median_us) {
    const Problem problem = kernel_problem(served_, {{"n", n}});
    VariantResult result = measured(parse_variant(served_, key), median_us);
    result.resources.registers_per_thread = 32;
    store_.record(run_, problem, device_, result);
  }
  RuntimeOptions exported() {
    export_kernels(store_, fake_cubin, directory_ / "kernels", {.op = &served_});
    return {.exported = directory_ / "kernels", .may_compile = false};
  }

  const Operation& served_ = register_kernel(served_spec());
  TempDirectory directory_;
  Store store_{directory_ / "tuned.db", Store::Mode::read_write};
  DeviceInfo device_ = list_devices().front();
  long long run_ = store_.begin_run(some_run());
  PrimaryContext context_{0};
  CUstream_st* stream_ = reinterpret_cast<CUstream_st*>(std::uintptr_t{64});
  std::array<float, 2> offsets_{0.5F, 0.0F};
  std::array<float, 4> x_{1.0F, 2.0F, 3.0F, 4.0F};
  std::array<float, 4> y_{};
};

TEST_F(UserServing, AnExportLaunchesEveryKernelOnTheCallersArguments) {
  record(1000, "block_size_x=128,mode=slow,split=2", 10.0);
  record(1000, "block_size_x=32,mode=fast,split=1", 20.0);
  Runtime runtime(exported());
  const Problem problem = kernel_problem(served_, {{"n", 1000}});
  EXPECT_EQ(to_key(runtime.best(problem, device_).variant),
            "family=portable,block_size_x=128,mode=slow,split=2");
  served_finishes = 0;
  const KernelCall call(y_.data(), x_.data(), 3.0F, 4, offsets_.data());
  launch(runtime, problem, call, stream_);
  EXPECT_THAT(y_, testing::ElementsAre(3.5F, 6.5F, 9.5F, 12.5F));
  EXPECT_EQ(served_grid, 8U);
  EXPECT_EQ(served_finishes, 2);
}

TEST_F(UserServing, TheNearestSizeAnswersWhereItIsLegal) {
  record(1000, "block_size_x=128,mode=slow,split=1", 10.0);
  record(40, "block_size_x=32,mode=slow,split=1", 10.0);
  Runtime runtime(exported());
  const KernelCall call(y_.data(), x_.data(), 1.0F, 4, offsets_.data());
  launch(runtime, kernel_problem(served_, {{"n", 900}}), call, stream_);
  EXPECT_EQ(served_grid, 8U) << "blocks of 128";
  // A block of 128 is illegal for 100 elements, and the other one is not.
  launch(runtime, kernel_problem(served_, {{"n", 100}}), call, stream_);
  EXPECT_EQ(served_grid, 4U) << "blocks of 32";
}

TEST_F(UserServing, ArgumentsThatDoNotFitAreNamed) {
  record(1000, "block_size_x=128,mode=slow,split=1", 10.0);
  Runtime runtime(exported());
  const Problem problem = kernel_problem(served_, {{"n", 1000}});
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument,
                 [&] { launch(runtime, problem, KernelCall(y_.data(), x_.data()), stream_); }),
      HasSubstr("takes 5 arguments, and 2 are given"));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           launch(runtime, problem,
                                  KernelCall(y_.data(), x_.data(), 3.0, 4, offsets_.data()),
                                  stream_);
                         }),
              HasSubstr("argument factor of served n=1000 has 4 bytes, and 8 are given"));
}

TEST_F(UserServing, AKernelWithItsSizesCompiledInServesNoOther) {
  KernelSpec spec = served_spec();
  spec.name = "sized";
  spec.defines = {{"length", "n"}};
  const Operation& sized = register_kernel(spec);
  VariantResult result = measured(parse_variant(sized, "block_size_x=64,mode=slow,split=1"), 10.0);
  result.resources.registers_per_thread = 32;
  store_.record(run_, kernel_problem(sized, {{"n", 1000}}), device_, result);
  export_kernels(store_, fake_cubin, directory_ / "kernels", {.op = &sized});
  Runtime runtime({.exported = directory_ / "kernels", .may_compile = false});
  const KernelCall call(y_.data(), x_.data(), 3.0F, 4, offsets_.data());
  launch(runtime, kernel_problem(sized, {{"n", 1000}}), call, stream_);
  EXPECT_EQ(y_[3], 12.5F);
  EXPECT_THAT(message_of(ErrorCode::not_compiled,
                         [&] {
                           launch(runtime, kernel_problem(sized, {{"n", 999}}), call, stream_);
                         }),
              HasSubstr("nothing may be compiled while serving"));
}

TEST_F(UserServing, APackageComputesLaunchesForSizesThatNobodyTuned) {
  record(1000, "block_size_x=128,mode=slow,split=1", 10.0);
  record(40, "block_size_x=32,mode=fast,split=1", 10.0);
  const std::filesystem::path package = directory_ / "package";
  export_package(store_, fake_cubin, package, "my_kernels", {.op = &served_});
  const auto answers =
      test::BuiltPackage(package, directory_).ask("served", "1000\n900\n100\n10\n0\n");
  ASSERT_THAT(answers, SizeIs(5));
  EXPECT_THAT(answers[0], HasSubstr("grid 8 block 128 sum 25 finished 2"));
  EXPECT_THAT(answers[1], HasSubstr("grid 8 block 128"));
  EXPECT_THAT(answers[2], HasSubstr("grid 4 block 32"));
  EXPECT_THAT(answers[3], StartsWith("error 2 no kernel of this package fits sizes 10"));
  EXPECT_THAT(answers[4], StartsWith("error 0 every size must be 1 or more, not 0"));
}

TEST_F(UserServing, WithoutResultsTheDefaultVariantIsExported) {
  const Problem problem = kernel_problem(served_, {{"n", 5000}});
  const ExportFilter filter{.ops = {&served_}, .defaults = {{problem, device_}}};
  const Manifest manifest = export_kernels(nullptr, fake_cubin, directory_ / "kernels", filter);
  ASSERT_EQ(manifest.kernels.size(), 1U);
  EXPECT_EQ(manifest.kernels[0].problem, problem);
  EXPECT_EQ(manifest.kernels[0].variant, default_variant(problem, device_));
  EXPECT_EQ(manifest.kernels[0].time_us, 0.0);
  EXPECT_EQ(read_manifest(directory_ / "kernels").kernels.size(), 1U);
  // What was measured on the device is better than the default.
  record(1000, "block_size_x=128,mode=slow,split=1", 10.0);
  const Manifest measured = export_kernels(&store_, fake_cubin, directory_ / "kernels", filter);
  ASSERT_EQ(measured.kernels.size(), 1U);
  EXPECT_EQ(measured.kernels[0].time_us, 10.0);
}

}  // namespace
}  // namespace swr
