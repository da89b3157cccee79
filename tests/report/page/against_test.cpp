// SPDX-License-Identifier: MIT
#include "report/page/page_data.h"

#include <gtest/gtest.h>

#include <string>

namespace swr {
namespace {

Json field(const std::string& title, double time_us, const std::string& provenance = "measured") {
  return {{"problem", title},
          {"title", title},
          {"device", 0},
          {"provenance", provenance},
          {"l2_state", ""},
          {"overlay", ""},
          {"answers", {{"best", ""}}},
          {"rows", Json::array({Json::array({"variant of " + title, time_us, nullptr})})}};
}

Json document(const std::string& device, const Json& fields) {
  return {{"database", "some.db"},
          {"columns", {"label", "time_us", "finals_us"}},
          {"devices", Json::array({{{"device", {{"name", device}}}}})},
          {"fields", fields}};
}

TEST(Against, PairsEqualProblemsAndPutsTheWorstChangeFirst) {
  const Json here =
      document("A", Json::array({field("p", 9.0), field("q", 12.0), field("r", 1.0)}));
  const Json there =
      document("A", Json::array({field("q", 10.0), field("p", 10.0), field("s", 1.0)}));
  const Json compared = against(here, there);
  ASSERT_EQ(compared["pairs"].size(), 2U);
  EXPECT_EQ(compared["pairs"][0]["title"], "q");
  EXPECT_EQ(compared["pairs"][0]["time_us"], 12.0);
  EXPECT_EQ(compared["pairs"][0]["before_us"], 10.0);
  EXPECT_EQ(compared["pairs"][1]["before_label"], "variant of p");
  EXPECT_EQ(compared["only_here"], 1);
  EXPECT_EQ(compared["only_there"], 1);
  EXPECT_EQ(compared["database"], "some.db");
}

TEST(Against, NeverComparesAMeasurementWithAPredictionOrTwoDevices) {
  const Json measured = document("A", Json::array({field("p", 9.0)}));
  EXPECT_TRUE(against(measured, document("A", Json::array({field("p", 9.0, "predicted")})))["pairs"]
                  .empty());
  EXPECT_TRUE(against(measured, document("B", Json::array({field("p", 9.0)})))["pairs"].empty());
}

TEST(Against, TakesTheTimeOfTheFinalsAndLeavesOutWhatFailed) {
  Json decided = field("p", 9.0);
  decided["rows"][0][2] = 8.0;
  Json failed = field("q", 1.0);
  failed.erase("answers");
  const Json compared = against(document("A", Json::array({decided, failed})),
                                document("A", Json::array({field("p", 10.0), failed})));
  ASSERT_EQ(compared["pairs"].size(), 1U);
  EXPECT_EQ(compared["pairs"][0]["time_us"], 8.0);
  EXPECT_EQ(compared["only_here"], 0);
}

}  // namespace
}  // namespace swr
