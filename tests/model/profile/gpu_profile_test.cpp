// SPDX-License-Identifier: MIT
#include "model/profile/gpu_profile.h"

#include "model/profile/profile_inheritance.h"
#include "tests/support/test.h"

#include <nlohmann/json.hpp>

namespace swr {
namespace {
using Json = nlohmann::json;

/// A complete profile of a GPU that does not exist.
Json fictional_profile() {
  Json profile{{"id", "fictional"}};
  const auto add = [&profile](const char* name, const Json& value) {
    profile[name] = {{"value", value}, {"source", "invented"}};
  };
  add("name", "GTX Fictional");
  for (const char* name : {"sm_arch", "sm_count", "l2_bytes", "smem_per_cta_bytes",
                           "smem_per_sm_bytes", "smem_reserved_per_cta_bytes", "registers_per_sm",
                           "max_threads_per_sm", "max_ctas_per_sm", "l2_effective_bytes"}) {
    add(name, 90);
  }
  for (const char* name :
       {"dram_gb_per_s", "clock_mhz", "matrix_flop_per_clock_per_sm", "exp2_per_clock_per_sm",
        "fma_per_clock_per_sm", "l2_gb_per_s", "l2_latency_clocks", "dram_latency_clocks",
        "dram_efficiency", "product_gap_clocks", "smem_share", "step_latency_clocks",
        "barrier_clocks", "younger_share", "tile_clocks", "launch_us"}) {
    add(name, 0.5);
  }
  return profile;
}

class GpuProfileFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("swr_profile_") + test->name() + ".json");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  GpuProfile load(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return load_profile(path_.string());
  }

  /// Message of the error; empty when there was none.
  std::string rejection(const Json& profile) {
    try {
      load(profile.dump());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable);
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
};

TEST_F(GpuProfileFile, IsAFileThatDoesNotNestWithoutEnd) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THROW(load("{\"id\":" + deep + "}"), Error);
  EXPECT_THROW(load_profile("/"), Error);
}

TEST(GpuProfile, BuiltInIdsAreSorted) {
  EXPECT_THAT(profile_ids(),
              ElementsAre("a100", "a100-pcie", "gb10", "h100", "h100-pcie", "h20", "h200", "l40s",
                          "rtx3090", "rtx4090", "rtx5090", "rtxpro6000"));
}

TEST(GpuProfile, EveryBuiltInProfileLoadsWithASourceForEveryNumber) {
  for (const std::string& id : profile_ids()) {
    const GpuProfile profile = load_profile(id);
    EXPECT_EQ(profile.id, id);
    const std::size_t optional = (profile.l2_ways > 0 ? 1U : 0U) + !profile.code_factors.empty() +
                                 !profile.prediction_errors.regimes.empty();
    EXPECT_EQ(profile.sources.size(), 27U + optional) << id;
    EXPECT_FALSE(profile.device.mig);
  }
}

TEST(GpuProfile, AnUnknownIdIsAnsweredWithTheKnownOnes) {
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { load_profile("gb11"); }),
              AllOf(HasSubstr("gb11"), HasSubstr("a100, a100-pcie, gb10")));
}

TEST(GpuProfile, AMissingFileIsNotFound) {
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { load_profile("./no_such_profile.json"); }),
              HasSubstr("no_such_profile.json"));
}

TEST_F(GpuProfileFile, LoadsFromAPath) {
  const GpuProfile profile = load(fictional_profile().dump());
  EXPECT_EQ(profile.id, "fictional");
  EXPECT_EQ(profile.device.name, "GTX Fictional");
  EXPECT_EQ(profile.device.l2_bytes, 90);
  EXPECT_EQ(profile.clock_mhz, 0.5);
  EXPECT_EQ(profile.sources.at("clock_mhz"), "invented");
}

