// SPDX-License-Identifier: MIT
// The C interface: what C programs can get wrong, and that answers survive the way through it.
#include "driver/cuda_driver.h"
#include "tests/capi/c_runtime_test.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include <swr/attention_backward_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/kernel.h>
#include <swr/store.h>
#include <swr/swr_backward_c.h>
#include <swr/swr_c.h>
#include <swr/swr_kernel_c.h>

#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

namespace swr {
namespace {

class CApiTest : public CRuntimeTest {
 protected:
  swr_problem c_problem(int seq) const { return {1, 8, 8, seq, seq, 64, SWR_FP16, 0, 16}; }

  swr_device first_device() const {
    swr_device device{};
    EXPECT_EQ(swr_present_device(0, &device), SWR_OK) << swr_last_error();
    return device;
  }
};

TEST_F(CApiTest, TheVersionIsThatOfTheHeader) { EXPECT_EQ(swr_api_version(), SWR_API_VERSION); }

TEST_F(CApiTest, AnswersAsTheLookupDoes) {
  record(problem_of(4096), tile(128, 64), 10.0);
  swr_lookup* lookup = nullptr;
  ASSERT_EQ(swr_lookup_open(database_.c_str(), nullptr, &lookup), SWR_OK) << swr_last_error();
  const swr_device device = first_device();
  const swr_problem problem = c_problem(4096);
  swr_answer answer{};
  ASSERT_EQ(swr_lookup_best(lookup, &problem, &device, &answer), SWR_OK) << swr_last_error();
  EXPECT_EQ(answer.match, SWR_EXACT);
  EXPECT_EQ(answer.variant, to_key(tile(128, 64)));
  EXPECT_EQ(answer.time_us, 10.0);
  EXPECT_EQ(answer.l2_misses, -1) << "not counted";
  EXPECT_EQ(answer.stored_problem.seq_q, 4096);
  std::int32_t changed = -1;
  EXPECT_EQ(swr_lookup_refresh(lookup, &changed), SWR_OK);
  EXPECT_EQ(changed, 0);
  swr_lookup_close(lookup);
}

TEST_F(CApiTest, ResultsOfAColdL2AnswerOnlyWhoAsksForThem) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const swr_device device = first_device();
  const swr_problem problem = c_problem(4096);
  const auto match_for = [&](const char* l2_state) {
    swr_lookup* lookup = nullptr;
    EXPECT_EQ(swr_lookup_open(database_.c_str(), l2_state, &lookup), SWR_OK) << swr_last_error();
    swr_answer answer{};
    EXPECT_EQ(swr_lookup_best(lookup, &problem, &device, &answer), SWR_OK) << swr_last_error();
    swr_lookup_close(lookup);
    return answer.match;
  };
  EXPECT_EQ(match_for("warm"), SWR_EXACT);
  EXPECT_EQ(match_for("cold"), SWR_MODELLED);
  swr_lookup* lookup = nullptr;
  EXPECT_EQ(swr_lookup_open(database_.c_str(), "tepid", &lookup), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("tepid"));
}

TEST_F(CApiTest, AManifestThatNestsWithoutEndIsAnError) {
  record(problem_of(4096), tile(128, 64), 10.0);
  export_all();
  std::string text = bytes_of(exported_ / kManifestFile);
  const std::string deep = std::string(110'000, '[') + std::string(110'000, ']');
  const std::string launch = "\"launch\": ";
  text.insert(text.find(launch) + launch.size(), deep + ", \"more\": ");
  std::ofstream(exported_ / kManifestFile) << text;
  swr_runtime_options options{};
  options.exported = exported_.c_str();
  swr_runtime* runtime = nullptr;
  EXPECT_EQ(swr_runtime_create(&options, &runtime), SWR_UNREADABLE);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("deep"));
}

TEST_F(CApiTest, WithoutAFileWhatComesWithSwrAnswers) {
  swr_lookup* lookup = nullptr;
  ASSERT_EQ(swr_lookup_open(nullptr, nullptr, &lookup), SWR_OK) << swr_last_error();
  swr_device device{};
  ASSERT_EQ(swr_profiled_device("h200", &device), SWR_OK);
  swr_problem problem{2, 32, 8, 8192, 8192, 128, SWR_BF16, 1, 16};
  swr_answer answer{};
  ASSERT_EQ(swr_lookup_best(lookup, &problem, &device, &answer), SWR_OK) << swr_last_error();
  EXPECT_STREQ(swr_match_text(answer.match), "exact");
  EXPECT_EQ(answer.result_id, 0);
  device.max_threads_per_sm = 0;
  EXPECT_EQ(swr_lookup_best(lookup, &problem, &device, &answer), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("max_threads_per_sm"));
  swr_lookup_close(lookup);
}

TEST_F(CApiTest, MatchLevelsAreSpelledAsInCpp) {
  for (int level = SWR_EXACT; level <= SWR_MODELLED; ++level) {
    EXPECT_EQ(swr_match_text(level), to_string(static_cast<MatchLevel>(level)));
  }
  EXPECT_STREQ(swr_match_text(SWR_MODELLED + 1), "");
  EXPECT_STREQ(swr_match_text(-1), "");
}

TEST_F(CApiTest, ErrorsAreStatusesWithAMessage) {
  swr_lookup* lookup = nullptr;
  EXPECT_EQ(swr_lookup_open((directory_ / "none.db").c_str(), nullptr, &lookup), SWR_NOT_FOUND);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("none.db"));
  EXPECT_EQ(lookup, nullptr);
  EXPECT_EQ(swr_lookup_open(nullptr, nullptr, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("'lookup' is NULL"));
  swr_device device{};
  EXPECT_EQ(swr_present_device(99, &device), SWR_INVALID_ARGUMENT);
  EXPECT_EQ(swr_profiled_device("no such gpu", &device), SWR_NOT_FOUND);
  ASSERT_EQ(swr_lookup_open(database_.c_str(), nullptr, &lookup), SWR_OK);
  swr_problem problem = c_problem(4096);
  problem.dtype = 7;
  swr_answer answer{};
  EXPECT_EQ(swr_lookup_best(lookup, &problem, &device, &answer), SWR_INVALID_ARGUMENT);
  swr_lookup_close(lookup);
  swr_lookup_close(nullptr);
}

TEST_F(CApiTest, AProfiledDeviceNeedsNoGpu) {
  swr_device device{};
  ASSERT_EQ(swr_profiled_device("h200", &device), SWR_OK) << swr_last_error();
  EXPECT_EQ(device.sm_arch, 90);
}

TEST_F(CApiTest, RunsAttentionWithTheScaleOfTheCaller) {
  record(problem_of(4096), tile(128, 64), 10.0);
  create_runtime();
  const PrimaryContext context(0);
  swr_attention call = attention();
  call.scale = 0.25F;
  ASSERT_EQ(swr_runtime_attention(runtime_, &call, nullptr), SWR_OK) << swr_last_error();
  EXPECT_FLOAT_EQ(fake_last_launch().params.scale_log2, 0.25F * std::log2(std::exp(1.0F)));
  EXPECT_EQ(fake_last_launch().grid_x, 8U * 32);
  call.scale = -1.0F;
  EXPECT_EQ(swr_runtime_attention(runtime_, &call, nullptr), SWR_INVALID_ARGUMENT);
  call.scale = 0.0F;
  call.causal = 1;
  EXPECT_EQ(swr_runtime_attention(runtime_, &call, nullptr), SWR_NOT_COMPILED);
}

TEST_F(CApiTest, ADescriptionServesCallsOnOtherTensors) {
  record(problem_of(4096), tile(128, 64), 10.0);
  create_runtime();
  const PrimaryContext context(0);
  swr_attention call = attention();
  call.q = call.k = call.v = call.o = nullptr;
  float* const lse = at<float>(5);
  ASSERT_EQ(swr_runtime_attention_at(runtime_, &call, at(1), at(2), at(3), at(4), lse, nullptr),
            SWR_OK)
      << swr_last_error();
  const AttentionParams params = fake_last_launch().params;
  EXPECT_EQ(params.q, at(1));
  EXPECT_EQ(params.k, at(2));
  EXPECT_EQ(params.v, at(3));
  EXPECT_EQ(params.o, at(4));
  EXPECT_EQ(params.lse, lse);
  EXPECT_EQ(swr_runtime_attention(runtime_, &call, nullptr), SWR_INVALID_ARGUMENT)
      << "the description itself has no tensors";
}

class GemmCApiTest : public CApiTest {
 protected:
  void SetUp() override {
    GemmVariant variant{.family = Family::hopper, .tile_m = 64, .tile_n = 128, .tile_k = 64};
    variant.stages = 3;
    variant.persistence = Persistence::persistent;
    variant.splits = 3;
    record(GemmProblem{.m = 64, .n = 4096, .k = 4096}, variant, 10.0);
  }
  swr_gemm_problem c_product(int m) const {
    return {m, 4096, 4096, 1, SWR_BF16, SWR_BF16, SWR_NT, 0, 16};
  }
};

TEST_F(GemmCApiTest, AnswersAsTheLookupDoes) {
  swr_lookup* lookup = nullptr;
  ASSERT_EQ(swr_lookup_open(database_.c_str(), nullptr, &lookup), SWR_OK) << swr_last_error();
  const swr_device device = first_device();
  swr_gemm_problem problem = c_product(48);
  swr_gemm_answer answer{};
  ASSERT_EQ(swr_lookup_best_gemm(lookup, &problem, &device, &answer), SWR_OK) << swr_last_error();
  EXPECT_EQ(answer.match, SWR_NEAREST);
  EXPECT_DOUBLE_EQ(answer.distance, std::log2(64.0 / 48.0));
  EXPECT_EQ(answer.stored_problem.m, 64);
  EXPECT_EQ(answer.stored_problem.output, SWR_BF16);
  EXPECT_THAT(answer.variant, ::testing::HasSubstr("splits=3"));
  problem.layout = 3;
  EXPECT_EQ(swr_lookup_best_gemm(lookup, &problem, &device, &answer), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("layout must be"));
  problem = c_product(128);
  problem.dtype = SWR_FP32;
  EXPECT_EQ(swr_lookup_best_gemm(lookup, &problem, &device, &answer), SWR_INVALID_ARGUMENT);
  problem = c_product(128);
  problem.output = 3;
  EXPECT_EQ(swr_lookup_best_gemm(lookup, &problem, &device, &answer), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("output must be"));
  swr_lookup_close(lookup);
}

TEST_F(GemmCApiTest, RunsAProductInMemoryOfTheRuntime) {
  create_runtime();
  const PrimaryContext context(0);
  swr_gemm call = product();
  call.c = at(3);
  call.a_strides = call.b_strides = call.c_strides = {0, 4096};
  call.n = call.k = 4096;
  call.alpha = 0.5F;
  ASSERT_EQ(swr_runtime_gemm(runtime_, &call, nullptr), SWR_OK) << swr_last_error();
  GemmParams params = fake_last_launch().gemm;
  EXPECT_EQ(params.c, at(3));
  EXPECT_EQ(params.alpha, 0.5F);
  EXPECT_EQ(params.splits, 3);
  EXPECT_NE(params.partials, nullptr);
  ASSERT_EQ(swr_runtime_gemm_at(runtime_, &call, at(4), at(5), at(6), nullptr), SWR_OK);
  params = fake_last_launch().gemm;
  EXPECT_EQ(params.a, at(4));
  EXPECT_EQ(params.b, at(5));
  EXPECT_EQ(params.c, at(6));
  const swr_gemm_problem problem = c_product(64);
  swr_gemm_answer answer{};
  ASSERT_EQ(swr_runtime_prepare_gemm(runtime_, &problem, &answer), SWR_OK) << swr_last_error();
  EXPECT_EQ(answer.match, SWR_EXACT);
  swr_gemm_extras extras{};
  EXPECT_EQ(swr_runtime_fused_gemm(runtime_, &call, &extras, nullptr), SWR_OK) << "a plain product";
  extras.activation = SWR_SILU;
  EXPECT_EQ(swr_runtime_fused_gemm(runtime_, &call, &extras, nullptr), SWR_NOT_COMPILED)
      << "no kernel with an activation is exported";
  extras.scaling = 7;
  EXPECT_EQ(swr_runtime_fused_gemm(runtime_, &call, &extras, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(swr_last_error()).find("scaling"), std::string::npos);
  call.dtype = SWR_E4M3;
  EXPECT_EQ(swr_runtime_gemm(runtime_, &call, nullptr), SWR_INVALID_ARGUMENT);
  call.dtype = SWR_BF16;
  swr_grouped_gemm grouped{.gemm = call, .groups = SWR_CONTIGUOUS + 7};
  EXPECT_EQ(swr_runtime_grouped_gemm_at(runtime_, &grouped, at(4), at(5), at(6), nullptr, nullptr),
            SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("swr_groups"));
  grouped.groups = SWR_OFFSETS;
  EXPECT_EQ(swr_runtime_grouped_gemm_at(runtime_, &grouped, at(4), at(5), at(6), nullptr, nullptr),
            SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("groups is null"));
  call.beta = 1.0F;
  EXPECT_EQ(swr_runtime_gemm(runtime_, &call, nullptr), SWR_NOT_COMPILED)
      << "no kernel that reads C is exported";
}

/// Programs that cancel threads do so wherever these are.
TEST(CancelledCApi, ACancelledThreadEndsAtTheNextCall) {
  const TempDirectory directory;
  const std::string path = directory / "tuned.db";
  { const Store store(path, Store::Mode::read_write); }
  struct Cancelled {
    const char* file;
    int type;
  };
  for (int i = 0; i < 60; ++i) {
    Cancelled cancelled{path.c_str(),
                        i % 2 == 0 ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_ASYNCHRONOUS};
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          const auto& [file, type] = *static_cast<const Cancelled*>(argument);
          pthread_setcanceltype(type, nullptr);
          while (true) {
            swr_lookup* lookup = nullptr;
            swr_lookup_open(file, nullptr, &lookup);
            swr_lookup_close(lookup);
          }
        },
        &cancelled);
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + i / 6));
    pthread_cancel(thread);
    void* end = nullptr;
    ASSERT_EQ(pthread_join(thread, &end), 0);
    EXPECT_EQ(end, PTHREAD_CANCELED);
  }
}

