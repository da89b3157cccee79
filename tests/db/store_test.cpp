// SPDX-License-Identifier: MIT
#include "core/json.h"
#include "db/rows.h"
#include "tests/db/fixtures.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/lookup.h>

namespace swr {
namespace {

/// A store in a directory of its own, with a run begun.
class StoreTest : public ::testing::Test {
 protected:
  void record(const Problem& problem, const VariantResult& result,
              const DeviceInfo& device = fictional_gpu()) {
    store_.record(run_, problem, device, result);
  }
  std::vector<long long> decide(const std::vector<Finalist>& finalists) {
    return store_.record_decision(run_, problem_of(4096), fictional_gpu(), finalists, 0.005);
  }
  std::vector<StoredResult> rows() const {
    return store_.results(problem_of(4096), fictional_gpu());
  }
  Match best(const Problem& problem = problem_of(4096)) const {
    const auto match = store_.best(problem, fictional_gpu());
    EXPECT_TRUE(match);
    return match.value_or(Match{});
  }

  TempDirectory directory_;
  Store store_{directory_ / "tuned.db", Store::Mode::read_write};
  long long run_ = store_.begin_run(some_run());
};

VariantResult full_measurement() {
  return {.variant = AttentionVariant{.tile_m = 80,
                                      .tile_n = 80,
                                      .warps = 5,
                                      .stages = 3,
                                      .order = Order::sawtooth,
                                      .persistence = Persistence::persistent,
                                      .workers = 48,
                                      .swizzle = AttentionSwizzle::head_sections,
                                      .section_heads = 4,
                                      .smem_swizzle = false},
          .state = ResultState::ok,
          .detail = "",
          .resources = {168, 0, 0, 16, 1024},
          .smem_bytes = 71680,
          .ctas_per_sm = 1,
          .cubin_digest = std::string(64, 'a'),
          .outcome = Measurement{.samples_us = {101.5, 99.25, 100.0},
                                 .median_us = 100.0,
                                 .p95_us = 101.5,
                                 .relative_error = 3.5e-4,
                                 .counters = Counters{1, 2, 3, 4, 5, 6, 1LL << 40},
                                 .l2_state = L2State::cold,
                                 .sampling = Sampling::finals,
                                 .before = {1980, 3201, 40, 120'000, 0},
                                 .after = {.sm_clock_mhz = 1700, .throttle_reasons = 4},
                                 .counters_missing_because = "",
                                 .accesses = AccessCounters{.smem_load_wavefronts = 8,
                                                            .smem_load_conflicts = 0,
                                                            .tma_load_sectors = 1LL << 40},
                                 .accesses_missing_because = "this chip does not count some"}};
}

FinishedRun finished_run(int seq, const VariantResult& last) {
  return {.info = some_run(),
          .problem = problem_of(seq),
          .device = fictional_gpu(),
          .results = {measured(tile(64, 64), 4.0), last}};
}

TEST_F(StoreTest, FinishedRunsAreStoredWithAllTheirResults) {
  const std::vector<FinishedRun> runs{finished_run(64, measured(tile(128, 64), 3.0)),
                                      finished_run(128, measured(tile(128, 64), 9.0))};
  store_.record_finished(runs);
  EXPECT_EQ(best(problem_of(64)).result.variant, tile(128, 64));
  EXPECT_EQ(store_.results(problem_of(128), fictional_gpu()).size(), 2U);
}

TEST_F(StoreTest, OfFinishedRunsNothingIsStoredWhenOneRowIsRefused) {
  VariantResult impossible = measured(tile(128, 64), 3.0);
  impossible.resources.registers_per_thread = 999;
  const std::vector<FinishedRun> runs{finished_run(64, measured(tile(128, 64), 3.0)),
                                      finished_run(128, impossible)};
  EXPECT_EQ(error_of([&] { store_.record_finished(runs); }).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(store_.winners().empty());
  EXPECT_EQ(error_of([&] { (void)store_.run_of(1); }).code(), ErrorCode::invalid_argument);
}

TEST_F(StoreTest, KeepsBothOperationsApart) {
  const GemmProblem product{.m = 64,
                            .n = 4096,
                            .k = 512,
                            .batch = 2,
                            .dtype = DType::fp16,
                            .output = OutputType::fp32,
                            .layout = GemmLayout::tn,
                            .reads_c = true,
                            .alignment_bytes = 8};
  const GemmVariant variant{.family = Family::hopper,
                            .tile_m = 128,
                            .tile_n = 192,
                            .tile_k = 64,
                            .stages = 4,
                            .mainloop = GemmMainloop::pingpong,
                            .consumers = 2,
                            .cluster_n = 2,
                            .persistence = Persistence::persistent,
                            .workers = 7,
                            .k_order = Order::sawtooth,
                            .splits = 3,
                            .raster = Raster::serpentine,
                            .raster_group = 16,
                            .swizzle_stride = 1024};
  const long long id = store_.record(run_, product, fictional_gpu(), measured(variant, 3.0));
  record(problem_of(64), measured(tile(64, 64), 4.0));
  EXPECT_EQ(store_.result(id).problem, product);
  EXPECT_EQ(store_.result(id).result.variant, variant);
  ASSERT_EQ(store_.results(product, fictional_gpu()).size(), 1U);
  ASSERT_EQ(store_.results(problem_of(64), fictional_gpu()).size(), 1U);
  GemmProblem other = product;
  other.output = OutputType::fp16;
  EXPECT_TRUE(store_.results(other, fictional_gpu()).empty());
}

/// Rows from before FP8 name neither scales nor activations, and stay the rows of their problems.
TEST_F(StoreTest, ProblemsOfBeforeAFieldCameHaveItsDefault) {
  constexpr std::string_view kBefore =
      R"({"dtype":"bf16","output":"bf16","layout":"nt","reads_c":0,"alignment_bytes":16})";
  GemmProblem plain{.m = 64, .n = 128, .k = 256};
  EXPECT_EQ(kind_text(plain), kBefore);
  const auto read = problem_from_text(gemm_operation(), kBefore, sizes_text(plain));
  EXPECT_TRUE(read.is_canonical);
  EXPECT_EQ(read.value, Problem(plain));
  plain.has_bias = true;
  plain.activation = Activation::gelu;
  const std::string kind = kind_text(plain);
  EXPECT_NE(kind.find(R"("bias":1,"activation":"gelu"})"), std::string::npos) << kind;
  EXPECT_EQ(problem_from_text(gemm_operation(), kind, sizes_text(plain)).value, Problem(plain));
  EXPECT_THROW(problem_from_text(gemm_operation(),
                                 R"({"dtype":"bf16","output":"bf16","layout":"nt","reads_c":0})",
                                 sizes_text(plain)),
               Error)
      << "what did not come later is there";
}

TEST_F(StoreTest, ReturnsEveryFieldOfAMeasurement) {
  const VariantResult written = full_measurement();
  record(problem_of(4096), written);
  const auto rows = this->rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].problem, problem_of(4096));
  EXPECT_EQ(Json(rows[0].device), Json(fictional_gpu()));
  EXPECT_EQ(Json(rows[0].result), Json(written));
}

TEST_F(StoreTest, AccessesComeLaterAndOnceToARowThatWasNotCountedYet) {
  VariantResult result = measured(tile(64, 64), 10.0);
  const long long id = store_.record(run_, problem_of(4096), fictional_gpu(), result);
  EXPECT_FALSE(store_.result(id).result.measurement()->accesses);
  EXPECT_EQ(store_.result(id).result.measurement()->accesses_missing_because, "");
  Measurement& measurement = std::get<Measurement>(result.outcome);
  measurement.accesses = AccessCounters{.global_store_bytes = 64};
  store_.record_accesses(id, measurement);
  EXPECT_EQ(store_.result(id).result.measurement()->accesses, measurement.accesses);
  EXPECT_EQ(error_of([&] { store_.record_accesses(id, measurement); }).code(),
            ErrorCode::invalid_argument);
}

TEST_F(StoreTest, KeepsTheReasonWhyAccessesAreMissing) {
  VariantResult result = measured(tile(64, 64), 10.0);
  const long long id = store_.record(run_, problem_of(4096), fictional_gpu(), result);
  std::get<Measurement>(result.outcome).accesses_missing_because = "no permission";
  store_.record_accesses(id, *result.measurement());
  EXPECT_FALSE(store_.result(id).result.measurement()->accesses);
  EXPECT_EQ(store_.result(id).result.measurement()->accesses_missing_because, "no permission");
}

TEST_F(StoreTest, ADecisionNamesTheRowsOfItsFinalists) {
  std::vector<Finalist> finalists(2);
  finalists[0].result = measured(tile(64, 64), 10.0);
  finalists[1].result = measured(tile(32, 32), 11.0);
  const auto ids = decide(finalists);
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(store_.result(ids[0]).result.variant, finalists[0].result.variant);
  EXPECT_EQ(store_.result(ids[1]).result.variant, finalists[1].result.variant);
}

TEST_F(StoreTest, CountersComeLaterToARowThatWaitsForThem) {
  VariantResult waiting = measured(tile(64, 64), 10.0);
  Measurement& measurement = std::get<Measurement>(waiting.outcome);
  measurement.counters.reset();
  measurement.counters_missing_because = "not counted yet";
  const long long id = store_.record(run_, problem_of(4096), fictional_gpu(), waiting);
  measurement.counters = Counters{.l2_misses = 7, .dram_read_bytes = 9};
  measurement.counters_missing_because = "";
  store_.record_counters(id, measurement);
  const auto rows = this->rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].result.measurement()->counters, measurement.counters);
  EXPECT_EQ(rows[0].result.measurement()->counters_missing_because, "");
  // Once: results are not changed.
  EXPECT_EQ(error_of([&] { store_.record_counters(id, measurement); }).code(),
            ErrorCode::invalid_argument);
}