TEST_F(GpuProfileFile, ErrorsOfPredictionsAreThoseOfTheRegime) {
  Json profile = fictional_profile();
  EXPECT_EQ(load(profile.dump()).prediction_error(1000, false, 64), 0.0);
  profile["prediction_errors"] = {
      {"value", {{"no_mask", {{64, 0.1}, {128, 0.15}}}, {"causal", {{128, 0.2}}}, {"brief", 0.3}}},
      {"source", "invented"}};
  const GpuProfile loaded = load(profile.dump());
  EXPECT_EQ(loaded.prediction_error(1000, false, 64), 0.1);
  EXPECT_EQ(loaded.prediction_error(1000, false, 80), 0.15);
  EXPECT_EQ(loaded.prediction_error(1000, false, 256), 0.15);
  EXPECT_EQ(loaded.prediction_error(1000, true, 64), 0.2);
  EXPECT_EQ(loaded.prediction_error(199, true, 64), 0.3);
  const GpuProfile again = load(profile_text(loaded));
  EXPECT_EQ(again.prediction_error(199, false, 64), 0.3);
  EXPECT_EQ(again.prediction_error(1000, false, 128), 0.15);
  EXPECT_EQ(loaded.prediction_error("sorting"), 0.0);
  profile["prediction_errors"]["value"]["named"] = {{"sorting", 0.4}};
  EXPECT_EQ(load(profile_text(load(profile.dump()))).prediction_error("sorting"), 0.4);
  profile["prediction_errors"]["value"]["named"] = {{"sorting", "small"}};
  EXPECT_THAT(rejection(profile), HasSubstr("prediction_errors"));
  profile["prediction_errors"]["value"]["named"] = 0.4;
  EXPECT_THAT(rejection(profile), HasSubstr("prediction_errors"));
  profile["prediction_errors"]["value"].erase("named");
  Json reversed = profile;
  reversed["prediction_errors"]["value"]["no_mask"] = {{128, 0.15}, {64, 0.1}};
  EXPECT_THAT(rejection(reversed), HasSubstr("growing order"));
  profile["prediction_errors"]["value"].erase("brief");
  EXPECT_THAT(rejection(profile), HasSubstr("prediction_errors"));
}

TEST_F(GpuProfileFile, ErrorsOfPredictionsAreNotTakenOverByAnotherChip) {
  Json child = {{"id", "child"}, {"inherits", "gb10"}};
  EXPECT_FALSE(load(child.dump()).prediction_errors.regimes.empty());
  child["name"] = {{"value", "NVIDIA GB11"}, {"source", "invented"}};
  EXPECT_TRUE(load(child.dump()).prediction_errors.regimes.empty());
}

TEST(GpuProfile, EveryNumberSaysWhatItRestsOn) {
  for (const std::string& id : profile_ids()) {
    const GpuProfile profile = load_profile(id);
    const std::vector<ProfileEntry> entries = profile_entries(profile);
    EXPECT_EQ(entries.size(), profile.sources.size()) << id;
    for (const ProfileEntry& entry : entries) {
      EXPECT_GT(entry.source.size(), 8U) << id << " " << entry.name;
      EXPECT_FALSE(entry.value.empty()) << id << " " << entry.name;
    }
  }
}

TEST_F(GpuProfileFile, TextThatIsNoJsonNamesTheFile) {
  EXPECT_THROW(load("{\"id\": "), Error);
  EXPECT_THAT(rejection(Json::array()), HasSubstr(path_.string()));
}

TEST_F(GpuProfileFile, EachMissingFieldIsNamed) {
  const Json complete = fictional_profile();
  for (const auto& item : complete.items()) {
    Json profile = fictional_profile();
    profile.erase(item.key());
    EXPECT_THAT(rejection(profile), AllOf(HasSubstr(path_.string()), HasSubstr(item.key())));
  }
}

TEST_F(GpuProfileFile, EachFieldRejectsWrongTypesAndValuesThatAreNotPositive) {
  const Json complete = fictional_profile();
  for (const auto& item : complete.items()) {
    if (item.key() == "id") {
      continue;
    }
    for (const Json& wrong :
         {Json(nullptr), Json(0), Json(-1), Json(""), Json(true), Json(1e300), Json(1e-300)}) {
      Json profile = fictional_profile();
      profile[item.key()]["value"] = wrong;
      EXPECT_THAT(rejection(profile), HasSubstr(item.key())) << wrong;
    }
  }
}

TEST_F(GpuProfileFile, WholeNumbersRejectFractions) {
  Json profile = fictional_profile();
  profile["sm_count"]["value"] = 48.5;
  EXPECT_THAT(rejection(profile), AllOf(HasSubstr("sm_count"), HasSubstr("whole")));
}

TEST_F(GpuProfileFile, ANumberWithoutASourceIsRejected) {
  Json profile = fictional_profile();
  profile["clock_mhz"].erase("source");
  EXPECT_THAT(rejection(profile), AllOf(HasSubstr("clock_mhz"), HasSubstr("source")));
}

