// SPDX-License-Identifier: MIT
// Ranking the space of attention: bounds hold, and what they spare changes no choice.
#include "tuner/predict/model_ranking.h"

#include "core/operation.h"
#include "core/recorded_space.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/gemm/parts.h"
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include "tuner/predict/predicting_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>

#include <latch>

namespace swr {
namespace {

constexpr std::array kProblems{
    AttentionProblem{.heads_q = 16, .heads_kv = 4, .seq_q = 1500, .seq_kv = 1500, .causal = true},
    AttentionProblem{.heads_q = 8, .heads_kv = 8, .seq_q = 777, .seq_kv = 2000, .head_dim = 128},
    AttentionProblem{.heads_q = 32, .heads_kv = 8, .seq_q = 1, .seq_kv = 9000, .head_dim = 128}};

std::vector<Variant> space_of(const AttentionProblem& problem) {
  return enumerate_space(problem, load_profile("h100").device, {}).variants;
}

TEST(Ranking, TheFirstAreThoseOfAllWalkedAndMostAreNotWalked) {
  std::size_t known = 0;
  std::size_t all = 0;
  for (const AttentionProblem& problem : kProblems) {
    const std::vector<Variant> space = space_of(problem);
    const PredictTimes predict = model_predictor(problem, load_profile("h100").device, 2);
    const auto times = predict(space);
    const std::vector<std::size_t> first = first_of_shortlist(space, *times, 8);
    std::vector<std::size_t> expected = shortlist(space, predict(space)->all_us());
    expected.resize(8);
    EXPECT_EQ(first, expected) << to_string(Problem(problem));
    for (std::size_t place = 0; place < space.size(); ++place) {
      known += times->is_known(place) ? 1 : 0;
    }
    all += space.size();
  }
  EXPECT_LT(2 * known, all);
}

TEST(Ranking, NoTimeIsBelowItsBounds) {
  PredictingEvaluator model(load_profile("h100"));
  for (const AttentionProblem& problem : kProblems) {
    const std::vector<Variant> space = space_of(problem);
    for (std::size_t place = 0; place < space.size(); place += 7) {
      CompiledKernel kernel;
      kernel.resources = model.predictor(problem).estimated_resources(problem, space[place]);
      const VariantResult result = model.evaluate(problem, space[place], kernel);
      if (result.state != ResultState::ok) {
        continue;
      }
      for (const BoundBy by : {BoundBy::sums, BoundBy::timeline}) {
        const double bound_us = model.bound_us(problem, space[place], kernel, by);
        EXPECT_LE(bound_us, 1.001 * result.time_us()) << to_key(space[place]);
        EXPECT_GE(bound_us, 0.3 * result.time_us()) << to_key(space[place]);
      }
    }
  }
}

// Ranking the space of GEMM before anything is compiled.

using ::testing::Gt;

const GpuProfile& h200() {
  static const GpuProfile profile = load_profile("h200");
  return profile;
}

std::vector<Variant> space_of(const GemmProblem& problem) {
  return enumerate_space(problem, h200().device, {}).variants;
}

std::vector<double> ranked(const GemmProblem& problem, const std::vector<Variant>& space,
                           int threads = 2) {
  return model_predictor(problem, h200().device, threads)(space)->all_us();
}

/// Times as the model gives them for a kernel of the resources estimated.
double predicted_us(const GemmProblem& problem, const Variant& variant) {
  PredictingEvaluator model(h200());
  CompiledKernel kernel{.resources = estimated_resources(problem, variant.as<GemmVariant>())};
  return model.evaluate(problem, variant, kernel).time_us();
}

TEST(GemmRanking, TheBestIsWhatTheModelPredicts) {
  const GemmProblem problem{.m = 2048, .n = 2048, .k = 512};
  const std::vector<Variant> space = space_of(problem);
  const std::vector<double> times_us = ranked(problem, space);
  ASSERT_THAT(times_us, SizeIs(space.size()));
  EXPECT_THAT(times_us, Each(Gt(0.0)));
  const auto best = std::ranges::min_element(times_us) - times_us.begin();
  const Variant& chosen = space[static_cast<std::size_t>(best)];
  EXPECT_DOUBLE_EQ(*std::ranges::min_element(times_us), predicted_us(problem, chosen));
}

/// Every Hopper variant of three sizes, measured on an H200: floors that knew neither the copy
/// engine's rate of L2 nor two CTAs to an SM had up to 3 % left to lose.
TEST(GemmRanking, TheFirst48OfWholeSpacesHaveTheFastest) {
  for (const RecordedSpace& space : read_recorded_spaces(SWR_GEMM_RECORDINGS)) {
    std::vector<Variant> variants;
    for (const VariantResult& result : space.results) {
      variants.push_back(result.variant);
    }
    const auto times = model_predictor(space.problem, space.device, 2)(variants);
    double least_us = std::numeric_limits<double>::infinity();
    for (const std::size_t place : first_of_shortlist(variants, *times, 48)) {
      const VariantResult& result = space.results[place];
      least_us = result.state == ResultState::ok ? std::min(least_us, result.time_us()) : least_us;
    }
    EXPECT_LT(least_us, 1.01 * space.best_us()) << to_string(space.problem);
  }
}

TEST(GemmRanking, ToldApartAreOrdersOfTilesWhichFloorsCannotTellApart) {
  const GemmProblem problem{.m = 6144, .n = 6144, .k = 256};
  GemmVariant variant{.family = Family::hopper, .tile_m = 128, .tile_n = 256, .tile_k = 64};
  variant.stages = 4;
  variant.consumers = 2;
  variant.persistence = Persistence::persistent;
  variant.raster = Raster::along_n;
  GemmVariant swizzled = variant;
  swizzled.swizzle_stride = 2048;
  const std::vector<double> times_us = ranked(problem, {variant, swizzled});
  EXPECT_NE(times_us[0], times_us[1]);
}

TEST(GemmRanking, DoesNotDependOnThreads) {
  const GemmProblem problem{.m = 1024, .n = 2048, .k = 256};
  const std::vector<Variant> space = space_of(problem);
  EXPECT_EQ(ranked(problem, space, 1), ranked(problem, space, 4));
}

TEST(GemmRanking, WhatIsNotWalkedIsOnTheScaleOfWhatIs) {
  const GemmProblem problem{.m = 2048, .n = 2048, .k = 256};
  const std::vector<Variant> space = space_of(problem);
  const std::vector<double> times_us = ranked(problem, space);
  // Over the whole space the ranking follows the model within a factor of two in the median.
  std::vector<double> errors;
  for (std::size_t i = 0; i < space.size(); i += 37) {
    errors.push_back(std::abs(std::log2(times_us[i] / predicted_us(problem, space[i]))));
  }
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 1.0);
}

TEST(GemmRanking, AnEmptySpaceHasNoTimes) {
  EXPECT_TRUE(ranked({.m = 64, .n = 64, .k = 64}, {}).empty());
}

// What the model search tries first when one token attends to long K and V.

/// The portable space of the H200, fastest prediction first.
std::vector<AttentionVariant> ranked(const AttentionProblem& problem) {
  const DeviceInfo device = load_profile("h200").device;
  SpaceOptions options;
  options.restrictions["family"] = {AxisValue("portable")};
  const std::vector<Variant> variants = enumerate_space(problem, device, options).variants;
  const std::vector<double> times_us = model_predictor(problem, device, 2)(variants)->all_us();
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return times_us[i]; });
  std::vector<AttentionVariant> sorted;
  for (const std::size_t i : order) {
    sorted.push_back(variants[i].as<AttentionVariant>());
  }
  return sorted;
}

