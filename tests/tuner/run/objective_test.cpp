// SPDX-License-Identifier: MIT
#include "tuner/run/objective.h"

#include "tests/support/expect_error.h"
#include "tests/support/fake_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swr {
namespace {

using ::testing::HasSubstr;

const AttentionProblem kObjectiveProblem{.seq_q = 256, .seq_kv = 256, .head_dim = 64};

VariantResult measured() {
  VariantResult result{.variant = AttentionVariant{}};
  result.resources.registers_per_thread = 128;
  result.ctas_per_sm = 2;
  result.outcome = Measurement{.samples_us = {20.0}, .median_us = 20.0, .p95_us = 20.0};
  return result;
}

VariantResult with_energy() {
  VariantResult result = measured();
  std::get<Measurement>(result.outcome).energy =
      Energy{.samples_mj = {4.0, 6.0}, .launch_us = 25.0, .idle_power_w = 80.0};
  return result;
}

std::optional<double> value(const std::string& text, const VariantResult& result) {
  return Objective(text).value(kObjectiveProblem, test::fictional_device(), result, 10.0);
}

std::string refusal(const std::string& text) {
  try {
    const Objective objective(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(Objective, OfTimeIsTheTimeThatRanks) {
  const Objective time;
  EXPECT_TRUE(time.is_time());
  EXPECT_FALSE(time.needs_energy());
  EXPECT_EQ(value("time", measured()), 10.0);
}

TEST(Objective, OfEnergyIsTheMeanOfItsRuns) {
  EXPECT_TRUE(Objective("energy").needs_energy());
  EXPECT_EQ(value("energy", with_energy()), 5.0);
  EXPECT_EQ(value("edp", with_energy()), 50.0);
  EXPECT_DOUBLE_EQ(value("power_w", with_energy()).value(), 200.0);
}

TEST(Objective, IsUnknownWhereAMetricIs) {
  EXPECT_EQ(value("energy", measured()), std::nullopt);
  EXPECT_EQ(value("time_us + l2_misses", measured()), std::nullopt);
}

TEST(Objective, ComputesFromTheMetricsOfReports) {
  EXPECT_EQ(value("time_us * registers", measured()), 1280.0);
  EXPECT_EQ(value("registers_per_thread + ctas_per_sm", measured()), 130.0);
  EXPECT_FALSE(Objective("time_us * registers").needs_energy());
  EXPECT_TRUE(Objective("time_us / gflop_per_j").needs_energy());
  VariantResult counted = measured();
  std::get<Measurement>(counted.outcome).counters =
      Counters{.l2_misses = 7, .dram_read_bytes = 100, .dram_write_bytes = 11};
  EXPECT_EQ(value("l2_misses", counted), 7.0);
  EXPECT_EQ(value("dram_bytes", counted), 111.0);
  const int threads = threads_per_cta(kObjectiveProblem, AttentionVariant{});
  EXPECT_DOUBLE_EQ(value("occupancy", counted).value(), 2.0 * threads / 1536);
}

TEST(Objective, NamesTheNearestOfAMetricThatIsNotKnown) {
  EXPECT_THAT(refusal("energy_nj"), HasSubstr("energy_mj"));
  EXPECT_THAT(refusal("EDP"), HasSubstr("known are time, energy, edp, "));
  EXPECT_THAT(refusal("enrgy"), HasSubstr("did you mean 'energy'?"));
  EXPECT_THAT(refusal("time_us * speed"), HasSubstr("'speed'"));
  EXPECT_THAT(refusal("1 + 2"), HasSubstr("reads no metric"));
  EXPECT_THAT(refusal("time_us +"), HasSubstr("objective 'time_us +'"));
  EXPECT_THAT(refusal(""), HasSubstr("objective ''"));
}

TEST(Objective, RefusesWhatCannotBeComputedBeforeAnythingIsMeasured) {
  EXPECT_THAT(refusal("time_us / (2 - 2)"), HasSubstr("zero"));
  EXPECT_THAT(refusal("[time_us]"), HasSubstr("must be a number"));
  EXPECT_THAT(refusal("time_us + len([0 for a in range(999999) for b in range(9)])"),
              HasSubstr("objective"));
  EXPECT_THAT(refusal("time_us + len([len([1 for b in range(9000)]) for a in range(9000)])"),
              HasSubstr("objective"));
}

TEST(Objective, NeedsValuesThatCanBeComparedByRatio) {
  EXPECT_THAT([] { value("0 - time_us", measured()); },
              ::testing::ThrowsMessage<Error>(HasSubstr("1 / (...)")));
  EXPECT_EQ(value("1 / ctas_per_sm", measured()), 0.5);
}

}  // namespace
}  // namespace swr