TEST_F(GpuProfileFile, AnUnknownFieldIsRejected) {
  Json profile = fictional_profile();
  profile["clock_ghz"] = profile["clock_mhz"];
  EXPECT_THAT(rejection(profile), HasSubstr("clock_ghz"));
}

TEST_F(GpuProfileFile, ValuesThatContradictEachOtherAreRejected) {
  Json profile = fictional_profile();
  profile["l2_effective_bytes"]["value"] = 91;
  EXPECT_THAT(rejection(profile), HasSubstr("l2_effective_bytes"));
  profile = fictional_profile();
  profile["dram_efficiency"]["value"] = 1.1;
  EXPECT_THAT(rejection(profile), HasSubstr("dram_efficiency"));
  profile = fictional_profile();
  profile["younger_share"]["value"] = 1.1;
  EXPECT_THAT(rejection(profile), HasSubstr("younger_share"));
}

TEST(GpuProfile, ADeviceThatIsBuiltInKeepsItsRates) {
  DeviceInfo device = load_profile("h200").device;
  device.name = "some board";
  const GpuProfile profile = profile_for_device(device);
  EXPECT_EQ(profile.id, "h200");
  EXPECT_EQ(profile.device.name, "some board");
}

TEST(GpuProfile, AnUnknownDeviceIsScaledFromTheNearestArchitecture) {
  DeviceInfo device = load_profile("rtx5090").device;
  device.name = "GTX Fictional";
  device.sm_count = 85;
  device.l2_bytes /= 3;
  const GpuProfile known = load_profile("rtx5090");
  const GpuProfile profile = profile_for_device(device);
  EXPECT_EQ(profile.id, "auto");
  EXPECT_EQ(profile.device.name, "GTX Fictional");
  EXPECT_DOUBLE_EQ(profile.l2_gb_per_s, known.l2_gb_per_s / 2);
  EXPECT_EQ(profile.l2_effective_bytes, known.l2_effective_bytes / 3);
  EXPECT_EQ(profile.clock_mhz, known.clock_mhz);
  EXPECT_THAT(profile.sources.at("clock_mhz"), HasSubstr("rtx5090"));
}

TEST_F(GpuProfileFile, SetsOfL2MayBeLeftOutAndMustMakeSense) {
  Json profile = fictional_profile();
  EXPECT_EQ(load(profile.dump()).l2_ways, 0);
  profile["l2_sets"] = {{"value", {{"ways", 16}, {"partition_runs", Json::array()}}},
                        {"source", "a test"}};
  EXPECT_EQ(load(profile.dump()).l2_ways, 16);
  profile["l2_sets"]["value"]["partition_runs"] = {1};
  EXPECT_THAT(rejection(profile), HasSubstr("must sum to sm_count"));
  profile["l2_sets"]["value"]["ways"] = 0;
  EXPECT_THAT(rejection(profile), HasSubstr("l2_sets"));
  profile["l2_sets"] = 16;
  EXPECT_THAT(rejection(profile), HasSubstr("partition_runs"));
}

TEST_F(GpuProfileFile, FactorsOfCodesMayBeLeftOutAndMustMakeSense) {
  Json profile = fictional_profile();
  const KernelCode code{128, 64, 96, 4, 2, Order::sawtooth};
  EXPECT_EQ(load(profile.dump()).code_factor(code), 1.0);
  const Json row{128, 64, 96, 4, 2, "sawtooth", 1.03};
  profile["code_factors"] = {{"value", Json::array({row})}, {"source", "a test"}};
  EXPECT_EQ(load(profile.dump()).code_factor(code), 1.03);
  EXPECT_EQ(load(profile.dump()).code_factor({128, 64, 96, 4, 2, Order::cyclic}), 1.0);
  profile["code_factors"]["value"] = {row, row};
  EXPECT_THAT(rejection(profile), HasSubstr("twice the same code"));
  profile["code_factors"]["value"] = Json::array({{128, 64, 96, 4, 2, "spiral", 1.03}});
  EXPECT_THAT(rejection(profile), HasSubstr("no such order"));
  profile["code_factors"]["value"] = Json::array({{128, 64, 96}});
  EXPECT_THAT(rejection(profile), HasSubstr("tile_m"));
}