TEST(DecodeRanking, SplitAndPackedVariantsComeFirst) {
  for (const int batch : {1, 8}) {
    const std::vector<AttentionVariant> first = ranked({.batch = batch,
                                                        .heads_q = 64,
                                                        .heads_kv = 8,
                                                        .seq_q = 1,
                                                        .seq_kv = 32768,
                                                        .head_dim = 128});
    ASSERT_GE(first.size(), 30U);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_TRUE(first[i].pack_gqa) << to_key(first[i]);
      EXPECT_GT(first[i].kv_splits, 1) << to_key(first[i]);
    }
    EXPECT_EQ(first.back().kv_splits, 1) << to_key(first.back());
  }
}

// Which variants are predicted in full, and what is compiled ahead.

std::vector<Variant> four_variants() {
  std::vector<Variant> variants(4);
  attention(variants[0]).stages = 3;
  attention(variants[1]).swizzle = AttentionSwizzle::head_fastest;
  attention(variants[2]).swizzle = AttentionSwizzle::q_fastest;
  attention(variants[3]).tile_m = 128;
  return variants;
}

TEST(Shortlist, IsInTheOrderOfPredictedTime) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 3.0, 2.0, 1.0}), ElementsAre(3, 2, 1, 0));
}

TEST(Shortlist, PutsSwizzlesThatCannotBeToldApartBehindOthersUpTo2PercentSlower) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.0, 2.03}),
              ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.0, 2.05}),
              ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.01, 3.0}),
              ElementsAre(1, 2, 3, 0));
}

