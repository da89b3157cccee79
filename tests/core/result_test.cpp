// SPDX-License-Identifier: MIT
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/result.h>

#include <gtest/gtest.h>

namespace swr {
namespace {

const AttentionProblem kProblem{.seq_q = 1024, .seq_kv = 1024, .head_dim = 64};

TEST(Result, CompulsorySectorsAreSixteenPerTokenAtHeadDim64) {
  EXPECT_EQ(compulsory_sectors(kProblem), 16 * 1024);
}

TEST(Result, MeasuredExcessIsDramReadBeyondTheFirstTouch) {
  const long long read = 12 * 1024 * kSectorBytes;
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.counters = Counters{.dram_read_bytes = read + 320}};
  EXPECT_EQ(excess_miss_sectors(kProblem, result), 10);
  result.outcome = Measurement{.counters = Counters{.dram_read_bytes = read / 2}};
  EXPECT_EQ(excess_miss_sectors(kProblem, result), 0) << "inputs that stayed in L2";
}

TEST(Result, WithoutCountersTrafficIsUnknownNotZero) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.counters_missing_because = "no permission"};
  EXPECT_FALSE(l2_sectors(result));
  EXPECT_FALSE(excess_miss_sectors(kProblem, result));
}

TEST(Result, ACounterTheChipLacksMakesTheExcessUnknown) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.counters = Counters{.sectors_demanded = 7},
                               .counters_missing_because = "this chip does not count DRAM"};
  EXPECT_EQ(l2_sectors(result), 7);
  EXPECT_FALSE(excess_miss_sectors(kProblem, result));
}

TEST(Result, ProvenanceFollowsFromTheOutcome) {
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Prediction{.time_us = 3.0};
  EXPECT_EQ(result.provenance(), Provenance::predicted);
  EXPECT_DOUBLE_EQ(result.time_us(), 3.0);
  result.outcome = Measurement{.median_us = 4.0};
  EXPECT_EQ(result.provenance(), Provenance::measured);
  EXPECT_DOUBLE_EQ(result.time_us(), 4.0);
}

TEST(Result, SpellingsRoundTrip) {
  for (const auto state : {ResultState::ok, ResultState::compile, ResultState::throttled}) {
    EXPECT_EQ(parse_result_state(to_string(state)), state);
  }
  EXPECT_EQ(parse_provenance("measured"), Provenance::measured);
}

}  // namespace
}  // namespace swr
