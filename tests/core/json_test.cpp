// SPDX-License-Identifier: MIT
#include "core/json.h"

#include "core/fields.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace swr {
namespace {

using ::testing::HasSubstr;

template <typename Value>
std::string complaint_of(const Json& json) {
  try {
    (void)json.get<Value>();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "no complaint";
}

const AttentionProblem kProblem{
    .batch = 2, .heads_q = 8, .heads_kv = 2, .seq_q = 100, .seq_kv = 200, .causal = true};

TEST(Json, ProblemRoundTrips) {
  EXPECT_EQ(Json(Problem(kProblem)).get<Problem>(), Problem(kProblem));
  EXPECT_EQ(
      Json(Problem(kProblem)).dump(),
      R"({"op":"attention","batch":2,"heads_q":8,"heads_kv":2,"seq_q":100,"seq_kv":200,"head_dim":64,)"
      R"("dtype":"fp16","causal":true,"alignment_bytes":16})");
}

TEST(Json, VariantRoundTripsWithTheAxesAsKeys) {
  const AttentionVariant variant{.tile_m = 80,
                                 .tile_n = 80,
                                 .warps = 5,
                                 .order = Order::sawtooth,
                                 .persistence = Persistence::persistent,
                                 .workers = 48,
                                 .smem_swizzle = false};
  const Json json = Variant(variant);
  EXPECT_EQ(json.size(), std::ranges::count_if(axes(attention_operation()), [](const Axis& axis) {
              return axis.belongs_to(Family::portable);
            }));
  EXPECT_EQ(json["order"], "sawtooth");
  EXPECT_EQ(json["workers"], 48);
  EXPECT_EQ(variant_from_json(attention_operation(), json), Variant(variant));
}

TEST(Json, AxesThatOlderVariantsDoNotNameHaveTheirDefault) {
  Json json = Variant(AttentionVariant{
      .kv_splits = 5, .pack_gqa = true, .longest_first = true, .kv_copy = KvCopy::tma});
  json.erase("kv_splits");
  json.erase("pack_gqa");
  json.erase("longest_first");
  json.erase("kv_copy");
  EXPECT_EQ(variant_from_json(attention_operation(), json), Variant(AttentionVariant{}));
  Json launch = LaunchGeometry{.grid_x = 1, .block_x = 32};
  launch.erase("partials_bytes");
  launch.erase("arrival_words");
  EXPECT_EQ(launch.get<LaunchGeometry>().partials_bytes, 0);
}

TEST(Json, VariantsOfBeforeThereWereClustersAlongKHaveNone) {
  Json json = Variant(GemmVariant{.family = Family::hopper, .cluster_k = 4});
  json.erase("cluster_k");
  EXPECT_EQ(variant_from_json(gemm_operation(), json),
            Variant(GemmVariant{.family = Family::hopper}));
}

TEST(Json, DeviceRoundTrips) {
  const DeviceInfo device{.name = "Fictional F1",
                          .sm_arch = 121,
                          .sm_count = 48,
                          .l2_bytes = 24LL << 20,
                          .dram_gb_per_s = 273.0,
                          .mig = true,
                          .smem_per_cta_bytes = 1,
                          .smem_per_sm_bytes = 2,
                          .smem_reserved_per_cta_bytes = 3,
                          .registers_per_sm = 4,
                          .max_threads_per_sm = 5,
                          .max_ctas_per_sm = 6};
  const auto read = Json(device).get<DeviceInfo>();
  EXPECT_EQ(Json(read), Json(device));
  EXPECT_TRUE(same_device(read, device));
  EXPECT_EQ(read.max_ctas_per_sm, 6);
}

/// Bytes of the fields that JSON and the database see.
template <typename Value>
std::size_t visited_bytes() {
  std::size_t bytes = 0;
  const Value value;
  visit_fields(value, [&](const char*, const auto& field, auto...) { bytes += sizeof(field); });
  return bytes;
}

TEST(Fields, ANewMemberIsNotForgotten) {
  // These types have no padding; whoever adds a member adds it to core/fields.h and the schema.
  // But for a prediction's error, which is the profile's and not stored.
  EXPECT_EQ(visited_bytes<Prediction>() + sizeof(Prediction::relative_error), sizeof(Prediction));
  EXPECT_EQ(visited_bytes<Counters>(), sizeof(Counters));
  EXPECT_EQ(visited_bytes<AccessCounters>(), sizeof(AccessCounters));
  EXPECT_EQ(visited_bytes<KernelResources>(), sizeof(KernelResources));
  EXPECT_EQ(visited_bytes<LaunchGeometry>(), sizeof(LaunchGeometry));
}

TEST(Json, AMissingFieldIsNamed) {
  Json json = Problem(kProblem);
  json.erase("seq_kv");
  EXPECT_THAT(complaint_of<Problem>(json), HasSubstr("'seq_kv' must be present"));
}

TEST(Json, AFieldOfAnotherTypeIsNamed) {
  Json json = Problem(kProblem);
  json["seq_q"] = "many";
  EXPECT_THAT(complaint_of<Problem>(json), HasSubstr("'seq_q' must be a whole number"));
  json["seq_q"] = 1.5;
  EXPECT_THAT(complaint_of<Problem>(json), HasSubstr("'seq_q' must be a whole number"));
  json["seq_q"] = 1LL << 40;
  EXPECT_THAT(complaint_of<Problem>(json), HasSubstr("seq_q must be between"));
  EXPECT_THAT(complaint_of<Problem>(Json(3)), HasSubstr("batch"));
}

TEST(Json, AProblemThatNoKernelServesIsRefused) {
  Json json = Problem(kProblem);
  json["heads_kv"] = 3;
  EXPECT_THAT(complaint_of<Problem>(json), HasSubstr("multiple of kv-heads"));
}

VariantResult measured_result() {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).stages = 3;
  result.detail = "no detail";
  result.resources.registers_per_thread = 200;
  result.smem_bytes = 1024;
  result.ctas_per_sm = 2;
  result.cubin_digest = "abc";
  Measurement measurement;
  measurement.samples_us = {2.0, 1.0 / 3.0};
  measurement.median_us = 1.5;
  measurement.p95_us = 2.0;
  measurement.relative_error = 1e-4;
  measurement.counters = Counters{.sectors_demanded = 5, .dram_write_bytes = 7};
  measurement.counters_missing_because = "partly";
  measurement.accesses = AccessCounters{.smem_load_conflicts = 0, .global_copy_sectors = 9};
  measurement.accesses_missing_because = "most are not there";
  measurement.l2_state = L2State::cold;
  measurement.sampling = Sampling::finals;
  measurement.before = {.sm_clock_mhz = 1980, .temperature_c = 40};
  measurement.after = {.power_mw = 300'000, .throttle_reasons = 4};
  measurement.condition_missing_because = "partly too";
  result.outcome = measurement;
  return result;
}

TEST(Json, ResultsRoundTrip) {
  const VariantResult measured = measured_result();
  EXPECT_EQ(Json(Json(measured).get<VariantResult>()), Json(measured));
  VariantResult predicted = measured;
  predicted.outcome = Prediction{.time_us = 3.0, .excess_misses = 9};
  EXPECT_EQ(Json(Json(predicted).get<VariantResult>()), Json(predicted));
}

TEST(Json, ARelativeErrorThatIsNoNumberIsReadAsInfinite) {
  Json json = measured_result();
  json["state"] = "correctness";
  json["measured"]["relative_error"] = nullptr;
  EXPECT_EQ(json.get<VariantResult>().measurement()->relative_error,
            std::numeric_limits<double>::infinity());
}

TEST(Json, AResultThatCannotBeIsRefused) {
  Json json = measured_result();
  json["measured"]["median_us"] = 0.0;
  EXPECT_THAT(complaint_of<VariantResult>(json), HasSubstr("'state' must be other than ok"));
  json["measured"]["median_us"] = -1.0;
  EXPECT_THAT(complaint_of<VariantResult>(json), HasSubstr("'median_us'"));
  json["measured"]["median_us"] = 1.0;
  json["measured"]["samples_us"] = {1.0, "two"};
  EXPECT_THAT(complaint_of<VariantResult>(json), HasSubstr("samples_us"));
  json["provenance"] = "guessed";
  EXPECT_NE(complaint_of<VariantResult>(json), "no complaint");
}

TEST(Json, ResultSaysWhetherItWasMeasured) {
  VariantResult result{.variant = AttentionVariant{}};
  Measurement measurement;
  measurement.samples_us = {2.0, 1.0};
  measurement.median_us = 1.5;
  measurement.counters_missing_because = "no permission";
  result.outcome = measurement;
  Json json = result;
  EXPECT_EQ(json["provenance"], "measured");
  EXPECT_EQ(json["measured"]["median_us"], 1.5);
  EXPECT_EQ(json["measured"]["samples_us"].size(), 2U);
  EXPECT_EQ(json["measured"]["counters_missing_because"], "no permission");
  EXPECT_FALSE(json.contains("predicted"));
  measurement.counters = Counters{.l2_misses = 7};
  result.outcome = measurement;
  EXPECT_EQ(Json(result)["measured"]["counters"]["l2_misses"], 7);
  result.outcome = Prediction{.time_us = 3.0};
  EXPECT_EQ(Json(result)["predicted"]["time_us"], 3.0);
}

TEST(Json, ADocumentSurvivesBytesThatAreNoText) {
  VariantResult result{.variant = AttentionVariant{}};
  result.detail = "log \xff end";
  Measurement measurement;
  measurement.relative_error = std::numeric_limits<double>::quiet_NaN();
  result.outcome = measurement;
  const Json read = Json::parse(json_document(result));
  EXPECT_THAT(read["detail"].get<std::string>(), HasSubstr("end"));
  EXPECT_TRUE(read["measured"]["relative_error"].is_null());
}

}  // namespace
}  // namespace swr