TEST(Shortlist, NamesTheTilesOfOneHeadOnEndFirstOfSwizzlesThatCannotBeToldApart) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.001, 3.0}),
              ElementsAre(2, 1, 3, 0));
}

TEST(Shortlist, DoesNotDependOnTheOrderInWhichVariantsCome) {
  std::vector<Variant> variants = four_variants();
  const std::vector<double> equal(variants.size(), 1.0);
  const Variant first = variants[shortlist(variants, equal).front()];
  std::swap(variants[0], variants[3]);
  std::swap(variants[1], variants[2]);
  EXPECT_EQ(variants[shortlist(variants, equal).front()], first);
}

TEST(WorkAhead, WorksThroughItsListInOrder) {
  std::vector<int> done;
  std::latch all(3);
  WorkAhead ahead(1);
  std::deque<WorkAhead::Task> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.emplace_back([&, i] {
      done.push_back(i);
      all.count_down();
    });
  }
  ahead.replace(std::move(tasks));
  all.wait();
  EXPECT_EQ(done, (std::vector{0, 1, 2}));
}

TEST(WorkAhead, WorksOnSeveralTasksAtOnce) {
  // Each task waits for the other: with one thread this test would never end.
  std::latch both(2);
  WorkAhead ahead(2);
  ahead.replace({[&] { both.arrive_and_wait(); }, [&] { both.arrive_and_wait(); }});
  both.wait();
}

TEST(WorkAhead, DropsWhatWasNotBegunForANewList) {
  std::latch begun(1);
  std::latch replaced(1);
  std::latch last_done(1);
  std::atomic<bool> dropped_ran = false;
  WorkAhead ahead(1);
  ahead.replace({[&] {
                   begun.count_down();
                   replaced.wait();
                 },
                 [&] { dropped_ran = true; }});
  begun.wait();
  ahead.replace({[&] { last_done.count_down(); }});
  replaced.count_down();
  last_done.wait();
  EXPECT_FALSE(dropped_ran);
}

TEST(WorkAhead, WithoutThreadsNothingIsDone) {
  bool ran = false;
  {
    WorkAhead nobody(0);
    nobody.replace({[&] { ran = true; }});
  }
  EXPECT_FALSE(ran);
}

CompiledKernel fake_kernel(int registers) {
  CompiledKernel kernel{.cubin_digest = "abc"};
  kernel.resources.registers_per_thread = registers;
  return kernel;
}

constexpr AttentionProblem kProblem{.seq_q = 8192, .seq_kv = 8192, .head_dim = 64};

TEST(PredictingEvaluator, FillsEveryFieldOfAResult) {
  PredictingEvaluator evaluator(load_profile("gb10"));
  const AttentionVariant variant{.stages = 1};
  const VariantResult result = evaluator.evaluate(kProblem, variant, fake_kernel(128));
  EXPECT_EQ(result.variant, variant);
  EXPECT_EQ(result.state, ResultState::ok);
  EXPECT_EQ(result.provenance(), Provenance::predicted);
  EXPECT_EQ(result.resources.registers_per_thread, 128);
  EXPECT_EQ(result.smem_bytes, 3 * 64 * 64 * 2);
  EXPECT_EQ(result.ctas_per_sm, 4);  // 65536 / (128 registers * 128 threads)
  EXPECT_EQ(result.cubin_digest, "abc");
  const Prediction& prediction = *result.prediction();
  EXPECT_GT(prediction.matrix_us, 0);
  EXPECT_GT(prediction.softmax_us, 0);
  EXPECT_GT(prediction.l2_us, 0);
  EXPECT_GT(prediction.dram_us, 0);
  EXPECT_GE(prediction.time_us, prediction.matrix_us);
  EXPECT_EQ(prediction.compulsory_misses, compulsory_sectors(kProblem));
  EXPECT_EQ(prediction.excess_misses, 0);
  EXPECT_EQ(prediction.write_sectors, 4 * 8192);
}