std::vector<Finalist> two_finalists(double winner_us, double other_us) {
  return {{.result = measured(tile(128, 64), winner_us), .tied = true},
          {.result = measured(tile(64, 64), other_us),
           .ratio = other_us / winner_us,
           .ratio_low = 0.99,
           .ratio_high = 1.01,
           .tied = true}};
}

TEST_F(StoreTest, AnswersWithTheDecidedWinnerThoughAnotherMedianIsSmaller) {
  record(problem_of(4096), measured(tile(64, 64), 9.0));
  record(problem_of(4096), measured(tile(128, 64), 11.0));
  decide(two_finalists(10.0, 9.99));
  const Match match = best();
  EXPECT_EQ(match.level, MatchLevel::exact);
  EXPECT_EQ(match.result.variant, tile(128, 64));
  EXPECT_EQ(match.result.time_us(), 10.0);
  EXPECT_EQ(match.result.measurement()->samples_us, std::vector{10.0});
  EXPECT_EQ(best(problem_of(8192)).result.variant, tile(128, 64)) << "the nearest problem's winner";
  ASSERT_EQ(store_.winners().size(), 1U);
  EXPECT_EQ(store_.winners()[0].result.variant, tile(128, 64));
}

TEST_F(StoreTest, TheNewestDecisionIsInForce) {
  decide(two_finalists(10.0, 10.0));
  std::vector<Finalist> other = two_finalists(10.0, 10.0);
  std::swap(other[0], other[1]);
  decide(other);
  EXPECT_EQ(best().result.variant, tile(64, 64));
}

