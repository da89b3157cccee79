// SPDX-License-Identifier: MIT
// A program may set any locale: what swr writes and reads stays as it is.
#include "core/bounded_json.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "core/recorded_space.h"
#include "tests/db/fixtures.h"
#include "tests/support/strange_locale.h"
#include <swr/constraints.h>
#include <swr/kernel_spec.h>
#include <swr/lookup.h>
#include <swr/swr_c.h>

namespace swr {
namespace {

class LocaleTest : public ::testing::Test {
 protected:
  LocaleTest() {
    directory_.write("f.cu", "__global__ void f(float* y, int n) { y[0] = n; }\n");
    spec_ = directory_.write("k.json", R"json({
      "swr_kernel": 1, "name": "of_a_locale", "source": "f.cu", "entry": "f",
      "problem": {"n": 1234567}, "parameters": {"block_size_x": [32, 64]},
      "block": "block_size_x", "grid": "div_ceil(n, block_size_x)", "flops": "2.5*n",
      "tolerance": {"absolute": 0.0125, "relative": 1.5e-3},
      "arguments": [{"name": "y", "type": "float*", "size": "n", "output": true},
                    {"name": "n", "type": "int", "value": "n"}]})json");
  }

  /// All that could differ, as text.
  std::vector<std::string> texts() const {
    const Operation& kernel = register_kernel(read_kernel_spec(spec_));
    const Problem problem = kernel.default_problem();
    swr_device device{};
    const swr_status profiled = swr_profiled_device("H200", &device);
    std::ostringstream space;
    const RecordedSpace recorded{
        .problem = problem,
        .device = fictional_gpu(),
        .origin = {},
        .results = {{.variant = default_axes(kernel), .outcome = Prediction{.time_us = 1234.5}}}};
    write_recorded_spaces(space, {&recorded, 1});
    return {fixed_text(1234567.875, 3),
            general_text(1.5e-7),
            time_text(1234.5),
            grouped_text(1234567),
            uncertain_text(80.15, 0.08),
            kernel_digest(kernel),
            Json(parse_json(R"([1.25, -1.5e-300, 1234567.5, 1e22])", "it")).dump(),
            recorded_space_name(problem, fictional_gpu()),
            space.str(),
            std::to_string(profiled) + " " + std::to_string(device.sm_count)};
  }

  TempDirectory directory_;
  std::filesystem::path spec_;
};

TEST_F(LocaleTest, ADecimalCommaChangesNothing) {
  const std::vector<std::string> plain = texts();
  const StrangeLocale strange;
  ASSERT_EQ(std::to_string(1.5), "1,500000");
  EXPECT_EQ(texts(), plain);
}

TEST_F(LocaleTest, ADecimalPointOfTwoBytesChangesNothing) {
  const std::vector<std::string> plain = texts();
  try {
    const StrangeLocale strange("<U066B>");
    EXPECT_EQ(texts(), plain);
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << error.what();
  }
}

TEST_F(LocaleTest, ADatabaseWithAKernelOpens) {
  const auto path = directory_ / "tuned.db";
  const Operation& kernel = register_kernel(read_kernel_spec(spec_));
  const Problem problem = kernel.default_problem();
  {
    Store store(path, Store::Mode::read_write);
    store.record(store.begin_run(some_run()), problem, fictional_gpu(),
                 measured(default_variant(problem, fictional_gpu()), 12.5));
  }
  const StrangeLocale strange;
  EXPECT_NO_THROW(Lookup{path});
}

}  // namespace
}  // namespace swr