TEST(PredictingEvaluator, PredictsGemmOfBothFamilies) {
  PredictingEvaluator evaluator(load_profile("h200"));
  const GemmProblem problem{.m = 2048, .n = 2048, .k = 1024};
  GemmVariant hopper{.family = Family::hopper, .tile_m = 128, .tile_n = 128, .tile_k = 64};
  hopper.stages = 4;
  hopper.consumers = 2;
  hopper.persistence = Persistence::persistent;
  const GemmVariant portable{.tile_m = 128, .tile_n = 128, .tile_k = 32, .stages = 3};
  const VariantResult fast = evaluator.evaluate(problem, hopper, fake_kernel(168));
  const VariantResult slow = evaluator.evaluate(problem, portable, fake_kernel(168));
  for (const VariantResult* result : {&fast, &slow}) {
    ASSERT_EQ(result->state, ResultState::ok) << result->detail;
    const Prediction& prediction = *result->prediction();
    EXPECT_GT(prediction.matrix_us, 0);
    EXPECT_EQ(prediction.softmax_us, 0);
    EXPECT_GT(prediction.latency_us, 0);
    EXPECT_GE(prediction.time_us, prediction.matrix_us);
    EXPECT_EQ(prediction.compulsory_misses, compulsory_sectors(problem));
    EXPECT_EQ(prediction.write_sectors, 2048 * 2048 * 2 / 32);
  }
  EXPECT_EQ(fast.ctas_per_sm, 1);
  EXPECT_LT(fast.time_us(), slow.time_us()) << "wgmma is faster than mma.sync";
}

TEST(PredictingEvaluator, VariantsOfAnotherOperationAreRefused) {
  PredictingEvaluator evaluator(load_profile("h200"));
  EXPECT_THROW(evaluator.evaluate(GemmProblem{.m = 64, .n = 64, .k = 64}, AttentionVariant{},
                                  fake_kernel(128)),
               Error);
}

TEST(PredictingEvaluator, AKernelThatSpillsMuchIsDroppedByName) {
  PredictingEvaluator evaluator(load_profile("gb10"));
  CompiledKernel kernel = fake_kernel(255);
  kernel.resources.spill_store_bytes = 200;
  const VariantResult result = evaluator.evaluate(kProblem, AttentionVariant{}, kernel);
  EXPECT_EQ(result.state, ResultState::constraint);
  EXPECT_THAT(result.detail, testing::StartsWith("spills: "));
  EXPECT_EQ(result.provenance(), Provenance::predicted);
}

TEST(PredictingEvaluator, ACtaThatDoesNotFitIsDroppedByName) {
  GpuProfile profile = load_profile("gb10");
  profile.device.registers_per_sm = 1024;
  PredictingEvaluator evaluator(profile);
  const VariantResult result = evaluator.evaluate(kProblem, AttentionVariant{}, fake_kernel(128));
  EXPECT_EQ(result.state, ResultState::constraint);
  EXPECT_THAT(result.detail, testing::StartsWith("residency: "));
}

std::vector<AttentionVariant> some_variants() {
  std::vector<AttentionVariant> variants;
  for (int stages = 1; stages <= 4; ++stages) {
    for (const Persistence persistence : {Persistence::grid, Persistence::pairs}) {
      variants.push_back({.stages = stages, .persistence = persistence});
    }
  }
  return variants;
}

TEST(PredictingEvaluator, ThreadsGetWhatOneThreadGets) {
  PredictingEvaluator evaluator(load_profile("gb10"));
  PredictingEvaluator alone(load_profile("gb10"));
  const std::vector<AttentionVariant> variants = some_variants();
  std::vector<std::future<double>> times;
  for (const AttentionVariant& variant : variants) {
    times.push_back(std::async(std::launch::async, [&evaluator, variant] {
      return evaluator.evaluate(kProblem, variant, fake_kernel(128)).time_us();
    }));
  }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    EXPECT_DOUBLE_EQ(times[i].get(),
                     alone.evaluate(kProblem, variants[i], fake_kernel(128)).time_us());
  }
}

TEST(PredictingEvaluator, WhatIsExpectedComesOutAsWhatIsNot) {
  PredictingEvaluator evaluator(load_profile("gb10"), 3);
  PredictingEvaluator alone(load_profile("gb10"));
  EXPECT_GT(evaluator.kernels_ahead(), 0U);
  EXPECT_EQ(alone.kernels_ahead(), 0U);
  const CompiledKernel kernel = fake_kernel(128);
  std::vector<Contender> contenders;
  for (const AttentionVariant& variant : some_variants()) {
    contenders.push_back({variant, &kernel});
  }
  contenders.push_back({GemmVariant{}, &kernel});  // Refused, but only where it is evaluated.
  evaluator.expect(kProblem, contenders);
  for (const AttentionVariant& variant : some_variants()) {
    EXPECT_EQ(evaluator.evaluate(kProblem, variant, kernel).time_us(),
              alone.evaluate(kProblem, variant, kernel).time_us());
  }
  EXPECT_THROW(evaluator.evaluate(kProblem, GemmVariant{}, kernel), Error);
}

}  // namespace
}  // namespace swr
