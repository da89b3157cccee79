// SPDX-License-Identifier: MIT
// Every function of the C interface that needs a context, from threads that never had one.
#include "core/bounded_json.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "core/recorded_space.h"
#include "driver/cuda_driver.h"
#include "operations/attention_serving/serving_attention.h"
#include "tests/capi/c_runtime_test.h"
#include "tests/db/fixtures.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/support/strange_locale.h"
#include <swr/attention_backward_variant.h>
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/kernel.h>
#include <swr/kernel_spec.h>
#include <swr/lookup.h>
#include <swr/swr_backward_c.h>
#include <swr/swr_c.h>
#include <swr/swr_kernel_c.h>
#include <swr/swr_serving_c.h>

#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

/// The fake driver says of all memory that it lies there.
constexpr int kDeviceOfMemory = 1;

class ThreadsCApiTest : public CRuntimeTest {
 protected:
  void SetUp() override {
    record(problem_of(4096), tile(128, 64), 10.0);
    record(GemmProblem{.m = 64, .n = 64, .k = 64}, GemmVariant{.tile_m = 64, .tile_n = 64}, 10.0);
    record(AttentionBackwardProblem{.seq_q = 64, .seq_kv = 64}, AttentionBackwardVariant{}, 10.0);
    const Problem served = ServingAttentionProblem{
        .batch = 2, .seq_q = 1, .seq_kv = 64, .head_dim = 64, .head_dim_v = 64, .page_size = 0};
    record(served, default_variant(served, device_), 10.0);
    create_runtime();
  }

  /// On a thread of its own; then the context of the device is current there.
  void expect(swr_status status, int device, const std::function<swr_status()>& call) {
    std::thread([&] {
      EXPECT_EQ(call(), status) << swr_last_error();
      CUdevice current = -1;
      EXPECT_EQ(cuda_driver().context_get_device.result_of(&current), CUDA_SUCCESS)
          << swr_last_error();
      EXPECT_EQ(current, device);
    }).join();
  }

  static swr_attention_backward backward() {
    swr_attention_backward call{};
    call.size = sizeof call;
    call.q = call.k = call.v = call.o = call.d_o = call.dq = call.dk = call.dv = at(1);
    call.lse = at<float>(1);
    call.q_strides = call.k_strides = call.v_strides = call.o_strides = {0, 0, 64};
    call.dq_strides = call.dk_strides = call.dv_strides = call.d_o_strides = {0, 0, 64};
    call.batch = call.heads_q = call.heads_kv = 1;
    call.seq_q = call.seq_kv = 64;
    call.head_dim = 64;
    return call;
  }
  static swr_serving_attention serving() {
    swr_serving_attention call{};
    call.size = sizeof call;
    call.q = call.k = call.v = call.o = at(1);
    call.q_strides = call.k_strides = call.v_strides = call.o_strides = {64 * 64, 64, 64};
    call.batch = 2;
    call.heads_q = call.heads_kv = call.max_seq_q = 1;
    call.head_dim = call.max_seq_kv = 64;
    call.mask = SWR_MASK_CAUSAL;
    return call;
  }
  static swr_states states() {
    swr_states call{};
    call.size = sizeof call;
    call.parts = call.o = at(1);
    call.part_lse = at<float>(2);
    call.part_strides = {64 * 8, 64, 64};
    call.o_strides = {0, 64, 64};
    call.part_count = 2;
    call.heads = 1;
    call.rows = 8;
    call.head_dim = 64;
    call.part_dtype = call.output_dtype = SWR_BF16;
    return call;
  }
};

