// SPDX-License-Identifier: MIT
#include "core/recorded_space.h"

#include "tests/support/attention.h"
#include "tests/support/fictional.h"
#include "tests/support/temp_directory.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace swr {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

VariantResult row(int stages, double median_us) {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).stages = stages;
  result.resources.registers_per_thread = 100 + stages;
  result.ctas_per_sm = 3;
  Measurement measurement;
  measurement.samples_us = {median_us};
  measurement.median_us = median_us;
  measurement.p95_us = median_us + 1.0;
  measurement.counters = Counters{.sectors_demanded = 10, .l2_lookups = 20, .dram_read_bytes = 30};
  result.outcome = measurement;
  return result;
}

VariantResult failed(int stages) {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).stages = stages;
  result.state = ResultState::correctness;
  return result;
}

class RecordedSpaceTest : public ::testing::Test {
 protected:
  static RecordedSpace some_space() {
    return {.problem =
                AttentionProblem{
                    .heads_q = 8, .heads_kv = 2, .seq_q = 128, .seq_kv = 256, .causal = true},
            .device = swr::testing::fictional_device(),
            .origin = {.templates_digest = "00ff", .l2_state = "warm"},
            .results = {row(1, 12.5), row(2, 10.1234), failed(3)}};
  }
  static std::string text_of(const RecordedSpace& space) {
    std::ostringstream out;
    write_recorded_space(out, space);
    return out.str();
  }
  RecordedSpace read(const std::string& text) const {
    return read_recorded_space(directory_.write("space.json", text));
  }
  /// The message about the text with one part replaced.
  std::string error_after(const std::string& part, const std::string& replacement) const {
    std::string text = text_of(some_space());
    const auto at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    text.replace(at, part.size(), replacement);
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable);
      return error.what();
    }
    return "no error";
  }

  TempDirectory directory_;
};

TEST_F(RecordedSpaceTest, ReadsBackWhatItWrote) {
  const RecordedSpace space = some_space();
  const RecordedSpace again = read(text_of(space));
  EXPECT_EQ(again.problem, space.problem);
  EXPECT_EQ(again.device.name, space.device.name);
  EXPECT_EQ(again.origin.templates_digest, "00ff");
  ASSERT_THAT(again.results, SizeIs(3));
  EXPECT_EQ(again.results[1].variant, space.results[1].variant);
  EXPECT_EQ(again.results[1].resources.registers_per_thread, 102);
  EXPECT_EQ(again.results[1].smem_bytes, smem_bytes(space.problem, space.results[1].variant));
  EXPECT_EQ(again.results[1].measurement()->counters, space.results[1].measurement()->counters);
  EXPECT_EQ(again.results[2].state, ResultState::correctness);
  EXPECT_EQ(text_of(again), text_of(space));
}

TEST_F(RecordedSpaceTest, HasColumnsForSplitsWhereThereAreSome) {
  RecordedSpace space = some_space();
  EXPECT_THAT(text_of(space), ::testing::Not(HasSubstr("kv_splits")));
  auto variant = space.results[1].variant.as<AttentionVariant>();
  variant.kv_splits = 2;
  space.results[1].variant = variant;
  EXPECT_THAT(text_of(space), HasSubstr("\"kv_splits\""));
  EXPECT_EQ(read(text_of(space)).results[1].variant, Variant(variant));
}

TEST_F(RecordedSpaceTest, HasAColumnForClustersAlongKWhereThereAreSome) {
  RecordedSpace space = some_space();
  space.problem = GemmProblem{.m = 64, .n = 64, .k = 4096};
  GemmVariant variant{.family = Family::hopper, .tile_k = 64};
  for (VariantResult& result : space.results) {
    ++variant.stages;
    result.variant = variant;
  }
  EXPECT_THAT(text_of(space), ::testing::Not(HasSubstr("cluster_k")));
  EXPECT_EQ(read(text_of(space)).results[2].variant, Variant(variant));
  variant.cluster_k = 4;
  space.results[2].variant = variant;
  EXPECT_THAT(text_of(space), HasSubstr("\"cluster_n\",\"cluster_k\""));
  EXPECT_EQ(read(text_of(space)).results[2].variant, Variant(variant));
}

TEST_F(RecordedSpaceTest, SaysHowKAndVComeWhereTensorMapsBringSome) {
  RecordedSpace space = some_space();
  EXPECT_THAT(text_of(space), ::testing::Not(HasSubstr("kv_copy")));
  auto variant = space.results[1].variant.as<AttentionVariant>();
  variant.kv_copy = KvCopy::tma;
  space.results[1].variant = variant;
  EXPECT_THAT(text_of(space), HasSubstr("\"smem_swizzle\",\"kv_copy\""));
  EXPECT_EQ(read(text_of(space)).results[1].variant, Variant(variant));
}

