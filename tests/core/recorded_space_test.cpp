// SPDX-License-Identifier: MIT
#include "core/recorded_space.h"

#include "core/json.h"
#include "tests/support/attention.h"
#include "tests/support/fictional.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

VariantResult measured(const Variant& variant, double median_us) {
  VariantResult result{.variant = variant};
  result.resources.registers_per_thread = 100;
  result.ctas_per_sm = 3;
  Measurement measurement{.median_us = median_us, .p95_us = median_us + 1.5};
  result.outcome = measurement;
  return result;
}

VariantResult counted(const Variant& variant, double median_us, long long misses) {
  VariantResult result = measured(variant, median_us);
  std::get<Measurement>(result.outcome).counters =
      Counters{.sectors_demanded = 10, .l2_lookups = 20, .l2_misses = misses};
  return result;
}

VariantResult uncounted(const Variant& variant, double median_us, const std::string& reason) {
  VariantResult result = measured(variant, median_us);
  std::get<Measurement>(result.outcome).counters_missing_because = reason;
  return result;
}

VariantResult failed(const Variant& variant, ResultState state) {
  return VariantResult{.variant = variant, .state = state, .outcome = Measurement{}};
}

RecordedSpace attention_space() {
  return {.problem = AttentionProblem{.heads_q = 8, .heads_kv = 2, .seq_q = 128, .seq_kv = 256},
          .device = test::fictional_hopper(),
          .origin = {.templates_digest = "00ff", .l2_state = "warm"},
          .results = {
              counted(AttentionVariant{.stages = 1}, 10.1234, 5),
              counted(AttentionVariant{.stages = 2}, 12.5, 6),
              uncounted(AttentionVariant{.stages = 3}, 13.25, "the chip, \"as it is\", lacks them"),
              uncounted(AttentionVariant{.stages = 4}, 13.25, "not counted yet"),
              uncounted(AttentionVariant{.stages = 4, .kv_splits = 2}, 14.0, "not counted yet"),
              failed(AttentionVariant{.stages = 2, .order = Order::sawtooth},
                     ResultState::correctness)}};
}

/// Predictions of another operation, with both families.
RecordedSpace gemm_space() {
  RecordedSpace space{.problem = GemmProblem{.m = 64, .n = 64, .k = 4096},
                      .device = test::fictional_hopper(),
                      .origin = {.overlay_digest = "ab"},
                      .results = {}};
  space.device.sm_count = 9;
  for (const Variant& variant :
       {Variant(GemmVariant{.family = Family::hopper, .tile_k = 64, .cluster_k = 2}),
        Variant(GemmVariant{}), Variant(GemmVariant{.stages = 4})}) {
    VariantResult result{.variant = variant, .outcome = Prediction{.time_us = 4.0}};
    space.results.push_back(result);
  }
  return space;
}

std::string text_of(const std::vector<RecordedSpace>& spaces) {
  std::ostringstream out;
  write_recorded_spaces(out, spaces);
  return out.str();
}

bool equal_to_the_bit(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Everything that a recorded space keeps of a result.
void expect_equal(const VariantResult& a, const VariantResult& b) {
  EXPECT_EQ(a.variant, b.variant);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.resources.registers_per_thread, b.resources.registers_per_thread);
  EXPECT_EQ(a.ctas_per_sm, b.ctas_per_sm);
  EXPECT_EQ(a.smem_bytes, b.smem_bytes);
  EXPECT_EQ(a.provenance(), b.provenance());
  EXPECT_TRUE(equal_to_the_bit(a.time_us(), b.time_us())) << a.time_us() << " " << b.time_us();
  if (a.measurement() != nullptr && b.measurement() != nullptr) {
    EXPECT_TRUE(equal_to_the_bit(a.measurement()->p95_us, b.measurement()->p95_us));
    EXPECT_EQ(a.measurement()->counters, b.measurement()->counters);
    EXPECT_EQ(a.measurement()->counters_missing_because, b.measurement()->counters_missing_because);
  }
}

