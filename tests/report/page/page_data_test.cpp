// SPDX-License-Identifier: MIT
#include "report/page/page_data.h"

#include "model/profile/gpu_profile.h"
#include "tests/db/fixtures.h"

namespace swr {
namespace {

const PageOrigin kOrigin{"tuned.db", "swr-tune report", "2026-11-21T12:00:00Z"};

VariantResult counted(const Variant& variant, double median_us, long long dram_read_bytes) {
  VariantResult result = measured(variant, median_us);
  result.ctas_per_sm = 2;
  auto& measurement = std::get<Measurement>(result.outcome);
  measurement.counters =
      Counters{.sectors_demanded = 1'000'000, .dram_read_bytes = dram_read_bytes};
  measurement.counters_missing_because.clear();
  return result;
}

Finalist finalist(const Variant& variant, double median_us, double ratio, bool tied) {
  Finalist entry{counted(variant, median_us, 3'276'800), ratio, ratio * 0.99, ratio * 1.01, tied};
  std::get<Measurement>(entry.result.outcome).sampling = Sampling::finals;
  return entry;
}

/// A database on its way to a page.
class PageData : public ::testing::Test {
 protected:
  Json data() {
    std::set<long long> winners;
    for (const StoredResult& winner : store_.winners()) {
      winners.insert(winner.id);
    }
    return page_data(read_history(path_), winners, kOrigin);
  }
  void record(const VariantResult& result, int seq = 512) {
    store_.record(run_, problem_of(seq), fictional_gpu(), result);
  }
  static Json value(const Json& data, const Json& field, std::size_t row, const char* name) {
    for (std::size_t i = 0; i < data["columns"].size(); ++i) {
      if (data["columns"][i] == name) {
        return field["rows"][row][i];
      }
    }
    ADD_FAILURE() << "no column " << name;
    return {};
  }

