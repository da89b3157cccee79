// SPDX-License-Identifier: MIT
#include "report/report.h"

#include "core/metrics.h"
#include "report/explain/likely_text.h"
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/device.h>

namespace swr {
namespace {

VariantResult predicted(Order order, double time_us, long long excess) {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).order = order;
  attention(result.variant).persistence = Persistence::persistent;
  result.resources.registers_per_thread = 128;
  result.smem_bytes = 40960;
  result.ctas_per_sm = 2;
  result.outcome = Prediction{.time_us = time_us,
                              .read_sectors = 107'000'000,
                              .write_sectors = 478'656,
                              .compulsory_misses = 1'000'000,
                              .excess_misses = excess};
  return result;
}

VariantResult measured(Order order, double time_us) {
  VariantResult result = predicted(order, 0.0, 0);
  result.outcome = Measurement{.samples_us = {time_us, time_us},
                               .median_us = time_us,
                               .p95_us = time_us,
                               .counters = Counters{.l2_misses = 123'456},
                               .counters_missing_because = {}};
  return result;
}

/// Ranked as tune() ranks: successes by time, then failures.
TuneReport sample_report() {
  TuneReport report;
  report.problem = AttentionProblem{.seq_q = 4096, .seq_kv = 4096};
  report.device = {.name = "Fictional One", .sm_arch = 121, .sm_count = 48, .l2_bytes = 25165824};
  report.provenance = Provenance::predicted;
  report.results = {predicted(Order::sawtooth, 1000.0, 500'000),
                    predicted(Order::cyclic, 1250.0, 3'000'000)};
  VariantResult failure{.variant = AttentionVariant{}};
  failure.state = ResultState::compile;
  failure.detail = "error: \"wrong\", line 3";
  failure.outcome = Prediction{};
  report.results.push_back(failure);
  report.dropped = {{AttentionVariant{}, "shared_memory", "too much"},
                    {AttentionVariant{}, "shared_memory", "again"}};
  return report;
}

std::string printed(const TuneReport& report, const ReportStyle& style = {}) {
  std::ostringstream out;
  print_report(out, report, style);
  return out.str();
}

/// On a GB10, a variant for each reading of the SM clock.
TuneReport measured_at(const std::vector<long long>& clocks_mhz) {
  TuneReport report{.problem = AttentionProblem{.seq_q = 4096, .seq_kv = 4096},
                    .device = profiled_device("gb10"),
                    .provenance = Provenance::measured};
  for (const long long clock_mhz : clocks_mhz) {
    report.results.push_back(measured(Order::cyclic, 1000.0));
    std::get<Measurement>(report.results.back().outcome).after = {.sm_clock_mhz = clock_mhz,
                                                                  .throttle_reasons = 0};
  }
  return report;
}

TEST(Report, APredictionCarriesItsErrorAndWhatLiesWithinItIsATie) {
  TuneReport report = sample_report();
  report.problem = AttentionProblem{.seq_q = 65536, .seq_kv = 65536};
  std::get<Prediction>(report.results[0].outcome) = {.time_us = 12'000, .relative_error = 0.08};
  std::get<Prediction>(report.results[1].outcome) = {.time_us = 12'900, .relative_error = 0.08};
  std::ostringstream out;
  print_report(out, report, {.top = 2, .bold = false});
  EXPECT_THAT(out.str(), ContainsRegex("\n +=2 .* cyclic .* 85 ± 7 +predicted\n"));
  EXPECT_THAT(out.str(), ContainsRegex("best: .*, 92 ± 7 TFLOP/s \\(predicted\\)"));
  EXPECT_THAT(out.str(), HasSubstr("uncertain by 8 %; 1 other lies within"));
  const Json record = result_record(report.problem, report.results[0]);
  EXPECT_EQ(record["metrics"]["prediction_error"], 0.08);
  std::get<Prediction>(report.results[1].outcome).time_us = 13'000;
  std::ostringstream apart;
  print_report(apart, report, {.top = 2, .bold = false});
  EXPECT_THAT(apart.str(), ContainsRegex("\n +2 .* cyclic "));
  EXPECT_THAT(apart.str(), HasSubstr("; no other lies within that of the best\n"));
}

TEST(Report, ABiasSaysWhatIsLikelyInPlaceOfBothSides) {
  TuneReport report = sample_report();
  report.device = profiled_device("gb10");
  for (VariantResult& result : report.results) {
    std::get<Prediction>(result.outcome).relative_error = 0.13;
  }
  const double rate = tflop_per_s(report.problem, report.results[0]).value();
  EXPECT_THAT(printed(report), HasSubstr(uncertain_rate_text(rate, 0.13, -0.132) + " TFLOP/s"));
  EXPECT_EQ(uncertain_rate_text(55.31, 0.13, -0.142), "55, likely 47");
  EXPECT_EQ(uncertain_rate_text(55.31, 0.13, 0.0), "55 ± 7");
  EXPECT_EQ(uncertain_rate_text(55.31, 0.0, -0.142), "55.31");
  EXPECT_EQ(uncertain_time_text(79520.0, 0.13, -0.142), ", uncertain by 13 %, likely 92.68 ms");
}

TEST(Report, SaysWhatOthersTakeAndWhatAnswersInstead) {
  TuneReport report = sample_report();
  const double best_us = report.results[0].time_us();
  report.peers = {{.call = "torch 2.11.0 matmul", .median_us = 0.5 * best_us}};
  StoredResult shipped{.result = report.results[1]};
  report.answer = shipped;
  EXPECT_THAT(printed(report), HasSubstr("against torch 2.11.0 matmul: "));
  EXPECT_THAT(printed(report), HasSubstr("0.50 times as long; that call is faster\n"));
  EXPECT_THAT(printed(report), HasSubstr("came with swr)\n"));
  const Json record = report_record(report);
  EXPECT_TRUE(record["answer"]["shipped"]);
  EXPECT_EQ(record["against"][0]["median_us"], 0.5 * best_us);
}

TEST(Report, SaysHowTheFirstWasChosenAmongTies) {
  TuneReport report = sample_report();
  std::get<Prediction>(report.results[0].outcome).relative_error = 0.08;
  EXPECT_THAT(printed(report), Not(HasSubstr("cannot tell")));
  report.robust = RobustChoice{.tied = 3, .slowdown = 0.0123, .fastest_slowdown = 0.031};
  EXPECT_THAT(printed(report),
              HasSubstr("the model cannot tell the first 3 apart (2 %); rank 1 loses at most 1.2 % "
                        "to them if one unit is 25 % slower\n"));
  report.robust->slowdown = 0.0;
  EXPECT_THAT(printed(report), HasSubstr("rank 1 stays the best of them if one unit is"));
}

TEST(Report, EveryRowAndConclusionSaysThatItWasPredicted) {
  const std::string text = printed(sample_report());
  EXPECT_THAT(text, HasSubstr("Predicted: attention b1 h1/1 s4096/4096 d64 fp16 on Fictional One"));
  EXPECT_THAT(text, ContainsRegex("  1 +64x64 .* sawtooth .*1\\.000 ms .* predicted\n"));
  EXPECT_THAT(text, ContainsRegex("  2 +64x64 .* cyclic .*1\\.250 ms .* predicted\n"));
  EXPECT_THAT(text, ContainsRegex("best: .*\\(predicted\\)"));
  EXPECT_THAT(text, ContainsRegex("sawtooth against cyclic.* predicted\n"));
  EXPECT_THAT(text, Not(HasSubstr("measured")));
}

TEST(Report, ShowsTheColumnsAPersonJudgesBy) {
  const std::string text = printed(sample_report());
  EXPECT_THAT(text, ContainsRegex("regs +smem KiB +CTAs/SM +L2 sectors +compulsory +excess +time +"
                                  "TFLOP/s +provenance"));
  EXPECT_THAT(text, ContainsRegex("128 +40\\.0 +2 +107\\.5 M +65\\.54 k +500\\.0 k"));
}

TEST(Report, SaysWhatSawtoothGainsOverCyclic) {
  EXPECT_THAT(printed(sample_report()),
              HasSubstr("L2 misses 4.000 M -> 1.500 M (-62.5 %), time 1.250 ms -> 1.000 ms "
                        "(-20.0 %)"));
}

TEST(Report, ShowsTimesOfTheFinalsBesideThoseOfTheScreening) {
  TuneReport report = sample_report();
  report.provenance = Provenance::measured;
  report.results = {measured(Order::sawtooth, 1026.0), measured(Order::cyclic, 1010.0)};
  attention(report.results[0].variant).stages = 1;
  std::get<Measurement>(report.results[0].outcome).sampling = Sampling::finals;
  report.screening_us[report.results[0].variant] = 1000.0;
  const std::string text = printed(report);
  EXPECT_THAT(text, ContainsRegex("time +in finals +TFLOP/s"));
  EXPECT_THAT(text, ContainsRegex("  1 +64x64 .* 1\\.000 ms +1\\.026 ms "));
  EXPECT_THAT(text, ContainsRegex("  2 +64x64 .* 1\\.010 ms +- "));
  EXPECT_THAT(text, ContainsRegex("best: .*1\\.026 ms.*measured, in the finals"));
}

TEST(Report, CountsDroppedAndFailedVariants) {
  const std::string text = printed(sample_report());
  EXPECT_THAT(text, HasSubstr("dropped by constraint: shared_memory 2"));
  EXPECT_THAT(text, HasSubstr("failed (compile): 1, e.g. 64x64x4"));
}

TEST(Report, ShowsTheTopRowsAndCountsTheOthers) {
  const std::string text = printed(sample_report(), {.top = 1});
  EXPECT_THAT(text, HasSubstr("... and 1 more"));
  EXPECT_THAT(text, Not(ContainsRegex("  2 +64x64")));
}

TEST(Report, UsesNoTerminalCodesUnlessAskedTo) {
  EXPECT_THAT(printed(sample_report()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(printed(sample_report(), {.bold = true}), HasSubstr("\x1b[1m"));
}

TEST(Report, HasNoBestWhenEverythingFailed) {
  TuneReport report = sample_report();
  report.results.erase(report.results.begin(), report.results.begin() + 2);
  EXPECT_EQ(report.best(), nullptr);
  EXPECT_THAT(printed(report), HasSubstr("best: none"));
}

TEST(Report, ShowsCountedMissesOfAMeasurementAndWhyCountersAreMissing) {
  TuneReport report = sample_report();
  report.provenance = Provenance::measured;
  report.results = {measured(Order::sawtooth, 10.0), measured(Order::cyclic, 20.0)};
  report.results[1].outcome = Measurement{.samples_us = {20.0},
                                          .median_us = 20.0,
                                          .counters = std::nullopt,
                                          .counters_missing_because = "the driver said no"};
  const std::string text = printed(report);
  EXPECT_THAT(text, HasSubstr("Measured:"));
  EXPECT_THAT(text, HasSubstr("L2 misses"));
  EXPECT_THAT(text, HasSubstr("123.5 k"));
  EXPECT_THAT(text, HasSubstr("counters missing: the driver said no"));
  EXPECT_THAT(text, Not(HasSubstr("predicted")));
}

/// The frugal first: 2 ms and 300 mJ before 1 ms and 500 mJ.
TuneReport report_by_energy() {
  TuneReport report = sample_report();
  report.provenance = Provenance::measured;
  report.results = {measured(Order::cyclic, 2000.0), measured(Order::sawtooth, 1000.0)};
  const auto add = [](VariantResult& result, double energy_mj, double launch_us) {
    std::get<Measurement>(result.outcome).energy =
        Energy{.samples_mj = {energy_mj}, .launch_us = launch_us, .idle_power_w = 80.0};
  };
  add(report.results[0], 300.0, 2000.0);
  add(report.results[1], 500.0, 1000.0);
  report.objective = "energy";
  report.choice = {
      .ranked = {{.variant = report.results[0].variant, .value = 300.0, .tied = true},
                 {.variant = report.results[1].variant, .value = 500.0, .ratio = 5.0 / 3}},
      .tie_threshold = 0.02,
      .idle_power_w = 80.0};
  return report;
}

TEST(Report, SaysWhoIsTheBestByTheObjectiveAndTheFrontOfTimeAndEnergy) {
  const std::string text = printed(report_by_energy());
  EXPECT_THAT(text, HasSubstr("best by energy: 300.0, of 2 variants; 1 within 2.0 %"));
  EXPECT_THAT(text, HasSubstr("front of time and energy, 2 of 2 measured:"));
  EXPECT_THAT(text, HasSubstr("1.000 ms, 500.0 mJ, 500 W: family="));
  EXPECT_THAT(text, HasSubstr("an idle GPU draws 80.0 W"));
  EXPECT_THAT(printed(sample_report()), Not(HasSubstr("mJ")));
}

TEST(Report, SaysWhyEnergyIsUnknown) {
  TuneReport report = sample_report();
  report.choice.missing_because = "no counter";
  EXPECT_THAT(printed(report), HasSubstr("energy or objective unknown: no counter"));
}

TEST(OrderPair, IsThePairWithTheFastestMemberAndEqualOtherAxes) {
  std::vector<VariantResult> results{
      predicted(Order::sawtooth, 1.0, 0), predicted(Order::sawtooth, 2.0, 0),
      predicted(Order::cyclic, 3.0, 0), predicted(Order::cyclic, 4.0, 0)};
  attention(results[0].variant).stages = 4;  // Has no cyclic twin.
  attention(results[1].variant).stages = 3;
  attention(results[2].variant).stages = 1;  // Has no sawtooth twin.
  attention(results[3].variant).stages = 3;
  const auto pair = best_order_pair(results);
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->sawtooth, &results[1]);
  EXPECT_EQ(pair->cyclic, &results[3]);
}

TEST(OrderPair, DoesNotExistWithoutASuccessfulTwin) {
  std::vector<VariantResult> results{predicted(Order::sawtooth, 1.0, 0),
                                     predicted(Order::cyclic, 2.0, 0)};
  results[1].state = ResultState::correctness;
  EXPECT_FALSE(best_order_pair(results).has_value());
}

TEST(Records, JsonCarriesProvenanceKeyAndMetricsOfEveryRow) {
  const auto json = Json::parse(json_document(report_record(sample_report())));
  EXPECT_EQ(json["provenance"], "predicted");
  ASSERT_EQ(json["results"].size(), 3U);
  const auto& best = json["results"][0];
  EXPECT_EQ(best["provenance"], "predicted");
  EXPECT_EQ(best["state"], "ok");
  EXPECT_EQ(best["key"], json["best"]);
  EXPECT_EQ(parse_attention(best["key"].get<std::string>()).order, Order::sawtooth);
  EXPECT_EQ(best["metrics"]["l2_sectors"], 107'478'656);
  EXPECT_EQ(best["metrics"]["excess_miss_sectors"], 500'000);
  EXPECT_DOUBLE_EQ(best["metrics"]["time_us"], 1000.0);
  EXPECT_EQ(json["results"][2]["state"], "compile");
  EXPECT_FALSE(json["results"][2]["metrics"].contains("time_us"));
  EXPECT_EQ(json["dropped_by_constraint"]["shared_memory"], 2);
}

TEST(Records, CarryObjectiveChoiceAndEnergy) {
  const Json json = report_record(report_by_energy());
  EXPECT_EQ(json["objective"], "energy");
  EXPECT_EQ(json["choice"]["idle_power_w"], 80.0);
  EXPECT_EQ(json["choice"]["ranked"][1]["value"], 500.0);
  EXPECT_EQ(json["results"][0]["metrics"]["energy_mj"], 300.0);
  EXPECT_EQ(json["results"][0]["metrics"]["power_w"], 150.0);
  EXPECT_EQ(json["results"][0]["measured"]["energy"]["samples_mj"][0], 300.0);
  EXPECT_TRUE(report_record(sample_report())["choice"].is_null());
  VariantResult back;
  json["results"][0].get_to(back);
  EXPECT_EQ(back.measurement()->energy, report_by_energy().results[0].measurement()->energy);
}

TEST(Records, CsvHasOneLinePerRowAndQuotesWhatNeedsIt) {
  std::ostringstream out;
  write_csv_header(out);
  write_csv_rows(out, sample_report());
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_THAT(
      text, HasSubstr("problem,device,provenance,state,rank,sampling,family,tile_m,tile_n,warps,"));
  EXPECT_THAT(text, HasSubstr("Fictional One,predicted,ok,1,,portable,64,64,4,2,sawtooth,"));
  EXPECT_THAT(text, HasSubstr("\"error: \"\"wrong\"\", line 3\""));
}

TEST(Report, SaysThatTheClocksWereSlowWhereMostVariantsRanSo) {
  const TuneReport slow = measured_at({513, 2418, 513});
  EXPECT_THAT(printed(slow, {.verbose = false}),
              HasSubstr("slow: the SMs run at 513 MHz under load where 2418 are expected"));
  EXPECT_THAT(std::string(report_record(slow)["slow_clock"]["advice"]), HasSubstr("mains"));
  const TuneReport healthy = measured_at({2418, 513, 2400});
  EXPECT_THAT(printed(healthy), Not(HasSubstr("slow")));
  EXPECT_TRUE(report_record(healthy)["slow_clock"].is_null());
}

TEST(Report, ExpectsNoClockOfAChipWithoutAProfile) {
  TuneReport report = measured_at({513});
  report.device.sm_count = 47;
  EXPECT_FALSE(slow_clock(report));
}

}  // namespace
}  // namespace swr