TEST(GpuProfile, FactorsOfCodesAreOfTheirArchitecture) {
  DeviceInfo device = load_profile("h200").device;
  device.name = "Another Hopper";
  EXPECT_FALSE(profile_for_device(device).code_factors.empty());
  device.sm_arch = 100;
  EXPECT_TRUE(profile_for_device(device).code_factors.empty());
}

TEST(GpuProfile, WhatIsWrittenReadsBackTheSame) {
  const GpuProfile written = load_profile("h200");
  const std::string path = ::testing::TempDir() + "/swr_written_profile.json";
  std::ofstream(path) << profile_text(written);
  const GpuProfile read = load_profile(path);
  EXPECT_EQ(read.id, written.id);
  EXPECT_EQ(read.device.l2_bytes, written.device.l2_bytes);
  EXPECT_EQ(read.l2_effective_bytes, written.l2_effective_bytes);
  EXPECT_EQ(read.l2_ways, written.l2_ways);
  EXPECT_EQ(read.l2_partition_runs, written.l2_partition_runs);
  EXPECT_EQ(read.dram_efficiency, written.dram_efficiency);
  EXPECT_FALSE(written.code_factors.empty());
  EXPECT_EQ(read.code_factors, written.code_factors);
  EXPECT_EQ(read.sources, written.sources);
}

Json field(const Json& value, const std::string& source) {
  return {{"value", value}, {"source", source}};
}

/// Profiles that inherit from each other, in the place of the built-in ones.
class Inheritance : public ::testing::Test {
 protected:
  Json resolve(const Json& document) const {
    return with_inherited_fields("mine.json", document, [this](std::string_view id) {
      const auto found = profiles_.find(std::string(id));
      return found == profiles_.end() ? Json() : found->second;
    });
  }
  std::string rejection(const Json& document) const {
    return message_of(ErrorCode::unreadable, [&] { resolve(document); });
  }

  std::map<std::string, Json> profiles_{
      {"old",
       {{"id", "old"},
        {"sm_arch", field(90, "a list")},
        {"sm_count", field(132, "a list")},
        {"clock_mhz", field(1000, "measured")},
        {"launch_us", field(2.2, "fitted")},
        {"code_factors", field(Json::array({1, 2}), "fitted")},
        {"l2_sets", field("sets", "measured")}}},
      {"young",
       {{"id", "young"}, {"inherits", "old"}, {"clock_mhz", field(2000, "a data sheet")}}}};
};

TEST_F(Inheritance, AProfileWithoutItStaysAsItIs) {
  EXPECT_EQ(resolve(profiles_["old"]), profiles_["old"]);
}

TEST_F(Inheritance, WhatIsStatedComesFirstAndTheRestIsTakenOver) {
  const Json profile = resolve(profiles_["young"]);
  EXPECT_EQ(profile["id"], "young");
  EXPECT_EQ(profile["clock_mhz"], field(2000, "a data sheet"));
  EXPECT_EQ(profile["launch_us"], field(2.2, "Taken over from profile old: fitted"));
  EXPECT_EQ(profile["code_factors"]["value"], Json::array({1, 2}));
  EXPECT_FALSE(profile.contains("inherits"));
}

TEST_F(Inheritance, GoesUpAChainAndNamesTheProfileThatStates) {
  const Json profile = resolve({{"id", "mine"}, {"inherits", "young"}});
  EXPECT_EQ(profile["clock_mhz"], field(2000, "Taken over from profile young: a data sheet"));
  EXPECT_EQ(profile["launch_us"], field(2.2, "Taken over from profile old: fitted"));
  EXPECT_EQ(profile["id"], "mine");
}

TEST_F(Inheritance, NullLeavesAFieldOutAlsoForThoseBelow) {
  profiles_["young"]["code_factors"] = nullptr;
  EXPECT_FALSE(resolve(profiles_["young"]).contains("code_factors"));
  EXPECT_FALSE(resolve({{"id", "mine"}, {"inherits", "young"}}).contains("code_factors"));
}

TEST_F(Inheritance, WhatHoldsForOneCardIsTakenOverByItsLikeOnly) {
  Json other{{"id", "other"}, {"inherits", "old"}, {"sm_arch", field(100, "a list")}};
  EXPECT_FALSE(resolve(other).contains("code_factors"));
  EXPECT_TRUE(resolve(other).contains("l2_sets"));
  other = {{"id", "other"}, {"inherits", "old"}, {"sm_count", field(114, "a list")}};
  EXPECT_TRUE(resolve(other).contains("code_factors"));
  EXPECT_FALSE(resolve(other).contains("l2_sets"));
  other["l2_sets"] = field("its own", "measured");
  EXPECT_EQ(resolve(other)["l2_sets"], field("its own", "measured"));
}