TEST_F(StoreTest, ADecisionYieldsOnlyToALaterVariantThatIsClearlyFaster) {
  decide(two_finalists(10.0, 10.0));
  record(problem_of(4096), measured(tile(64, 32), 9.8));
  EXPECT_EQ(best().result.variant, tile(128, 64));
  record(problem_of(4096), measured(tile(64, 16), 9.6));
  EXPECT_EQ(best().result.variant, tile(64, 16));
}

TEST_F(StoreTest, ADecisionAmongOthersDoesNotHideAFasterWinnerThatItDidNotMeet) {
  decide(two_finalists(10.0, 10.5));
  decide({{.result = measured(tile(32, 64), 12.0), .tied = true}});
  EXPECT_EQ(best().result.variant, tile(128, 64));
  decide({{.result = measured(tile(64, 32), 9.9), .tied = true}});
  EXPECT_EQ(best().result.variant, tile(64, 32)) << "the newest of those within noise";
}

TEST_F(StoreTest, ADecisionAmongPredictionsYieldsToAFasterOneOfBefore) {
  record(problem_of(4096), predicted(tile(128, 64), 10.0));
  decide({{.result = predicted(tile(64, 64), 12.0), .tied = true}});
  EXPECT_EQ(best().result.variant, tile(128, 64));
  decide({{.result = predicted(tile(32, 64), 10.1), .tied = true}});
  EXPECT_EQ(best().result.variant, tile(32, 64));
}

