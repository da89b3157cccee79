// SPDX-License-Identifier: MIT
#include "model/profile/profile_inheritance.h"

#include "model/profile/gpu_profile.h"
#include "tests/support/temp_directory.h"
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace swr {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

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
    try {
      resolve(document);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable);
      return error.what();
    }
    return "no error";
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
  try {
    load({{"id", "mine"}, {"inherits", "h200"}, {"clock_mhz", nullptr}});
    FAIL() << "a profile without a clock was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("clock_mhz"), HasSubstr("missing")));
  }
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