TEST_F(Inheritance, RefusesNamesThatAreNoneAndCircles) {
  EXPECT_THAT(rejection({{"inherits", "gb11"}}),
              AllOf(HasSubstr("mine.json"), HasSubstr("inherits"), HasSubstr("gb11"),
                    HasSubstr("swr-tune devices")));
  EXPECT_THAT(rejection({{"inherits", 3}}), HasSubstr("id of a built-in profile, not 3"));
  profiles_["old"]["inherits"] = "young";
  EXPECT_THAT(rejection({{"inherits", "young"}}), HasSubstr("'young' inherits from itself"));
  profiles_["young"]["inherits"] = "young";
  EXPECT_THAT(rejection(profiles_["young"]), HasSubstr("'young' inherits from itself"));
}

GpuProfile load(const Json& document) {
  const TempDirectory directory;  // Of its own: tests of this file run side by side.
  return load_profile(directory.write("inheriting_profile.json", document.dump()).string());
}

TEST(InheritingProfile, OfAUserTakesABuiltInOneByName) {
  const GpuProfile h200 = load_profile("h200");
  const GpuProfile mine =
      load({{"id", "mine"}, {"inherits", "h200"}, {"clock_mhz", field(1500, "my power limit")}});
  EXPECT_EQ(mine.id, "mine");
  EXPECT_EQ(mine.clock_mhz, 1500);
  EXPECT_EQ(mine.device.l2_bytes, h200.device.l2_bytes);
  EXPECT_EQ(mine.code_factors, h200.code_factors);
  EXPECT_EQ(mine.l2_partition_runs, h200.l2_partition_runs);
  EXPECT_EQ(mine.sources.at("clock_mhz"), "my power limit");
  EXPECT_THAT(mine.sources.at("launch_us"), HasSubstr("Taken over from profile h200: "));
}

TEST(InheritingProfile, MissesWhatItDeclaresUnknown) {
  EXPECT_THAT(error_text([&] {
                load({{"id", "mine"}, {"inherits", "h200"}, {"clock_mhz", nullptr}});
              }),
              AllOf(HasSubstr("clock_mhz"), HasSubstr("missing")));
}

/// What stands in the files themselves: a field that a file states replaces the inherited one
/// whole.
Json merged_file(const std::string& id) {
  std::ifstream file(std::filesystem::path(SWR_PROFILES) / (id + ".json"));
  Json document = Json::parse(file);
  if (!document.contains("inherits")) {
    return document;
  }
  Json merged = merged_file(document["inherits"].get<std::string>());
  merged.update(document);
  return merged;
}

TEST(BuiltInProfiles, HaveTheNumbersOfTheirFilesAndOfThoseTheyInherit) {
  // Factors are of machine code for sm_90; those of an H20 are not known to hold at its clock.
  const std::set<std::string> with_code_factors{"h100", "h100-pcie", "h200"};
  for (const std::string& id : profile_ids()) {
    const Json expected = merged_file(id);
    const Json loaded = Json::parse(profile_text(load_profile(id)));
    int numbers = 0;
    for (const auto& [name, stated] : expected.items()) {
      const bool of_one_card = name == "code_factors" || name == "l2_sets";
      if (stated.is_object() && !(of_one_card && id != "h200")) {
        EXPECT_EQ(loaded.at(name).at("value"), stated.at("value")) << id << " " << name;
        ++numbers;
      }
    }
    EXPECT_GE(numbers, 28) << id;
    EXPECT_EQ(loaded.contains("code_factors"), with_code_factors.contains(id)) << id;
    EXPECT_EQ(loaded.contains("l2_sets"), id == "h200") << id;
  }
}

TEST(BuiltInProfiles, TakeTheCostsOfTheOnlyGpuTheyWereFittedOn) {
  const KernelCosts fitted = load_profile("h200").kernel;
  for (const std::string& id : profile_ids()) {
    const GpuProfile profile = load_profile(id);
    for (const KernelCost& cost : kKernelCosts) {
      EXPECT_EQ(profile.kernel.*cost.member, fitted.*cost.member) << id << " " << cost.name;
    }
  }
}

}  // namespace
}  // namespace swr