TEST_F(StoreTest, ExactIsOfThisVeryProblem) {
  record(problem_of(4096), measured(tile(64, 64), 9.0));
  EXPECT_FALSE(store_.exact(problem_of(8192), fictional_gpu()));
  ASSERT_TRUE(store_.exact(problem_of(4096), fictional_gpu()));
  EXPECT_EQ(store_.exact(problem_of(4096), fictional_gpu())->result.variant, tile(64, 64));
}

TEST_F(StoreTest, KeepsTheNewestTimeOfEachLibrarysCall) {
  EXPECT_TRUE(store_.peers(problem_of(4096), fictional_gpu()).empty());
  store_.record_peer(run_, problem_of(4096), fictional_gpu(), "torch 2.11 sdpa", 12.5);
  store_.record_peer(run_, problem_of(4096), fictional_gpu(), "torch 2.11 sdpa", 12.0);
  store_.record_peer(run_, problem_of(8192), fictional_gpu(), "torch 2.11 sdpa", 50.0);
  store_.record_reference(run_, fictional_gpu(), some_reference(to_string(problem_of(4096))));
  const auto peers = store_.peers(problem_of(4096), fictional_gpu());
  ASSERT_EQ(peers.size(), 1U) << "a reference is no peer";
  EXPECT_EQ(peers[0], std::pair(std::string("torch 2.11 sdpa"), 12.0));
}

TEST_F(StoreTest, AWinnerThatFailsSinceIsOut) {
  decide(two_finalists(10.0, 10.5));
  VariantResult broken = measured(tile(128, 64), 10.0);
  broken.state = ResultState::correctness;
  record(problem_of(4096), broken);
  EXPECT_EQ(best().result.variant, tile(64, 64));
}

TEST_F(StoreTest, ADecisionThatCannotBeStoredLeavesNothingBehind) {
  std::vector<Finalist> finalists = two_finalists(10.0, 10.5);
  finalists[1].ratio = -1.0;
  EXPECT_THROW(decide(finalists), Error);
  EXPECT_TRUE(rows().empty());
}

TEST_F(StoreTest, NeverMixesWarmAndColdResults) {
  RunInfo cold_run = some_run();
  cold_run.l2_state = "cold";
  const long long cold = store_.begin_run(cold_run);
  const Setting asked_cold{.l2_state = L2State::cold, .overlay_digest = ""};
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  EXPECT_FALSE(store_.best(problem_of(4096), fictional_gpu(), asked_cold).has_value());
  // Faster when warm, slower when cold, and decided there.
  store_.record_decision(cold, problem_of(4096), fictional_gpu(), two_finalists(5.0, 5.0), 0.005);
  EXPECT_EQ(best().result.variant, tile(64, 64));
  const auto match = store_.best(problem_of(4096), fictional_gpu(), asked_cold);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->result.variant, tile(128, 64));
  EXPECT_EQ(rows().size(), 1U);
  EXPECT_EQ(store_.results(problem_of(4096), fictional_gpu(), asked_cold).size(), 2U);
  ASSERT_EQ(store_.winners(asked_cold).size(), 1U);
  EXPECT_EQ(store_.winners()[0].result.variant, tile(64, 64));
}

