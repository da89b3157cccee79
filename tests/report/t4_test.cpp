// SPDX-License-Identifier: MIT
// Tables of other programs: T4 and the profiler of CUTLASS.
#include "report/other_formats.h"
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <regex>

namespace swr {
namespace {

constexpr std::array kStates{
    ResultState::ok,          ResultState::compile, ResultState::constraint,
    ResultState::launch,      ResultState::runtime, ResultState::timeout,
    ResultState::correctness, ResultState::crash,   ResultState::throttled};

/// One result of every state.
RecordedSpace some_space() {
  RecordedSpace space{.problem = AttentionProblem{.seq_q = 128, .seq_kv = 128, .head_dim = 16},
                      .device = test::fictional_device(),
                      .origin = {.l2_state = "warm"},
                      .results = {}};
  for (const ResultState state : kStates) {
    VariantResult result{.variant = AttentionVariant{}};
    attention(result.variant).workers = static_cast<int>(space.results.size());
    result.state = state;
    Measurement measurement;
    if (state == ResultState::ok) {
      measurement.samples_us = {2000.0, 1000.0, 3000.0};
      measurement.median_us = 2000.0;
    }
    result.outcome = measurement;
    space.results.push_back(result);
  }
  return space;
}

/// What the T4 schema demands of a result, written down by hand.
void expect_t4_result(const Json& result) {
  static const std::set<std::string> kInvalidities{"timeout",     "compile",     "runtime",
                                                   "correctness", "constraints", "correct"};
  EXPECT_TRUE(result.at("configuration").is_object());
  EXPECT_TRUE(result.at("objectives").is_array());
  EXPECT_TRUE(result.at("times").is_object());
  EXPECT_TRUE(result.at("times").at("runtimes").is_array());
  EXPECT_TRUE(kInvalidities.contains(result.at("invalidity").get<std::string>()));
  EXPECT_TRUE(result.at("correctness").is_number());
  for (const Json& measurement : result.at("measurements")) {
    EXPECT_TRUE(measurement.at("name").is_string());
    EXPECT_TRUE(measurement.at("value").is_number());
    EXPECT_TRUE(measurement.at("unit").is_string());
  }
}

TEST(T4, MeetsTheSchemaForEveryState) {
  const Json document = t4_document(some_space());
  EXPECT_TRUE(std::regex_match(document.at("schema_version").get<std::string>(),
                               std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
  ASSERT_EQ(document.at("results").size(), kStates.size());
  for (const Json& result : document.at("results")) {
    expect_t4_result(result);
  }
}

TEST(T4, GivesTimesInMillisecondsInTheOrderTaken) {
  const Json result = t4_document(some_space()).at("results").at(0);
  EXPECT_EQ(result.at("times").at("runtimes"), Json({2.0, 1.0, 3.0}));
  EXPECT_EQ(result.at("measurements").at(0).at("name"), "time");
  EXPECT_EQ(result.at("measurements").at(0).at("value"), 2.0);
  EXPECT_EQ(result.at("measurements").at(0).at("unit"), "ms");
}

TEST(T4, NamesWhatWentWrong) {
  const Json results = t4_document(some_space()).at("results");
  EXPECT_EQ(results.at(1).at("invalidity"), "compile");
  EXPECT_EQ(results.at(2).at("invalidity"), "constraints");
  EXPECT_EQ(results.at(6).at("invalidity"), "correctness");
  EXPECT_EQ(results.at(6).at("correctness"), 0);
  EXPECT_TRUE(results.at(6).at("measurements").empty());
}

TEST(T4, ConfigurationsAreTheAxes) {
  const RecordedSpace space = some_space();
  const Json results = t4_document(space).at("results");
  EXPECT_EQ(variant_from_json(attention_operation(), results.at(3).at("configuration")),
            space.results[3].variant);
}

TEST(T4, SaysWhatTheResultsAreOf) {
  const RecordedSpace space = some_space();
  const Json about = t4_document(space).at("swr");
  EXPECT_EQ(about.at("problem").get<Problem>(), space.problem);
  EXPECT_EQ(about.at("device").at("name"), space.device.name);
}

TEST(T4, ComesBackFromADocumentOfItsOwn) {
  RecordedSpace space = some_space();
  space.results[0].resources.registers_per_thread = 168;
  space.results[0].ctas_per_sm = 2;
  std::get<Measurement>(space.results[0].outcome).counters = Counters{.sectors_demanded = 10,
                                                                      .l2_lookups = 9,
                                                                      .l2_hits = 7,
                                                                      .l2_misses = 2,
                                                                      .l2_fabric_sectors = 1,
                                                                      .dram_read_bytes = 320,
                                                                      .dram_write_bytes = 64};
  std::get<Measurement>(space.results[0].outcome).accesses =
      AccessCounters{.smem_load_wavefronts = 5, .smem_load_conflicts = 0, .global_load_bytes = 8};
  const RecordedSpace read = read_t4(Json::parse(t4_document(space).dump()));
  EXPECT_EQ(read.problem, space.problem);
  EXPECT_EQ(read.device.name, space.device.name);
  EXPECT_EQ(read.origin.l2_state, "warm");
  ASSERT_EQ(read.results.size(), space.results.size());
  for (std::size_t i = 0; i < read.results.size(); ++i) {
    EXPECT_EQ(read.results[i].variant, space.results[i].variant);
  }
  const VariantResult& first = read.results[0];
  EXPECT_EQ(first.resources.registers_per_thread, 168);
  EXPECT_EQ(first.ctas_per_sm, 2);
  EXPECT_EQ(first.measurement()->samples_us, space.results[0].measurement()->samples_us);
  EXPECT_EQ(first.measurement()->median_us, 2000.0);
  EXPECT_EQ(first.measurement()->counters, space.results[0].measurement()->counters);
  EXPECT_EQ(first.measurement()->accesses, space.results[0].measurement()->accesses);
  // Written again it is the same document: nothing is lost on the second way.
  EXPECT_EQ(t4_document(read_t4(t4_document(read))), t4_document(read));
}

Energy some_energy() {
  return {.samples_mj = {4.0, 6.5}, .launch_us = 2100.0, .idle_power_w = 80.0};
}

RecordedSpace space_with_energy() {
  RecordedSpace space = some_space();
  std::get<Measurement>(space.results[0].outcome).energy = some_energy();
  return space;
}

std::map<std::string, Json> measurements_by_name(const Json& result) {
  std::map<std::string, Json> by_name;
  for (const Json& measurement : result.at("measurements")) {
    EXPECT_TRUE(by_name.emplace(measurement.at("name"), measurement).second)
        << measurement << " has a name that another measurement has";
  }
  return by_name;
}

TEST(T4, HasEnergyAsAnObjectiveWhereItIsKnown) {
  const Json document = t4_document(space_with_energy());
  const Json& result = document.at("results").at(0);
  expect_t4_result(result);
  EXPECT_EQ(result.at("objectives"), Json({"time", "energy"}));
  EXPECT_EQ(document.at("results").at(1).at("objectives"), Json::array({"time"}));
  auto by_name = measurements_by_name(result);
  EXPECT_EQ(by_name.at("energy").at("value"), 5.25);
  EXPECT_EQ(by_name.at("energy").at("unit"), "mJ");
  EXPECT_EQ(by_name.at("energy_run_2_mj").at("value"), 6.5);
}

TEST(T4, EnergyComesBackWithEveryRun) {
  const RecordedSpace read = read_t4(Json::parse(t4_document(space_with_energy()).dump()));
  EXPECT_EQ(read.results[0].measurement()->energy, some_energy());
  EXPECT_EQ(read_t4(t4_document(some_space())).results[0].measurement()->energy, std::nullopt);
}

/// Energy of the first result of a file whose measurements are these alone.
std::optional<Energy> energy_of_others(const Json& measurements) {
  Json document = t4_document(some_space());
  document["results"][0]["measurements"] = measurements;
  return read_t4(document).results[0].measurement()->energy;
}

TEST(T4, ReadsTheEnergyOfKernelTunersObserversInJoule) {
  const Json energy{{"name", "nvml_energy"}, {"value", 0.25}, {"unit", ""}};
  const Json power{{"name", "nvml_power"}, {"value", 125.0}, {"unit", ""}};
  EXPECT_EQ(energy_of_others({energy, power}),
            (Energy{.samples_mj = {250.0}, .launch_us = 2000.0, .idle_power_w = 0.0}));
  EXPECT_EQ(energy_of_others(Json::array({energy}))->launch_us, 2000.0) << "the median of samples";
  EXPECT_EQ(energy_of_others(Json::array({{{"name", "energy"}, {"value", 7.0}, {"unit", "uJ"}}}))
                ->samples_mj,
            std::vector{0.007});
}

TEST(T4, RefusesEnergiesThatCannotBe) {
  const auto refusal = [](const char* name, double value, const char* unit) {
    return error_text([&] {
      energy_of_others(Json::array({{{"name", name}, {"value", value}, {"unit", unit}}}));
    });
  };
  EXPECT_THAT(refusal("energy", 5.0, "kWh"), HasSubstr("unit of energy must be J, mJ or uJ"));
  EXPECT_THAT(refusal("energy", 0.0, "mJ"), HasSubstr("must be above 0"));
  EXPECT_THAT(refusal("energy_run_1_mj", 1e308, ""), "");
  EXPECT_THAT(refusal("nvml_energy", 1e308, ""), Not(IsEmpty()));
}

TEST(T4, RefusesWhatItCannotUseAndSaysWhy) {
  const auto refusal = [](auto&& change) {
    Json document = t4_document(some_space());
    change(document);
    return message_of(ErrorCode::unreadable, [&] { read_t4(document); });
  };
  EXPECT_THAT(refusal([](Json& json) { json.erase("swr"); }), HasSubstr("swr"));
  EXPECT_THAT(refusal([](Json& json) { json["schema_version"] = "2.0.0"; }), HasSubstr("1.x"));
  EXPECT_THAT(refusal([](Json& json) { json["results"][0]["invalidity"] = "odd"; }),
              HasSubstr("odd"));
  EXPECT_THAT(refusal([](Json& json) { json["results"][0]["times"]["runtimes"] = {-1.0}; }),
              HasSubstr("above 0"));
  EXPECT_THAT(refusal([](Json& json) { json["results"][0]["configuration"].erase("stages"); }),
              HasSubstr("stages"));
  EXPECT_NE(refusal([](Json& json) { json["results"] = 7; }), "");
}

/// A number that no counter can have is refused: converting it has no defined result.
TEST(T4, RefusesNumbersThatNoResultCanHave) {
  const auto refusal = [](const char* name, const Json& value) {
    Json document = t4_document(some_space());
    document["results"][0]["measurements"].push_back({{"name", name}, {"value", value}});
    return error_text([&] { read_t4(document); });
  };
  EXPECT_THAT(refusal("registers_per_thread", 999),
              HasSubstr("registers_per_thread must be at most 255, not 999"));
  EXPECT_THAT(refusal("smem_load_wavefronts", 1e300), HasSubstr("not 1e+300"));
  EXPECT_THAT(refusal("global_load_bytes", 9223372036854775807), HasSubstr("global_load_bytes"));
  EXPECT_THAT(refusal("ctas_per_sm", 4e9), HasSubstr("ctas_per_sm"));
  EXPECT_THAT(refusal("smem_bytes", 3e9), HasSubstr("smem_bytes"));
  EXPECT_EQ(refusal("smem_load_wavefronts", 1LL << 53), "");
  Json document = t4_document(some_space());
  document["results"][0]["times"]["runtimes"] = {1e308};
  EXPECT_THROW(read_t4(document), Error);
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, ',');) {
    all.push_back(field);
  }
  return all;
}

TEST(CutlassCsv, HasTheProfilersColumnsAndRates) {
  RecordedSpace space{.problem = AttentionProblem{.seq_q = 1024, .seq_kv = 1024, .head_dim = 64},
                      .device = test::fictional_device(),
                      .origin = {},
                      .results = {}};
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.samples_us = {1000.0}, .median_us = 1000.0};
  space.results.push_back(result);
  result.state = ResultState::correctness;
  space.results.push_back(result);
  std::ostringstream out;
  write_cutlass_csv(out, space);
  std::istringstream text(out.str());
  std::string header;
  std::string good;
  std::string wrong;
  ASSERT_TRUE(std::getline(text, header) && std::getline(text, good) && std::getline(text, wrong));
  const auto names = fields(header);
  const auto values = fields(good);
  ASSERT_EQ(values.size(), names.size());
  const auto value = [&](const std::string& name) {
    const auto at = std::ranges::find(names, name) - names.begin();
    return values.at(static_cast<std::size_t>(at));
  };
  EXPECT_EQ(value("Provider"), "swr");
  EXPECT_EQ(value("Disposition"), "passed");
  EXPECT_EQ(value("tile_m"), "64");
  EXPECT_EQ(value("Runtime"), "1");
  // Q, K, V and O of 1024 x 64 halves: 524288 bytes in a millisecond; 4 S S D operations.
  EXPECT_NEAR(std::stod(value("GB/s")), 0.524288, 1e-6);
  EXPECT_NEAR(std::stod(value("GFLOPs")), 268.435, 1e-3);
  EXPECT_NE(wrong.find(",incorrect,correctness,"), std::string::npos);
  EXPECT_TRUE(wrong.ends_with(",,,"));
}

}  // namespace
}  // namespace swr