  const TempDirectory directory_;
  const std::filesystem::path path_ = directory_ / "tuned.db";
  Store store_{path_, Store::Mode::read_write};
  long long run_ = store_.begin_run(some_run());
};

TEST_F(PageData, MeasuredAndPredictedNeverShareAField) {
  record(counted(tile(64, 64), 20.0, 3'145'728));
  record(predicted(tile(64, 64), 15.0));
  const Json json = data();
  ASSERT_THAT(json["fields"], SizeIs(2));
  EXPECT_EQ(json["fields"][0]["provenance"], "measured");
  EXPECT_EQ(value(json, json["fields"][0], 0, "time_us"), 20.0);
  EXPECT_EQ(json["fields"][1]["provenance"], "predicted");
  EXPECT_EQ(value(json, json["fields"][1], 0, "time_us"), 15.0);
}

TEST_F(PageData, AccessesOfTheBestStandBesideItsAnswers) {
  VariantResult best = counted(tile(64, 64), 20.0, 3'145'728);
  std::get<Measurement>(best.outcome).accesses = AccessCounters{.smem_load_wavefronts = 4,
                                                                .smem_load_conflicts = 1,
                                                                .global_load_requests = 1,
                                                                .global_load_sectors = 2,
                                                                .global_load_bytes = 32};
  record(best);
  record(counted(tile(128, 64), 25.0, 3'145'728));
  const Json json = data();
  const Json& field = json["fields"][0];
  EXPECT_EQ(field["accesses"]["shared"][0]["conflicts_per_wavefront"], 0.25);
  EXPECT_EQ(field["accesses"]["global"][0]["bytes_per_sector"], 16.0);
  EXPECT_THAT(field["accesses"]["next"], SizeIs(2));
  EXPECT_EQ(value(json, field, 0, "conflicts_per_wavefront"), 0.25);
  EXPECT_TRUE(value(json, field, 1, "bytes_per_sector").is_null());
  record(counted(tile(128, 64), 10.0, 3'145'728));
  const Json later = data();
  EXPECT_TRUE(later["fields"][0]["accesses"].is_null());
  EXPECT_THAT(later["fields"][0]["accesses_unknown"].get<std::string>(),
              StartsWith("only winners"));
}

TEST_F(PageData, TheFrontHasWhomNobodyBeatsInTimeAndEnergy) {
  const auto with_energy = [](VariantResult result, double energy_mj) {
    std::get<Measurement>(result.outcome).energy =
        Energy{.samples_mj = {energy_mj}, .launch_us = 20.0, .idle_power_w = 80.0};
    return result;
  };
  record(with_energy(counted(tile(64, 64), 20.0, 3'145'728), 9.0));
  record(with_energy(counted(tile(64, 32), 21.0, 3'145'728), 9.5));
  record(with_energy(counted(tile(32, 64), 22.0, 3'145'728), 6.0));
  record(counted(tile(32, 32), 19.0, 3'145'728));
  store_.record_choice(run_, problem_of(512), fictional_gpu(), "energy",
                       std::vector<RankedResult>{{.result_id = 3}, {.result_id = 1, .ratio = 1.5}},
                       0.02);
  const Json json = data();
  const Json& field = json["fields"][0];
  EXPECT_EQ(field["energy_front"], Json::array({2, 4}));
  EXPECT_EQ(value(json, field, 1, "energy_mj"), 9.0);
  EXPECT_TRUE(value(json, field, 0, "energy_mj").is_null());
  EXPECT_EQ(value(json, field, 3, "power_w"), 300.0);
  ASSERT_THAT(field["winners_by"], SizeIs(1));
  EXPECT_THAT(field["winners_by"][0].get<std::string>(), HasSubstr("By energy: "));
  EXPECT_THAT(field["winners_by"][0].get<std::string>(), HasSubstr("6.000 mJ"));
  EXPECT_EQ(field["decided"], false);
}

TEST_F(PageData, WarmAndColdMeasurementsNeverShareAField) {
  record(counted(tile(64, 64), 20.0, 3'145'728));
  VariantResult cold = counted(tile(64, 64), 25.0, 3'145'728);
  std::get<Measurement>(cold.outcome).l2_state = L2State::cold;
  record(cold);
  const Json json = data();
  ASSERT_THAT(json["fields"], SizeIs(2));
  EXPECT_EQ(json["fields"][0]["l2_state"], "cold");
  EXPECT_EQ(json["fields"][1]["l2_state"], "warm");
}

TEST_F(PageData, WinnerOfFinalsStandsFirstWithRatiosAndScreeningTimes) {
  record(counted(tile(64, 64), 20.0, 3'145'728));
  record(counted(tile(32, 32), 19.9, 3'145'728));
  record(counted(tile(128, 64), 30.0, 3'145'728));
  store_.record_decision(run_, problem_of(512), fictional_gpu(),
                         std::vector{finalist(tile(64, 64), 21.0, 1.0, true),
                                     finalist(tile(32, 32), 21.5, 1.024, false)},
                         0.005);
  const Json json = data();
  ASSERT_THAT(json["fields"], SizeIs(1));
  const Json& field = json["fields"][0];
  ASSERT_THAT(field["rows"], SizeIs(3));
  EXPECT_EQ(value(json, field, 0, "tile"), "64x64x4");
  EXPECT_EQ(value(json, field, 0, "time_us"), 20.0);
  EXPECT_EQ(value(json, field, 0, "finals_us"), 21.0);
  EXPECT_EQ(value(json, field, 1, "ratio"), 1.024);
  EXPECT_EQ(value(json, field, 1, "tied"), false);
  EXPECT_TRUE(value(json, field, 2, "finals_us").is_null());
  // 131072 bytes beyond Q, K and V of 1.5 MiB were read in the finals.
  EXPECT_EQ(value(json, field, 0, "excess_miss_sectors"), (3'276'800 - 3 * 512 * 8 * 64 * 2) / 32);
  const Json& answers = field["answers"];
  EXPECT_THAT(answers["best"].get<std::string>(), HasSubstr("21.00 us"));
  EXPECT_THAT(answers["margin"].get<std::string>(), HasSubstr("1.024 [1.014, 1.034]"));
  EXPECT_THAT(answers["significance"].get<std::string>(), HasSubstr("of 2 finalists"));
}

TEST_F(PageData, UndecidedAndPredictedBestsSayWhatTheyAreWorth) {
  record(measured(tile(64, 64), 20.0));
  record(measured(tile(32, 32), 22.0));
  record(predicted(tile(64, 64), 15.0));
  const Json json = data();
  EXPECT_THAT(json["fields"][0]["answers"]["significance"].get<std::string>(),
              StartsWith("Not decided in finals"));
  EXPECT_THAT(json["fields"][0]["answers"]["margin"].get<std::string>(),
              HasSubstr("1.100 times as long"));
  EXPECT_THAT(json["fields"][0]["answers"]["avoidable"].get<std::string>(), StartsWith("Unknown"));
  EXPECT_THAT(json["fields"][1]["answers"]["significance"].get<std::string>(),
              StartsWith("Nothing was measured"));
}

TEST_F(PageData, APredictionSaysHowFarItMayBeOffAndWhatItCannotTellApart) {
  const DeviceInfo gb10 = profiled_device("gb10");
  for (const auto& [variant, time_us] :
       {std::pair(tile(64, 64), 1000.0), std::pair(tile(32, 32), 1020.0),
        std::pair(tile(128, 64), 5000.0)}) {
    store_.record(run_, problem_of(512), gb10, predicted(variant, time_us));
  }
  const Json answers = data()["fields"][0]["answers"];
  EXPECT_THAT(answers["best"].get<std::string>(), HasSubstr(", likely "));
  EXPECT_THAT(answers["significance"].get<std::string>(),
              ::testing::ContainsRegex("uncertain by [0-9]+ %; 1 other lies within"));
}

/// Queries answer with a predicted choice, which met nobody in rounds.
TEST_F(PageData, APredictedChoiceHasNoRatios) {
  const std::vector<Finalist> chosen{{.result = predicted(tile(64, 64), 15.0)},
                                     {.result = predicted(tile(32, 32), 12.0), .ratio = 0.8}};
  store_.record_decision(run_, problem_of(512), fictional_gpu(), chosen, 0.02);
  const Json json = data();
  const Json& field = json["fields"][0];
  EXPECT_EQ(field["decided"], false);
  EXPECT_TRUE(value(json, field, 0, "ratio").is_null());
  EXPECT_TRUE(value(json, field, 1, "tied").is_null());
}

TEST_F(PageData, TilesAndProgressFollowTheRows) {
  record(measured(tile(64, 64), 20.0));
  record(measured(tile(32, 32), 25.0));
  record(measured(tile(128, 64), 16.0));
  VariantResult failure = result_of(tile(256, 64));
  failure.state = ResultState::compile;
  failure.detail = "no";
  failure.outcome = Measurement{};
  record(failure);
  const Json json = data();
  const Json& field = json["fields"][0];
  EXPECT_EQ(field["tried"], 4);
  EXPECT_EQ(field["succeeded"], 3);
  EXPECT_EQ(field["tiles"][0]["tile"], "128x64x4");
  EXPECT_DOUBLE_EQ(field["tiles"][1]["loss"].get<double>(), 0.25);
  EXPECT_EQ(field["progress"], Json::parse("[[1,20.0],[3,16.0],[4,16.0]]"));
  EXPECT_EQ(value(json, field, 3, "state"), "compile");
}

TEST_F(PageData, MissCurveFallsToTheCompulsoryRatio) {
  record(counted(tile(64, 64), 20.0, 3'145'728), 4096);
  const Json json = data();
  const Json& curve = json["fields"][0]["curves"][0];
  ASSERT_THAT(curve["points"], Not(IsEmpty()));
  double last = 1.0;
  for (const Json& point : curve["points"]) {
    EXPECT_LE(point[1].get<double>(), last);
    last = point[1].get<double>();
  }
  EXPECT_DOUBLE_EQ(last, curve["compulsory_ratio"].get<double>());
}

TEST_F(PageData, MissCurvesAreOfBothOrdersOfTheBestTileThoughOneWasTried) {
  VariantResult only = counted(tile(64, 64), 20.0, 3'145'728);
  only.variant.as<AttentionVariant>().persistence = Persistence::grid;
  record(only, 4096);
  const Json json = data();
  const Json& curves = json["fields"][0]["curves"];
  ASSERT_THAT(curves, SizeIs(2));
  EXPECT_EQ(curves[0]["order"], "cyclic");
  EXPECT_EQ(curves[1]["order"], "sawtooth");
  // A CTA of a grid walks K and V once, so that both are of a persistent launch.
  for (const Json& curve : curves) {
    EXPECT_THAT(curve["label"].get<std::string>(), HasSubstr("64x64"));
    EXPECT_THAT(curve["label"].get<std::string>(), HasSubstr("persistent"));
  }
}

TEST_F(PageData, ShapeWithoutSuccessHasNoAnswers) {
  VariantResult failure = result_of(tile(256, 64));
  failure.state = ResultState::compile;
  failure.outcome = Measurement{};
  record(failure);
  const Json json = data();
  ASSERT_THAT(json["fields"], SizeIs(1));
  EXPECT_FALSE(json["fields"][0].contains("answers"));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Page, TextOfTheDataCannotLeaveItsPlace) {
  const std::string harmless = render_page({{"text", "harmless"}});
  const std::string hostile = render_page(
      {{"text", "</script><script>alert(1)</script><!-- @SCRIPT@ \xff"}, {"@STYLE@", "&lt;"}});
  EXPECT_EQ(count(hostile, "<script"), count(harmless, "<script"));
  EXPECT_EQ(count(hostile, "</script"), count(harmless, "</script"));
  EXPECT_THAT(hostile, Not(HasSubstr("<!-- @SCRIPT@")));
}

TEST(Page, HoldsTheChartLibraryWithItsLicenceAndFetchesNothing) {
  const std::string page = render_page(Json::object());
  EXPECT_THAT(page, HasSubstr("swrModules[\"vega-view\"]"));
  EXPECT_THAT(page, HasSubstr("University of Washington"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  for (const char* placeholder :
       {"@STYLE@", "@LICENCE@", "@LIBRARY@", "@CHARTS@", "@SCRIPT@", "@DATA@"}) {
    EXPECT_THAT(page, Not(HasSubstr(placeholder)));
  }
}

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