TEST_F(StoreTest, ResultsOfReplacedTemplatesAnswerOnlyThoseWhoUseThem) {
  RunInfo overlaid = some_run();
  overlaid.templates_digest = overlaid.overlay_digest = "ab12";
  const long long run = store_.begin_run(overlaid);
  const Setting asked{.l2_state = L2State::warm, .overlay_digest = "ab12"};
  store_.record(run, problem_of(4096), fictional_gpu(), measured(tile(64, 64), 1.0));
  store_.record(run, problem_of(4096), fictional_gpu(), predicted(tile(64, 32), 1.0));
  EXPECT_FALSE(store_.best(problem_of(4096), fictional_gpu()).has_value());
  EXPECT_TRUE(store_.best(problem_of(4096), fictional_gpu(), asked).has_value());
  EXPECT_TRUE(store_.winners().empty());
  const Lookup lookup(directory_ / "tuned.db", {.setting = asked, .watch_every = std::nullopt});
  EXPECT_EQ(lookup.best(problem_of(4096), fictional_gpu()).level, MatchLevel::exact);
  EXPECT_EQ(Lookup(directory_ / "tuned.db", without_shipped())
                .best(problem_of(4096), fictional_gpu())
                .level,
            MatchLevel::modelled);
  EXPECT_EQ(store_.settings(), (std::vector<Setting>{Setting{}, asked}));
}

TEST_F(StoreTest, APredictionAnswersInEitherL2State) {
  RunInfo run = some_run();
  run.l2_state = "";
  store_.record(store_.begin_run(run), problem_of(4096), fictional_gpu(),
                predicted(tile(64, 64), 1.0));
  for (const L2State l2_state : {L2State::warm, L2State::cold}) {
    EXPECT_TRUE(store_.best(problem_of(4096), fictional_gpu(), {l2_state, ""}).has_value());
  }
}

TEST_F(StoreTest, ThrottledResultsNeverAnswer) {
  VariantResult throttled = measured(tile(64, 64), 1.0);
  throttled.state = ResultState::throttled;
  record(problem_of(4096), throttled);
  EXPECT_FALSE(store_.best(problem_of(4096), fictional_gpu()));
}

TEST_F(StoreTest, ReturnsEveryFieldOfAPrediction) {
  VariantResult written = predicted(tile(64, 64), 50.0);
  written.outcome = Prediction{50.0, 1.5, 2.5, 3.5, 4.5, 5.5, 10, 20, 30, 40};
  record(problem_of(4096), written);
  EXPECT_EQ(Json(best().result), Json(written));
}

TEST_F(StoreTest, KeepsTheReasonWhyCountersAreMissing) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  const Match match = best();
  EXPECT_FALSE(match.result.measurement()->counters);
  EXPECT_EQ(match.result.measurement()->counters_missing_because, "not asked for");
}

TEST_F(StoreTest, AFailedVariantIsARowWithItsReasonAndNeverTheBest) {
  VariantResult wrong = measured(tile(64, 64), 5.0);
  wrong.state = ResultState::correctness;
  wrong.detail = "relative error nan\nat row 3";
  std::get<Measurement>(wrong.outcome).relative_error = std::numeric_limits<double>::quiet_NaN();
  record(problem_of(4096), wrong);
  record(problem_of(4096), measured(tile(128, 64), 10.0));
  EXPECT_EQ(best().result.variant, tile(128, 64));
  const auto rows = this->rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].result.state, ResultState::correctness);
  EXPECT_EQ(rows[1].result.detail, wrong.detail);
  EXPECT_TRUE(std::isnan(rows[1].result.measurement()->relative_error));
}

TEST_F(StoreTest, RefusesNumbersThatCannotBeTrueBeforeTheyReachTheFile) {
  const auto refused = [&](const VariantResult& result) {
    return error_of([&] { record(problem_of(4096), result); }).code();
  };
  VariantResult result = measured(tile(64, 64), 10.0);
  std::get<Measurement>(result.outcome).median_us = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refused(result), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(measured(tile(64, 64), 0.0)), ErrorCode::invalid_argument);
  result = measured(tile(64, 64), 10.0);
  result.resources.registers_per_thread = 256;
  EXPECT_EQ(refused(result), ErrorCode::invalid_argument);
  result = measured(tile(64, 64), 10.0);
  std::get<Measurement>(result.outcome).samples_us = {1.0, -1.0};
  EXPECT_EQ(refused(result), ErrorCode::invalid_argument);
  EXPECT_TRUE(rows().empty());
}

