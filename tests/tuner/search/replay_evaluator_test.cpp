// SPDX-License-Identifier: MIT
// A recorded space in the place of a GPU: the tuner as it is, nothing compiled.
#include "tuner/search/replay_evaluator.h"

#include "tests/support/attention.h"
#include "tests/support/fictional.h"
#include "tuner/run/tuner.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

const AttentionProblem kProblem{.seq_q = 512, .seq_kv = 512, .head_dim = 16};

VariantResult measured(int stages, double time_us) {
  VariantResult result{.variant = AttentionVariant{}};
  attention(result.variant).stages = stages;
  Measurement measurement;
  measurement.median_us = measurement.p95_us = time_us;
  measurement.counters = Counters{.dram_read_bytes = 64LL * stages};
  result.outcome = measurement;
  return result;
}

/// The fastest has 3 stages; 4 stages were dropped by a constraint.
RecordedSpace space() {
  VariantResult dropped = measured(4, 0.0);
  dropped.state = ResultState::constraint;
  dropped.outcome = Measurement{};
  return {.problem = kProblem,
          .device = testing::fictional_device(),
          .origin = {.l2_state = "warm"},
          .results = {measured(3, 10.0), measured(1, 11.0), measured(2, 12.0), dropped}};
}

TuneReport replay(ReplayEvaluator& recording, const SearchOptions& search) {
  TuneOptions options{.search = search, .variants = recording.variants(), .replays = true};
  Store store = Store::in_memory();
  options.run_id = store.begin_run({});
  QuietProgress progress;
  const KernelSource no_kernels = [](const Variant&) { return CompiledKernel{}; };
  return tune(kProblem, recording, no_kernels, store, options, progress);
}

TEST(Replay, FindsTheRecordedBestWithItsCountersAndHoldsFinals) {
  ReplayEvaluator recording(space());
  const TuneReport report = replay(recording, {});
  EXPECT_TRUE(report.replayed);
  ASSERT_THAT(report.results, SizeIs(4));
  EXPECT_EQ(attention(report.best()->variant).stages, 3);
  EXPECT_EQ(report.results[1].measurement()->counters->dram_read_bytes, 64);
  EXPECT_EQ(report.results.back().state, ResultState::constraint);
  EXPECT_FALSE(report.finalists.empty());
}

TEST(Replay, EveryStrategyKeepsItsBudget) {
  for (const StrategyKind strategy :
       {StrategyKind::exhaustive, StrategyKind::random, StrategyKind::model}) {
    ReplayEvaluator recording(space());
    const TuneReport report = replay(recording, {.strategy = strategy, .max_variants = 1});
    const auto reached = std::ranges::count_if(report.results, reached_device);
    EXPECT_EQ(reached, 1) << to_string(strategy);
  }
}

TEST(Replay, TellsNothingOfTheTimesByTheOrderOfTheVariants) {
  const ReplayEvaluator recording(space());
  const auto variants = recording.variants();
  EXPECT_TRUE(std::ranges::is_sorted(variants));
  EXPECT_THAT(variants, SizeIs(4));
}

TEST(Replay, RejectsWhatIsNotRecordedAndASpaceWithoutASuccess) {
  ReplayEvaluator recording(space());
  AttentionVariant unknown;
  unknown.stages = 1;
  unknown.tile_m = 16;
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { recording.evaluate(kProblem, unknown, {}); }),
      HasSubstr(to_key(unknown)));
  RecordedSpace failed = space();
  failed.results.erase(failed.results.begin(), failed.results.begin() + 3);
  message_of(ErrorCode::nothing_stored, [&] { ReplayEvaluator nothing(std::move(failed)); });
}

}  // namespace
}  // namespace swr