void fail_with_a_long_message() {
  const std::string id(200, 'x');
  swr_device device{};
  const bool is_told = swr_profiled_device(id.c_str(), &device) == SWR_NOT_FOUND &&
                       std::string(swr_last_error()).find(id) != std::string::npos;
  _exit(is_told ? 0 : 1);
}

/// A thread's own values are gone by then.
TEST(EndingCApi, CallsFromAtexitFailAsOthersDo) {
  EXPECT_EXIT(
      {
        std::atexit(fail_with_a_long_message);
        swr_device device{};
        swr_profiled_device(std::string(100, 'y').c_str(), &device);
        std::exit(2);
      },
      testing::ExitedWithCode(0), "");
}

// Attention backward from C: what reaches the kernels, and what C programs can get wrong.

const AttentionBackwardProblem kProblem{.batch = 2,
                                        .heads_q = 8,
                                        .heads_kv = 2,
                                        .seq_q = 512,
                                        .seq_kv = 640,
                                        .head_dim = 192,
                                        .head_dim_v = 128,
                                        .dtype = DType::bf16,
                                        .causal = true,
                                        .deterministic = true};
const AttentionBackwardVariant kVariant{.form = BackwardForm::two_pass,
                                        .dq_sum = DqSum::none,
                                        .tile_m = 32,
                                        .tile_n = 32,
                                        .column_groups = 2};