TEST_F(StoreTest, RefusesARunThatWasNotBegun) {
  const Error error = error_of([&] {
    store_.record(run_ + 1, problem_of(4096), fictional_gpu(), measured(tile(64, 64), 10.0));
  });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("begin_run"));
}

TEST_F(StoreTest, ResultsComeFastestFirstMeasuredBeforePredicted) {
  record(problem_of(4096), predicted(tile(64, 32), 1.0));
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  record(problem_of(4096), measured(tile(128, 64), 10.0));
  const auto rows = this->rows();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].result.variant, tile(128, 64));
  EXPECT_EQ(rows[1].result.variant, tile(64, 64));
  EXPECT_EQ(rows[2].result.provenance(), Provenance::predicted);
}

TEST_F(StoreTest, ANewerResultReplacesTheOlder) {
  record(problem_of(4096), measured(tile(64, 64), 5.0));
  record(problem_of(4096), measured(tile(128, 64), 10.0));
  store_.record(store_.begin_run(some_run()), problem_of(4096), fictional_gpu(),
                measured(tile(64, 64), 30.0));
  EXPECT_EQ(rows().size(), 2U);
  EXPECT_EQ(best().result.variant, tile(128, 64));
}

TEST_F(StoreTest, ANewerResultReplacesTheOlderAcrossRowsOfOneDevice) {
  DeviceInfo renamed = fictional_gpu();
  renamed.name = "Fictional F1 rev. 2";
  record(problem_of(4096), measured(tile(64, 64), 5.0), renamed);
  record(problem_of(4096), measured(tile(64, 64), 30.0));
  const auto rows = this->rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].result.time_us(), 30.0);
}

TEST_F(StoreTest, LevelsArePreferredInTheDocumentedOrder) {
  const AttentionProblem wanted = problem_of(4096);
  const AttentionProblem neighbour = problem_of(8192);
  DeviceInfo cousin = fictional_gpu();
  cousin.sm_count = 48;
  const auto expect = [&](MatchLevel level, Provenance provenance, int tile_m) {
    const Match match = best(wanted);
    EXPECT_EQ(match.level, level);
    EXPECT_EQ(match.result.provenance(), provenance);
    EXPECT_EQ(attention(match.result.variant).tile_m, tile_m);
  };
  record(wanted, predicted(tile(128, 16), 1.0), cousin);
  expect(MatchLevel::predicted, Provenance::predicted, 128);
  record(neighbour, measured(tile(64, 64), 90.0), cousin);
  expect(MatchLevel::same_arch, Provenance::measured, 64);
  record(neighbour, predicted(tile(128, 64), 80.0));
  expect(MatchLevel::predicted, Provenance::predicted, 128);
  record(neighbour, measured(tile(64, 32), 60.0));
  expect(MatchLevel::nearest, Provenance::measured, 64);
  record(wanted, predicted(tile(192, 64), 70.0));
  expect(MatchLevel::predicted, Provenance::predicted, 192);
  record(wanted, measured(tile(256, 16), 500.0));
  expect(MatchLevel::exact, Provenance::measured, 256);
}

TEST_F(StoreTest, ReturnsTheBestOfTheNearestShapeWhenExactIsMissing) {
  record(problem_of(1024), measured(tile(64, 64), 1.0));
  record(problem_of(8192), measured(tile(64, 32), 90.0));
  record(problem_of(8192), measured(tile(128, 64), 80.0));
  const Match match = best(problem_of(6000));
  EXPECT_EQ(match.level, MatchLevel::nearest);
  EXPECT_EQ(match.result.variant, tile(128, 64));
  EXPECT_EQ(match.problem, problem_of(8192));
  EXPECT_NEAR(match.distance, std::sqrt(2.0) * std::log2(8192.0 / 6000.0), 1e-12);
}

