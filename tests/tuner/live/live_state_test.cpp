// SPDX-License-Identifier: MIT
#include "tuner/live/live_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace swr {
namespace {

Json state_after(const std::vector<std::string>& lines) {
  LiveState state;
  for (const std::string& line : lines) {
    state.take(line);
  }
  return state.snapshot();
}

const std::string kStart =
    R"({"event":"start","device":{"name":"Fictional One"},"provenance":"measured",)"
    R"("title":"a problem","variants":4,"at":100.5})";

TEST(LiveState, FollowsARunFromItsStartToItsEnd) {
  const Json state = state_after(
      {kStart, R"({"event":"variant","done":1,"key":"a","state":"ok","time_us":12.0,"known":true})",
       R"({"event":"best","done":1,"key":"a","time_us":12.0})",
       R"({"event":"variant","done":2,"key":"b","state":"timeout","time_us":null,"known":false})",
       R"({"event":"variant","done":3,"key":"c","state":"ok","time_us":10.0,"at":107.0})",
       R"({"event":"best","done":3,"key":"c","time_us":10.0})",
       R"({"event":"phase","doing":"deciding"})"});
  const Json& run = state["runs"][0];
  EXPECT_EQ(run["title"], "a problem");
  EXPECT_EQ(run["device"], "Fictional One");
  EXPECT_TRUE(run["gpu"].is_null());
  EXPECT_EQ(run["variants"], 4);
  EXPECT_EQ(run["done"], 3);
  EXPECT_EQ(run["known"], 1);
  EXPECT_EQ(run["failed"]["timeout"], 1);
  EXPECT_EQ(run["phase"], "deciding");
  EXPECT_EQ(run["best_key"], "c");
  EXPECT_EQ(run["times_us"], (Json{{1, 12.0}, {3, 10.0}}));
  EXPECT_EQ(run["bests_us"], (Json{{1, 12.0}, {3, 10.0}}));
  EXPECT_EQ(run["started_at"], 100.5);
  EXPECT_EQ(run["changed_at"], 107.0);
  EXPECT_FALSE(run["is_over"].get<bool>());
  EXPECT_EQ(state["finished"], 0);
}

TEST(LiveState, TakesTheDecisionOfTheFinalsForTheBest) {
  const Json state = state_after(
      {kStart, R"({"event":"best","done":1,"key":"a","time_us":12.0})",
       R"({"event":"finals","finalists":[]})",
       R"({"event":"end","best":"b","time_us":11.5,"total_s":9.0,"interrupted":false})"});
  EXPECT_EQ(state["runs"][0]["best_key"], "b");
  EXPECT_TRUE(state["runs"][0]["is_over"].get<bool>());
  EXPECT_EQ(state["finished"], 1);
  EXPECT_EQ(state["last"][0]["best_us"], 11.5);
  EXPECT_EQ(state["last"][0]["total_s"], 9.0);
}

TEST(LiveState, KeepsTheRunsOfSeveralGpusApart) {
  const Json state = state_after(
      {R"({"event":"start","title":"one","variants":2,"gpu":0})",
       R"({"event":"start","title":"two","variants":3,"gpu":1})",
       R"({"event":"variant","done":1,"state":"ok","time_us":5.0,"gpu":1})",
       R"({"event":"end","best":null,"time_us":null,"total_s":1.0,"interrupted":true,"gpu":0})",
       R"({"event":"start","title":"three","variants":9,"gpu":0})"});
  ASSERT_EQ(state["runs"].size(), 2U);
  EXPECT_EQ(state["runs"][0]["gpu"], 0);
  EXPECT_EQ(state["runs"][0]["title"], "three");
  EXPECT_EQ(state["runs"][0]["done"], 0);
  EXPECT_EQ(state["runs"][1]["title"], "two");
  EXPECT_EQ(state["runs"][1]["done"], 1);
  EXPECT_TRUE(state["last"][0]["is_interrupted"].get<bool>());
  EXPECT_TRUE(state["last"][0]["best_us"].is_null());
}

TEST(LiveState, CountsWhatItCannotReadAndGoesOn) {
  const Json state = state_after({"no JSON", "[1, 2]", R"({"event":"of a newer swr"})",
                                  R"({"event":"variant","done":"many","time_us":{}})", kStart});
  EXPECT_EQ(state["unread"], 3);
  EXPECT_EQ(state["runs"][0]["variants"], 4);
}

TEST(LiveState, TakesNoMoreThanAnEventHolds) {
  std::string many = "{\"event\":\"start\"";
  for (int i = 0; i < 70'000; ++i) {
    many += ",\"k" + std::to_string(i) + "\":1";
  }
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const Json state = state_after({deep, R"({"event":"start","title":)" + deep + "}", many + "}",
                                  R"({"event":"end","event":"start"})",
                                  "{\"event\":\"" + std::string(2 << 20, 'x') + "\"}", kStart,
                                  R"({"event":"variant","done":1e300,"state":"ok","time_us":2})"});
  EXPECT_EQ(state["unread"], 5);
  EXPECT_EQ(state["runs"][0]["done"], 1);
}

TEST(LiveState, HoldsNoMoreGpusAndStatesThanThereAre) {
  LiveState live;
  for (int i = 0; i < 3000; ++i) {
    const std::string number = std::to_string(i);
    live.take(R"({"event":"variant","gpu":)" + number + "}");
    live.take(R"({"event":"variant","gpu":0,"state":"s)" + number + R"("})");
  }
  const Json state = live.snapshot();
  EXPECT_EQ(state["runs"].size(), 1024U);
  EXPECT_EQ(state["unread"], 3000 - 1024);
  EXPECT_EQ(state["runs"][0]["failed"].size(), 33U);
  EXPECT_EQ(state["runs"][0]["failed"]["other"], 3000 - 32);
}

TEST(LiveState, ShowsTheNewestFirstAndNotAll) {
  LiveState state;
  for (int i = 0; i < 60; ++i) {
    state.take(R"({"event":"start","title":"p)" + std::to_string(i) + R"(","variants":1})");
    state.take(R"({"event":"end","best":"k","time_us":1.0})");
  }
  const Json shown = state.snapshot();
  EXPECT_EQ(shown["finished"], 60);
  EXPECT_EQ(shown["last"].size(), 50U);
  EXPECT_EQ(shown["last"][0]["title"], "p59");
}

}  // namespace
}  // namespace swr
