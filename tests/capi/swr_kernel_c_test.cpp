// SPDX-License-Identifier: MIT
// Kernels of your own from C: what C programs can get wrong.
#include "tests/support/test.h"
#include <swr/store.h>
#include <swr/swr_kernel_c.h>

namespace swr {
namespace {

class KernelCApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_.write("f.cu", "__global__ void f(float* y, int n) { y[0] = n; }\n");
    const auto spec = directory_.write("k.json", R"json({
      "swr_kernel": 1, "name": "small", "source": "f.cu", "entry": "f", "problem": {"n": 100},
      "parameters": {"block_size_x": [32, 64]}, "block": "block_size_x",
      "grid": "div_ceil(n, block_size_x)",
      "arguments": [{"name": "y", "type": "float*", "size": "n", "output": true},
                    {"name": "n", "type": "int", "value": "n"}]})json");
    ASSERT_EQ(swr_kernel_register(spec.c_str(), &kernel_), SWR_OK) << swr_last_error();
    const std::string database = directory_ / "tuned.db";
    const std::string cache = directory_ / "cache";
    Store(database, Store::Mode::read_write);
    const swr_runtime_options options{database.c_str(), nullptr, cache.c_str(),
                                      nullptr,          0,       nullptr};
    ASSERT_EQ(swr_runtime_create(&options, &runtime_), SWR_OK) << swr_last_error();
    ASSERT_EQ(swr_profiled_device("h200", &device_), SWR_OK) << swr_last_error();
  }
  void TearDown() override { swr_runtime_destroy(runtime_); }

  swr_status best(const std::int32_t* sizes, std::int32_t count) {
    return swr_runtime_best_kernel(runtime_, kernel_, sizes, count, &device_, &answer_);
  }
  swr_status launch(const swr_kernel_argument* arguments, std::int32_t count) {
    const std::int32_t size = 100;
    return swr_runtime_launch_kernel(runtime_, kernel_, &size, 1, arguments, count, nullptr,
                                     nullptr);
  }

  TempDirectory directory_;
  const swr_kernel* kernel_ = nullptr;
  swr_runtime* runtime_ = nullptr;
  swr_device device_{};
  swr_kernel_answer answer_{};
};

TEST_F(KernelCApiTest, AnswersForSizesThatAreThere) {
  const std::int32_t size = 100;
  ASSERT_EQ(best(&size, 1), SWR_OK) << swr_last_error();
  EXPECT_THAT(answer_.variant, HasSubstr("block_size_x="));
}

TEST_F(KernelCApiTest, RefusesSizesThatAreNot) {
  const std::array<std::int32_t, 2> sizes{100, 100};
  EXPECT_EQ(best(nullptr, 1), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("'sizes' is NULL"));
  for (const int count : {-1, 0, 2}) {
    EXPECT_EQ(best(sizes.data(), count), SWR_INVALID_ARGUMENT) << count;
    EXPECT_THAT(swr_last_error(), HasSubstr("has 1 sizes"));
  }
}

/// A negative count is a huge one where it becomes a size.
TEST_F(KernelCApiTest, RefusesCountsOfArgumentsThatNoKernelHas) {
  const int number = 100;
  const std::array<swr_kernel_argument, 2> arguments{
      {{&number, sizeof number}, {&number, sizeof number}}};
  for (const int count : {-1, -2147483647, 65}) {
    EXPECT_EQ(launch(arguments.data(), count), SWR_INVALID_ARGUMENT) << count;
    EXPECT_THAT(swr_last_error(), HasSubstr("0 to 64 arguments, not " + std::to_string(count)));
  }
}

}  // namespace
}  // namespace swr
