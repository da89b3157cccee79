// SPDX-License-Identifier: MIT
// The C interface: what C programs can get wrong, and that answers survive the way through it.
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include "tuner/driver/cuda_driver.h"
#include <swr/swr_c.h>

#include <cmath>

namespace swr {
namespace {

class CApiTest : public ServingTest {
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
  ASSERT_EQ(swr_lookup_open(database_.c_str(), &lookup), SWR_OK) << swr_last_error();
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

TEST_F(CApiTest, ErrorsAreStatusesWithAMessage) {
  swr_lookup* lookup = nullptr;
  EXPECT_EQ(swr_lookup_open((directory_ / "none.db").c_str(), &lookup), SWR_NOT_FOUND);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("none.db"));
  EXPECT_EQ(lookup, nullptr);
  EXPECT_EQ(swr_lookup_open(nullptr, &lookup), SWR_INVALID_ARGUMENT);
  EXPECT_THAT(swr_last_error(), ::testing::HasSubstr("'database' is NULL"));
  swr_device device{};
  EXPECT_EQ(swr_present_device(99, &device), SWR_INVALID_ARGUMENT);
  EXPECT_EQ(swr_profiled_device("no such gpu", &device), SWR_NOT_FOUND);
  ASSERT_EQ(swr_lookup_open(database_.c_str(), &lookup), SWR_OK);
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
  const std::string exported = export_all();
  const swr_runtime_options options{database_.c_str(), exported.c_str(), nullptr, nullptr, 0};
  swr_runtime* runtime = nullptr;
  ASSERT_EQ(swr_runtime_create(&options, &runtime), SWR_OK) << swr_last_error();
  const PrimaryContext context(0);
  swr_attention call{};
  call.q = call.k = call.v = call.o = reinterpret_cast<void*>(std::uintptr_t{4096});
  call.q_strides = call.k_strides = call.v_strides = call.o_strides = {0, 4096 * 64, 64};
  call.batch = 1;
  call.heads_q = call.heads_kv = 8;
  call.seq_q = call.seq_kv = 4096;
  call.head_dim = 64;
  call.scale = 0.25F;
  ASSERT_EQ(swr_runtime_attention(runtime, &call, nullptr), SWR_OK) << swr_last_error();
  EXPECT_FLOAT_EQ(fake_last_launch().params.scale_log2, 0.25F * std::log2(std::exp(1.0F)));
  EXPECT_EQ(fake_last_launch().grid_x, 8U * 32);
  call.scale = -1.0F;
  EXPECT_EQ(swr_runtime_attention(runtime, &call, nullptr), SWR_INVALID_ARGUMENT);
  call.scale = 0.0F;
  call.causal = 1;
  EXPECT_EQ(swr_runtime_attention(runtime, &call, nullptr), SWR_NOT_COMPILED);
  swr_runtime_destroy(runtime);
}

}  // namespace
}  // namespace swr
