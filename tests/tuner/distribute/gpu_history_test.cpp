// SPDX-License-Identifier: MIT
#include "tuner/distribute/gpu_history.h"

#include "tests/support/fake_evaluator.h"
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace swr {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A GPU whose references took so long; 0 is one that failed.
GpuHistory history(int gpu, const std::vector<double>& times_us) {
  GpuHistory history{.gpu = gpu, .card = "0000:0" + std::to_string(gpu) + ":00.0"};
  for (const double time_us : times_us) {
    history.references.push_back({.gpu = gpu,
                                  .tuned = history.references.empty() ? "" : "a problem",
                                  .kernel = "the kernel",
                                  .state = time_us > 0.0 ? ResultState::ok : ResultState::throttled,
                                  .median_us = time_us});
  }
  return history;
}

CompiledKernel some_kernel() { return {.resources = {.registers_per_thread = 64}}; }

std::string printed(const std::vector<GpuHistory>& histories) {
  std::ostringstream out;
  print_gpu_histories(out, histories);
  return out.str();
}

TEST(GpuHistory, ComparesEachGpuToItselfAndToTheFastest) {
  const auto speeds =
      gpu_speeds(std::vector{history(0, {100.0, 102.0, 101.0}),
                             history(1, {110.0, 0.0, 108.0, 112.0}), history(2, {0.0})});
  ASSERT_TRUE(speeds[0] && speeds[1]);
  EXPECT_FALSE(speeds[2]);
  EXPECT_EQ(speeds[0]->first_us, 100.0);
  EXPECT_EQ(speeds[0]->last_us, 101.0);
  EXPECT_EQ(speeds[0]->median_us, 101.0);
  EXPECT_NEAR(speeds[0]->spread, 0.02, 1e-9);
  EXPECT_EQ(speeds[0]->behind, 0.0);
  EXPECT_EQ(speeds[1]->median_us, 110.0);
  EXPECT_NEAR(speeds[1]->spread, 112.0 / 108.0 - 1.0, 1e-9);
  EXPECT_NEAR(speeds[1]->behind, 110.0 / 101.0 - 1.0, 1e-9);
}

TEST(GpuHistory, SteadyEqualGpusGiveATableAndNothingElse) {
  const std::string text = printed({history(0, {100.0, 101.0}), history(1, {101.0, 100.0})});
  EXPECT_THAT(text, AllOf(HasSubstr("0000:01:00.0"), HasSubstr("100.0 us"), HasSubstr("+1.0 %")));
  EXPECT_THAT(text, Not(HasSubstr("drifted")));
  EXPECT_THAT(text, Not(HasSubstr("slower than")));
}

TEST(GpuHistory, DriftAndUnequalCardsAreSaidInSentences) {
  const std::string text =
      printed({history(0, {100.0, 101.0, 100.0}), history(1, {100.0, 100.0, 106.0}),
               history(2, {105.0, 104.0, 105.0})});
  EXPECT_THAT(text, HasSubstr("GPU 1 drifted by 6.0 %"));
  EXPECT_THAT(text, HasSubstr("GPU 2 is 5.0 % slower than the fastest"));
  EXPECT_THAT(text, Not(HasSubstr("GPU 0 drifted")));
  EXPECT_THAT(text, Not(HasSubstr("GPU 2 drifted")));
}

TEST(GpuHistory, ALostGpuIsNamedWithTheReason) {
  GpuHistory lost = history(3, {100.0});
  lost.lost_because = "it fell off the bus";
  EXPECT_THAT(printed({lost}), HasSubstr("GPU 3 was lost: it fell off the bus"));
}

TEST(GpuHistory, TheRecordHoldsEveryReference) {
  const Json record = gpu_histories_record(std::vector{history(2, {100.0, 0.0, 104.0})});
  ASSERT_EQ(record.size(), 1U);
  EXPECT_EQ(record[0].at("gpu"), 2);
  EXPECT_EQ(record[0].at("problems"), 2);
  EXPECT_NEAR(record[0].at("speed").at("spread").get<double>(), 0.04, 1e-9);
  EXPECT_EQ(record[0].at("references").size(), 3U);
  EXPECT_TRUE(record[0].at("references")[1].at("median_us").is_null());
  EXPECT_EQ(record[0].at("references")[2].at("tuned"), "a problem");
}

TEST(GpuHistory, MeasuresTheDefaultVariantOfTheReferenceProblem) {
  test::FakeEvaluator evaluator(test::fictional_device());
  evaluator.script = [](VariantResult& result) {
    Measurement measurement;
    measurement.median_us = 250.0;
    measurement.after.temperature_c = 61;
    result.outcome = measurement;
  };
  const GpuReference reference =
      measure_reference(evaluator, [](const Variant&) { return some_kernel(); });
  EXPECT_EQ(reference.state, ResultState::ok);
  EXPECT_EQ(reference.median_us, 250.0);
  EXPECT_EQ(reference.condition.temperature_c, 61);
  EXPECT_THAT(reference.kernel, StartsWith(to_string(reference_problem())));
  EXPECT_THAT(reference.kernel, HasSubstr(evaluator.keys.at(0)));
}

TEST(GpuHistory, AReferenceThatDoesNotCompileIsAState) {
  test::FakeEvaluator evaluator(test::fictional_device());
  const GpuReference reference = measure_reference(evaluator, [](const Variant&) -> CompiledKernel {
    throw Error(ErrorCode::compile_failed, "broken on purpose");
  });
  EXPECT_EQ(reference.state, ResultState::compile);
  EXPECT_TRUE(evaluator.keys.empty());
}

}  // namespace
}  // namespace swr