void expect_equal(const RecordedSpace& a, const RecordedSpace& b) {
  EXPECT_EQ(a.problem, b.problem);
  EXPECT_EQ(Json(a.device), Json(b.device));
  EXPECT_EQ(Json(a.origin), Json(b.origin));
  ASSERT_EQ(a.results.size(), b.results.size());
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    expect_equal(a.results[i], b.results[i]);
  }
}

/// A time as files keep it.
void round_to_nanoseconds(RecordedSpace& space) {
  for (VariantResult& result : space.results) {
    result.smem_bytes = smem_bytes(space.problem, result.variant);
    if (auto* const measurement = std::get_if<Measurement>(&result.outcome)) {
      measurement->median_us = std::round(measurement->median_us * 1000.0) / 1000.0;
      measurement->p95_us = std::round(measurement->p95_us * 1000.0) / 1000.0;
    }
  }
}

class RecordedSpacesFile : public ::testing::Test {
 protected:
  std::vector<RecordedSpace> read(const std::string& text) const {
    return read_recorded_spaces(directory_.write("tuned.spaces", text));
  }
  std::string error_of(const std::string& text) const {
    return message_of(ErrorCode::unreadable, [&] { read(text); });
  }
  /// The message about the text of both spaces with one part replaced.
  std::string error_after(const std::string& part, const std::string& replacement) const {
    std::string text = text_of({attention_space(), gemm_space()});
    const auto at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part << " in\n" << text;
    return error_of(text.replace(at, part.size(), replacement));
  }

  TempDirectory directory_;
};

TEST_F(RecordedSpacesFile, ReadsBackWhatItWrote) {
  std::vector<RecordedSpace> spaces{attention_space(), gemm_space(), attention_space()};
  spaces[2].problem.as<AttentionProblem>().causal = true;
  const std::vector<RecordedSpace> again = read(text_of(spaces));
  ASSERT_THAT(again, SizeIs(3));
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    round_to_nanoseconds(spaces[i]);
    expect_equal(spaces[i], again[i]);
  }
  EXPECT_EQ(text_of(again), text_of(spaces));
}

TEST_F(RecordedSpacesFile, NamesAVariantOnceAndLeavesOutWhatTheRowAboveSays) {
  RecordedSpace second = attention_space();
  second.problem.as<AttentionProblem>().batch = 2;
  const std::string text = text_of({attention_space(), second});
  const auto lines = std::ranges::count(text, '\n');
  // First line, device, origin, table and its six variants; two heads and six rows of each space.
  EXPECT_EQ(lines, 4 + 6 + 2 * 7) << text;
  EXPECT_THAT(text, HasSubstr("\n0,100,3,10123,1500,10,20,0,5,0,0,0\n"));
  EXPECT_THAT(text, HasSubstr("\n1,,,12500,,,,,6,,,\n"));
}

TEST_F(RecordedSpacesFile, RoundsTimesToNanosecondsAndKnowsTheBest) {
  const RecordedSpace again = read(text_of({attention_space()}))[0];
  EXPECT_DOUBLE_EQ(again.results[0].time_us(), 10.123);
  EXPECT_DOUBLE_EQ(again.best_us(), 10.123);
}