class BackwardCApiTest : public CRuntimeTest {
 protected:
  void SetUp() override {
    record(kProblem, kVariant, 10.0);
    create_runtime();
  }

  /// Tensors [batch, seq, heads, columns], as projections leave them.
  static swr_attention_backward call() {
    swr_attention_backward call{};
    call.size = sizeof call;
    call.q = at(1);
    call.k = at(2);
    call.v = at(3);
    call.o = at(4);
    call.d_o = at(5);
    call.lse = at<float>(6);
    call.dq = at(7);
    call.dk = at(8);
    call.dv = at(9);
    call.q_strides = call.dq_strides = {512 * 8 * 192, 192, 8 * 192};
    call.o_strides = call.d_o_strides = {512 * 8 * 128, 128, 8 * 128};
    call.k_strides = call.dk_strides = {640 * 2 * 192, 192, 2 * 192};
    call.v_strides = call.dv_strides = {640 * 2 * 128, 128, 2 * 128};
    call.batch = 2;
    call.heads_q = 8;
    call.heads_kv = 2;
    call.seq_q = 512;
    call.seq_kv = 640;
    call.head_dim = 192;
    call.head_dim_v = 128;
    call.dtype = SWR_BF16;
    call.causal = 1;
    call.deterministic = 1;
    return call;
  }