TEST_F(RecordedSpaceTest, SaysWhetherLongTilesComeFirstWhereSomeDo) {
  RecordedSpace space = some_space();
  EXPECT_THAT(text_of(space), ::testing::Not(HasSubstr("longest_first")));
  auto variant = space.results[1].variant.as<AttentionVariant>();
  variant.longest_first = true;
  space.results[1].variant = variant;
  EXPECT_THAT(text_of(space), HasSubstr("\"smem_swizzle\",\"longest_first\""));
  EXPECT_EQ(read(text_of(space)).results[1].variant, Variant(variant));
}

TEST_F(RecordedSpaceTest, RoundsTimesToNanosecondsAndKnowsTheBest) {
  const RecordedSpace again = read(text_of(some_space()));
  EXPECT_DOUBLE_EQ(again.results[1].time_us(), 10.123);
  EXPECT_DOUBLE_EQ(again.best_us(), 10.123);
}

TEST_F(RecordedSpaceTest, KeepsPredictionsApartFromMeasurements) {
  RecordedSpace space = some_space();
  for (VariantResult& result : space.results) {
    result.outcome = Prediction{.time_us = 4.0};
  }
  const RecordedSpace again = read(text_of(space));
  EXPECT_EQ(again.results[0].provenance(), Provenance::predicted);
  EXPECT_DOUBLE_EQ(again.results[0].time_us(), 4.0);
}

TEST_F(RecordedSpaceTest, NamesTheFileTheRowAndTheValueThatCannotBeBelieved) {
  EXPECT_THAT(error_after("12.5", "-12.5"), HasSubstr("space.json"));
  EXPECT_THAT(error_after("12.5", "-12.5"), HasSubstr("row 1: field 'median_us'"));
  EXPECT_THAT(error_after("12.5", "0"), HasSubstr("above 0"));
  EXPECT_THAT(error_after("[\"portable\",64", "[\"portable\",63.5"), HasSubstr("row 1"));
  EXPECT_THAT(error_after("\"cyclic\"", "\"zigzag\""), HasSubstr("zigzag"));
  EXPECT_THAT(error_after("\"seq_q\":128", "\"seq_q\":-1"), HasSubstr("seq"));
  EXPECT_THAT(error_after("\"version\": 1", "\"version\": 2"), HasSubstr("version"));
  EXPECT_THAT(error_after("\"stages\"", "\"stagse\""), HasSubstr("columns"));
  EXPECT_THAT(error_after("\"rows\": [", "\"rows\": [[],"), HasSubstr("row 1"));
  EXPECT_THAT(error_after("]}", ""), HasSubstr("no recorded space"));
}

TEST_F(RecordedSpaceTest, RefusesAVariantThatIsThereTwice) {
  RecordedSpace space = some_space();
  space.results.push_back(space.results.front());
  EXPECT_THROW(read(text_of(space)), Error);
}

TEST_F(RecordedSpaceTest, RefusesNestingWithoutEnd) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(error_after("\"rows\": [", "\"rows\": [" + deep + ","), HasSubstr("deep"));
}

TEST_F(RecordedSpaceTest, SaysThatAFileIsMissing) {
  EXPECT_THROW(read_recorded_space(directory_ / "none.json"), Error);
}

TEST(RecordedSpaceName, NamesTheProblemAndTheDevice) {
  const AttentionProblem problem{
      .heads_q = 8, .heads_kv = 2, .seq_q = 128, .seq_kv = 128, .causal = true};
  DeviceInfo device;
  device.name = "NVIDIA H200 (SXM)";
  EXPECT_EQ(recorded_space_name(problem, device),
            "attention_b1_h8-2_s128_d64_fp16_causal_nvidia-h200-sxm");
  EXPECT_EQ(recorded_space_name(problem, device,
                                {.overlay_digest = "0123456789abcdef", .l2_state = "cold"}),
            "attention_b1_h8-2_s128_d64_fp16_causal_nvidia-h200-sxm_cold_overlay-01234567");
}

TEST(RecordedSpaceName, FitsAFileSystemAndDiffersAllTheSame) {
  DeviceInfo device;
  device.name = std::string(5000, 'x');
  const std::string name = recorded_space_name(AttentionProblem{}, device);
  EXPECT_LT(name.size(), 200U);
  device.name += 'y';
  EXPECT_NE(recorded_space_name(AttentionProblem{}, device), name);
}

}  // namespace
}  // namespace swr