TEST_F(ThreadsCApiTest, LaunchesTakeTheContextOfTheirMemory) {
  const swr_attention a = attention();
  const swr_gemm g = product();
  const swr_attention_backward b = backward();
  const swr_serving_attention s = serving();
  const swr_states m = states();
  const auto launches = [&](const std::function<swr_status()>& call) {
    expect(SWR_OK, kDeviceOfMemory, call);
  };
  launches([&] { return swr_runtime_attention(runtime_, &a, nullptr); });
  launches(
      [&] { return swr_runtime_attention_at(runtime_, &a, a.q, a.k, a.v, a.o, nullptr, nullptr); });
  launches([&] { return swr_runtime_gemm(runtime_, &g, nullptr); });
  launches([&] { return swr_runtime_gemm_at(runtime_, &g, g.a, g.b, g.c, nullptr); });
  launches([&] { return swr_runtime_attention_backward(runtime_, &b, nullptr); });
  launches([&] { return swr_runtime_prepare_backward(runtime_, &b, nullptr); });
  launches([&] { return swr_runtime_serving_attention(runtime_, &s, nullptr); });
  launches([&] { return swr_runtime_prepare_serving(runtime_, &s, nullptr); });
  // No test compiles beside this driver.
  expect(SWR_NOT_COMPILED, kDeviceOfMemory,
         [&] { return swr_merge_states(runtime_, &m, nullptr); });
}

TEST_F(ThreadsCApiTest, AUsersKernelTakesTheContextOfItsMemory) {
  directory_.write("f.cu", "__global__ void f(float* y) { y[0] = 1; }\n");
  const auto spec = directory_.write("k.json", R"json({
    "swr_kernel": 1, "name": "threaded", "source": "f.cu", "entry": "f", "problem": {"n": 100},
    "parameters": {"block_size_x": [32]}, "block": "block_size_x", "grid": "n",
    "arguments": [{"name": "y", "type": "float*", "size": "n", "output": true}]})json");
  const swr_kernel* kernel = nullptr;
  ASSERT_EQ(swr_kernel_register(spec.c_str(), &kernel), SWR_OK) << swr_last_error();
  const std::int32_t size = 100;
  void* const y = at(1);
  const swr_kernel_argument argument{&y, sizeof y};
  expect(SWR_NOT_COMPILED, kDeviceOfMemory, [&] {
    return swr_runtime_launch_kernel(runtime_, kernel, &size, 1, &argument, 1, y, nullptr);
  });
}

TEST_F(ThreadsCApiTest, WithoutMemoryTheFirstDeviceIsPrepared) {
  const swr_problem a{1, 8, 8, 4096, 4096, 64, SWR_FP16, 0, 16};
  const swr_gemm_problem g{64, 64, 64, 1, SWR_BF16, SWR_BF16, SWR_NT, 0, 16};
  swr_attention_backward b = backward();
  b.q = b.k = b.v = nullptr;
  swr_serving_attention s = serving();
  s.q = s.k = s.v = s.o = nullptr;
  expect(SWR_OK, 0, [&] { return swr_runtime_prepare(runtime_, &a, nullptr); });
  expect(SWR_OK, 0, [&] { return swr_runtime_prepare_gemm(runtime_, &g, nullptr); });
  expect(SWR_OK, 0, [&] { return swr_runtime_prepare_backward(runtime_, &b, nullptr); });
  expect(SWR_OK, 0, [&] { return swr_runtime_prepare_serving(runtime_, &s, nullptr); });
}

TEST_F(ThreadsCApiTest, AContextThatIsCurrentStays) {
  const swr_attention a = attention();
  expect(SWR_OK, 0, [&] {
    CUcontext context = nullptr;
    cuda_driver().primary_context_retain(&context, 0);
    cuda_driver().context_set_current(context);
    return swr_runtime_attention(runtime_, &a, nullptr);
  });
}

TEST_F(ThreadsCApiTest, AForkedProcessIsToldWhatToDo) {
  const swr_attention a = attention();
  ASSERT_EQ(swr_runtime_attention(runtime_, &a, nullptr), SWR_OK) << swr_last_error();
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = swr_runtime_attention(runtime_, &a, nullptr) == SWR_DRIVER_FAILED &&
                         std::string(swr_last_error()).find("forked") != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A program may set any locale: what swr writes and reads stays as it is.

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