TEST_F(RecordedSpacesFile, SaysWhereAndWhatCannotBeBelieved) {
  EXPECT_THAT(error_after("\"version\":1", "\"version\":2"), HasSubstr("line 1: version"));
  EXPECT_THAT(error_after("\"spaces\":2", "\"spaces\":3"), HasSubstr("2 spaces"));
  EXPECT_THAT(error_after("l2_misses", "l2_mises"), HasSubstr("columns"));
  EXPECT_THAT(error_after("\"sm_count\":8", "\"sm_count\":0"), HasSubstr("line 2: sm_count"));
  EXPECT_THAT(error_after("\"rows\":6", "\"rows\":7"), HasSubstr("6 rows where its head says 7"));
  EXPECT_THAT(error_after("\"device\":0", "\"device\":7"), HasSubstr("device 7"));
  EXPECT_THAT(error_after("\"seq_q\":128", "\"seq_q\":-1"), HasSubstr("seq_q"));
  EXPECT_THAT(error_after("correctness", "ok"), HasSubstr("not ok"));
  EXPECT_THAT(error_after("correctness", "wrongness"), HasSubstr("wrongness"));
  EXPECT_THAT(error_after("\n0,100,3,10123,", "\n0,100,3,0,"), HasSubstr("time_ns"));
  EXPECT_THAT(error_after("\n0,100,3,", "\n0,,3,"), HasSubstr("the row above has none"));
  EXPECT_THAT(error_after("\n0,100,3,", "\n99,100,3,"), HasSubstr("variant 99"));
  EXPECT_THAT(error_after("\n0,100,3,", "\n1,100,3,"),
              HasSubstr("variant 1 is in the space twice"));
  EXPECT_THAT(error_after("\n0,100,3,", "\n0,100,3.5,"), HasSubstr("ctas_per_sm"));
  EXPECT_THAT(error_after("\n0,100,3,", "\n0,256,3,"), HasSubstr("registers_per_thread"));
  EXPECT_THAT(error_after(",6,,,\n", ",6\n"), HasSubstr("values"));
  EXPECT_THAT(error_after("\nspace ", "\nspaces "), HasSubstr("keyword"));
  EXPECT_THAT(error_after("swr-recorded-spaces {", "swr-spaces {"), HasSubstr("begins"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(error_after("\"device\":0", "\"device\":" + deep), HasSubstr("deep"));
  EXPECT_THAT(error_after("device {", "device {,"), HasSubstr("line 2"));
  EXPECT_THAT(error_after("op\":\"attention\",\"same", "op\":\"transpose\",\"same"),
              HasSubstr("transpose"));
}

TEST_F(RecordedSpacesFile, RefusesAFileThatWasCutOff) {
  const std::string text = text_of({attention_space(), gemm_space()});
  constexpr std::size_t kLastRow = 12;
  for (std::size_t length = 0; length < text.size(); ++length) {
    const bool at_a_line = length > 0 && text[length - 1] == '\n';
    if (at_a_line || text[length] == '\n' || length + kLastRow > text.size()) {
      EXPECT_THAT(error_of(text.substr(0, length)), HasSubstr("tuned.spaces")) << length;
    }
  }
}

TEST_F(RecordedSpacesFile, SaysThatAFileIsMissingOrOfAnOlderForm) {
  EXPECT_THROW(read_recorded_spaces(directory_ / "none.spaces"), Error);
  EXPECT_THAT(error_of("{\"format\": \"swr-recorded-space\"}"),
              HasSubstr("scripts/convert_database"));
}

TEST(RecordedSpaceName, NamesTheProblemAndTheDevice) {
  const AttentionProblem problem{
      .heads_q = 8, .heads_kv = 2, .seq_q = 128, .seq_kv = 128, .causal = true};
  DeviceInfo device{.name = "NVIDIA H200 (SXM)"};
  EXPECT_EQ(recorded_space_name(problem, device),
            "attention_b1_h8-2_s128_d64_fp16_causal_nvidia-h200-sxm");
  EXPECT_EQ(recorded_space_name(problem, device,
                                {.overlay_digest = "0123456789abcdef", .l2_state = "cold"}),
            "attention_b1_h8-2_s128_d64_fp16_causal_nvidia-h200-sxm_cold_overlay-01234567");
}

TEST(RecordedSpaceName, FitsAFileSystemAndDiffersAllTheSame) {
  DeviceInfo device{.name = std::string(5000, 'x')};
  const std::string name = recorded_space_name(AttentionProblem{}, device);
  EXPECT_LT(name.size(), 200U);
  device.name += 'y';
  EXPECT_NE(recorded_space_name(AttentionProblem{}, device), name);
}

}  // namespace
}  // namespace swr