  /// The call with a fault in it is refused with a message that has `text`.
  void refuses(const std::function<void(swr_attention_backward&)>& spoil, const char* text) {
    swr_attention_backward spoiled = call();
    spoil(spoiled);
    EXPECT_EQ(swr_runtime_attention_backward(runtime_, &spoiled, nullptr), SWR_INVALID_ARGUMENT)
        << text;
    EXPECT_THAT(swr_last_error(), HasSubstr(text));
  }

  PrimaryContext context_{0};
};

TEST_F(BackwardCApiTest, EveryFieldReachesTheKernels) {
  swr_attention_backward one = call();
  std::int64_t bytes = 0;
  ASSERT_EQ(swr_runtime_prepare_backward(runtime_, &one, &bytes), SWR_OK) << swr_last_error();
  EXPECT_EQ(bytes, launch_geometry(kProblem, kVariant, 1, 1).partials_bytes);
  one.d_lse = at<float>(10);
  one.scale = 0.25F;
  one.workspace = at(11);
  one.workspace_bytes = bytes;
  const long long before = fake_launches();
  ASSERT_EQ(swr_runtime_attention_backward(runtime_, &one, nullptr), SWR_OK) << swr_last_error();
  EXPECT_EQ(fake_launches() - before, 2);
  const AttentionBackwardParams& launched = *fake_last_backward();
  const std::vector<const void*> tensors{
      launched.q,  launched.k,  launched.v,  launched.o,     launched.d_o,      launched.lse,
      launched.dq, launched.dk, launched.dv, launched.d_lse, launched.row_stats};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i], at(i + 1)) << i;
  }
  EXPECT_EQ(launched.q_strides.seq, 8 * 192);
  EXPECT_EQ(launched.d_o_strides.seq, 8 * 128);
  EXPECT_EQ(launched.dk_strides.head, 192);
  EXPECT_EQ(launched.dv_strides.batch, 640 * 2 * 128);
  EXPECT_FLOAT_EQ(launched.scale, 0.25F);
  EXPECT_FLOAT_EQ(launched.scale_log2, 0.25F * 1.44269504F);
  EXPECT_EQ(launched.seq_kv, 640);
}