TEST_F(StoreTest, WinnersAreOnePerProblemAndDeviceMeasuredWherePossible) {
  DeviceInfo other = fictional_gpu();
  other.sm_arch = 120;
  record(problem_of(4096), predicted(tile(64, 32), 1.0));
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  record(problem_of(4096), measured(tile(128, 64), 10.0));
  record(problem_of(8192), predicted(tile(64, 32), 1.0));
  record(problem_of(4096), predicted(tile(64, 16), 3.0), other);
  const auto winners = store_.winners();
  ASSERT_EQ(winners.size(), 3U);
  EXPECT_EQ(winners[0].result.variant, tile(128, 64));
  EXPECT_EQ(winners[1].device.sm_arch, 120);
  EXPECT_EQ(winners[2].problem, problem_of(8192));
}

TEST_F(StoreTest, AReaderSeesWhatAWriterAppends) {
  const Store reader(directory_ / "tuned.db", Store::Mode::read_only);
  EXPECT_TRUE(reader.winners().empty());
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  EXPECT_EQ(reader.winners().size(), 1U);
}

TEST_F(StoreTest, KeepsTheReferencesOfARunInTheOrderTaken) {
  GpuReference failed = some_reference("a problem");
  failed.state = ResultState::throttled;
  failed.median_us = 0.0;
  store_.record_reference(run_, fictional_gpu(), some_reference(""));
  store_.record_reference(run_, fictional_gpu(), failed);
  store_.record_reference(store_.begin_run(some_run()), fictional_gpu(), some_reference(""));
  const auto references = store_.references(run_);
  ASSERT_EQ(references.size(), 2U);
  EXPECT_EQ(references[0].gpu, 1);
  EXPECT_EQ(references[0].card, "0000:3b:00.0");
  EXPECT_EQ(references[0].kernel, "a problem and a variant");
  EXPECT_EQ(references[0].median_us, 123.5);
  EXPECT_EQ(references[0].condition, some_reference("").condition);
  EXPECT_EQ(references[1].tuned, "a problem");
  EXPECT_EQ(references[1].state, ResultState::throttled);
}

TEST_F(StoreTest, RefusesAReferenceWithoutATimeOrARun) {
  GpuReference timeless = some_reference("");
  timeless.median_us = 0.0;
  EXPECT_EQ(error_of([&] { store_.record_reference(run_, fictional_gpu(), timeless); }).code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] {
              store_.record_reference(run_ + 1, fictional_gpu(), some_reference(""));
            }).code(),
            ErrorCode::invalid_argument);
}

TEST_F(StoreTest, AReaderCannotRecord) {
  Store reader(directory_ / "tuned.db", Store::Mode::read_only);
  EXPECT_EQ(error_of([&] { reader.begin_run(some_run()); }).code(), ErrorCode::not_writable);
}

TEST_F(StoreTest, TheSamePredictionIsStoredOnce) {
  const VariantResult first = predicted(tile(64, 64), 5.0);
  const long long id =
      store_.record(store_.begin_run(some_run()), problem_of(4096), fictional_gpu(), first);
  const auto again = [&](const RunInfo& info, const VariantResult& result) {
    return store_.record(store_.begin_run(info), problem_of(4096), fictional_gpu(), result);
  };
  EXPECT_EQ(again(some_run(), first), id);
  EXPECT_NE(again(some_run(), predicted(tile(64, 32), 5.0)), id) << "another variant";
  RunInfo other_templates = some_run();
  other_templates.templates_digest = "11ee";
  const long long newer = again(other_templates, first);
  EXPECT_NE(newer, id);
  const long long other_time = again(other_templates, predicted(tile(64, 64), 6.0));
  EXPECT_NE(other_time, newer);
  EXPECT_NE(again(other_templates, first), newer) << "the newest says otherwise";
  const VariantResult timed = measured(tile(64, 64), 7.0);
  EXPECT_NE(again(some_run(), timed), again(some_run(), timed)) << "measured again";
}

TEST(MatchLevel, SpellingsAreThoseOfTheEnumerators) {
  std::string all;
  for (int level = 0; level < 6; ++level) {
    all += std::string(to_string(static_cast<MatchLevel>(level))) + " ";
  }
  EXPECT_EQ(all, "exact nearest same_arch default_only predicted modelled ");
}

}  // namespace
}  // namespace swr
