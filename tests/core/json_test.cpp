// SPDX-License-Identifier: MIT
#include "core/json.h"

#include "core/bounded_json.h"
#include "core/fields.h"
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include "tests/support/waiting.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <sys/stat.h>

namespace swr {
namespace {

template <typename Value>
std::string complaint_of(const Json& json) {
  return message_of(ErrorCode::invalid_argument, [&] { (void)json.get<Value>(); });
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
  EXPECT_NE(complaint_of<VariantResult>(json), "");
}

TEST(Json, ResultSaysWhetherItWasMeasured) {
  VariantResult result{.variant = AttentionVariant{}};
  Measurement measurement{
      .samples_us = {2.0, 1.0}, .median_us = 1.5, .counters_missing_because = "no permission"};
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
  VariantResult result{.variant = AttentionVariant{}, .detail = "log \xff end"};
  Measurement measurement{.relative_error = std::numeric_limits<double>::quiet_NaN()};
  result.outcome = measurement;
  const Json read = Json::parse(json_document(result));
  EXPECT_THAT(read["detail"].get<std::string>(), HasSubstr("end"));
  EXPECT_TRUE(read["measured"]["relative_error"].is_null());
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// {"k0":0,"k1":1,..}
std::string object_of(std::size_t keys) {
  std::string text = "{";
  for (std::size_t i = 0; i < keys; ++i) {
    text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
  }
  return text + "}";
}

std::string error_of(const std::function<void()>& read) {
  return message_of(ErrorCode::unreadable, [&] { read(); });
}

std::string error_in(const std::string& text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "in.json", limits); });
}

TEST(BoundedJson, ReadsWhatTheParserReads) {
  for (const std::string text :
       {R"({"z":1,"a":[true,null,-2,18446744073709551615,2.5,"x\u00e9"],"":{}})", "[]", "\"text\"",
        "7", R"([{"b":[[],[1]]},{"b":{"a":1,"c":{}}}])"}) {
    EXPECT_EQ(parse_json(text, "in.json").dump(), Json::parse(text).dump());
    const Json document = Json::parse(text);
    const auto bytes = Json::to_cbor(document);
    EXPECT_EQ(parse_cbor({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "frame"),
              document);
  }
  const Json binary = Json::binary({0, 255, 3});
  const auto bytes = Json::to_cbor(binary);
  EXPECT_EQ(parse_cbor({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "frame"),
            binary);
}

TEST(BoundedJson, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1}x", "nul", "\"\xff\"", "1e999", "[1}"}) {
    EXPECT_THAT(error_in(text), HasSubstr("in.json is not JSON (line ")) << text;
  }
  EXPECT_EQ(error_in("{\n  \"a\": 1,\n  // why\n}"),
            "in.json is not JSON (line 3, column 3: comments are no JSON)");
  EXPECT_EQ(error_in("[1,\n2"), "in.json is not JSON (line 2, column 1: it ends too early)");
  EXPECT_EQ(error_in("[1,\n 2 3]"), "in.json is not JSON (line 2, column 4)");
  EXPECT_THAT(error_of([] { parse_cbor("\x9f\x01", "frame"); }),
              HasSubstr("frame is not CBOR (byte"));
}

TEST(BoundedJson, RefusesDeepNestingInTextAndBinary) {
  constexpr std::size_t kDeep = 200'000;
  EXPECT_THAT(error_in(repeated("[", kDeep) + repeated("]", kDeep)),
              AllOf(HasSubstr("in.json"), HasSubstr("more than 64 deep")));
  EXPECT_THAT(error_in(repeated("{\"a\":", kDeep) + "1" + repeated("}", kDeep)),
              HasSubstr("more than 64 deep"));
  EXPECT_THAT(error_of([] { parse_cbor(repeated("\x81", kDeep) + "\x01", "frame"); }),
              HasSubstr("more than 64 deep"));
  EXPECT_NO_THROW(parse_json(repeated("[", 64) + repeated("]", 64), "in.json"));
}

TEST(BoundedJson, RefusesKeysThatAreThereTwice) {
  EXPECT_THAT(error_in(R"({"a":1,"b":2,"a":3})"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(error_in(R"([{"a":{"x":1,"x":1}}])"), HasSubstr("the key 'x' twice"));
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":{"a":1}}])", "in.json"));
}

TEST(BoundedJson, NamesEveryOtherLimit) {
  EXPECT_THAT(error_in("[1,2,3]", {.bytes = 6}), HasSubstr("longer than 6 bytes"));
  EXPECT_THAT(error_in("[1,2,3]", {.values = 3}), HasSubstr("more than 3 values"));
  EXPECT_THAT(error_in(object_of(3), {.keys = 2}), HasSubstr("more than 2 keys"));
  EXPECT_NO_THROW(parse_json("[1,2,3]", "in.json", {.bytes = 7, .values = 4}));
  EXPECT_NO_THROW(parse_json(object_of(2), "in.json", {.keys = 2}));
  // A length that is only announced costs no memory.
  EXPECT_THAT(error_of([] { parse_cbor("\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", "frame"); }),
              HasSubstr("is not CBOR"));
}

/// 8 s before: every key was looked for among all earlier ones, and growing copied what was below.
TEST(BoundedJson, TakesTimeInProportionToTheKeys) {
  std::string text = object_of(50'000);
  for (int level = 0; level < 20; ++level) {
    text = "{\"more\":" + text + "," + object_of(1000).substr(1);
  }
  const double start = processor_s();
  EXPECT_EQ(parse_json(text, "in.json").size(), 1001U);
  EXPECT_LT(processor_s() - start, 2.0);
}

TEST(BoundedJson, ReadsRegularFilesOnly) {
  const TempDirectory directory;
  EXPECT_EQ(read_json_file(directory.write("in.json", "[1]")), Json({1}));
  const auto error_at = [&](const char* name) {
    return error_of([&] { read_json_file(directory / name, {.bytes = 3}); });
  };
  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_at("pipe"), AllOf(HasSubstr("pipe"), HasSubstr("is no regular file")));
  EXPECT_THAT(error_at("."), HasSubstr("is no regular file"));
  directory.write("long.json", "[1,2]");
  EXPECT_THAT(error_at("long.json"), AllOf(HasSubstr("long.json"), HasSubstr("3 bytes")));
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { read_json_file(directory / "none.json"); }),
              HasSubstr("none.json"));
}

}  // namespace
}  // namespace swr