TEST_F(BackwardCApiTest, TheSizeIsKnownBeforeTheTensorsAre) {
  swr_attention_backward sizes = call();
  sizes.q = sizes.k = sizes.v = sizes.o = sizes.d_o = nullptr;
  sizes.dq = sizes.dk = sizes.dv = nullptr;
  sizes.lse = nullptr;
  std::int64_t bytes = 0;
  ASSERT_EQ(swr_runtime_prepare_backward(runtime_, &sizes, &bytes), SWR_OK) << swr_last_error();
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(swr_runtime_prepare_backward(runtime_, &sizes, nullptr), SWR_OK);
}

TEST_F(BackwardCApiTest, RefusesWhatNobodyCanServe) {
  refuses([](auto& a) { a.size = 8; }, "set its field size to sizeof(swr_attention_backward)");
  refuses([](auto& a) { a.dtype = SWR_FP32; }, "dtype must be SWR_FP16 or SWR_BF16");
  refuses([](auto& a) { a.scale = -1.0F; }, "scale must be positive");
  refuses([](auto& a) { a.heads_kv = 3; }, "must be a multiple of kv-heads");
  refuses([](auto& a) { a.head_dim = 144; }, "head-dim must be a multiple of 32");
  refuses([](auto& a) { a.lse = nullptr; }, "log-sum-exps that forward wrote");
  refuses([](auto& a) { a.dv = nullptr; }, "the tensor dV has no memory");
  refuses(
      [](auto& a) {
        a.workspace = at(11);
        a.workspace_bytes = 16;
      },
      "the workspace has 16 bytes");
  refuses(
      [](auto& a) {
        a.workspace = static_cast<char*>(at(11)) + 16;
        a.workspace_bytes = 1LL << 40;
      },
      "aligned to 256 bytes");
  EXPECT_EQ(swr_runtime_attention_backward(runtime_, nullptr, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_EQ(swr_runtime_prepare_backward(nullptr, nullptr, nullptr), SWR_INVALID_ARGUMENT);
}

/// A program of a newer header than the library's.
TEST_F(BackwardCApiTest, UnknownFieldsMustBeZero) {
  struct Newer {
    swr_attention_backward known;
    std::uint64_t added;
  };
  Newer newer{call(), 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(swr_runtime_attention_backward(runtime_, &newer.known, nullptr), SWR_OK);
  newer.added = 1;
  EXPECT_EQ(swr_runtime_attention_backward(runtime_, &newer.known, nullptr), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), HasSubstr("fields that this libswr.so does not know"));
}

// Kernels of your own from C: what C programs can get wrong.

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
