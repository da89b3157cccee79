// SPDX-License-Identifier: MIT
// A recorded space in the place of a GPU: the tuner searches it with any strategy, off-line.
#pragma once

#include "core/recorded_space.h"
#include "tuner/evaluator.h"
#include "tuner/search/strategy.h"
#include <swr/store.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <vector>

namespace swr {

// Tuned spaces out of a database, in the form in which they are recorded and replayed.

/// One space per setting, problem and device of the store that has a success: the newest result of
/// every variant, measured ones where there are any. The origin is that of the fastest result.
std::vector<RecordedSpace> stored_spaces(const Store& store);

/// The spaces of a database, or those of a file of recorded spaces (a name that ends in .json or in
/// .spaces).
/// Throws: Error{not_found}, Error{unreadable}; Error{nothing_stored} for a database without any.
std::vector<RecordedSpace> load_spaces(const std::filesystem::path& path);

/// Every answer is the recording's; kernels are not looked at.
class ReplayEvaluator final : public Evaluator {
 public:
  /// Throws: Error{nothing_stored} for a space without a success, in which nothing can be found.
  explicit ReplayEvaluator(RecordedSpace space);

  const RecordedSpace& space() const { return space_; }
  /// The recorded variants in an order that says nothing of their times.
  std::vector<Variant> variants() const;

  const DeviceInfo& device() const override { return space_.device; }
  /// The recorded row, without its counters, which count() gives.
  /// Throws, as the following: Error{invalid_argument} for a problem or variant that is not
  /// recorded.
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override;
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override;
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return no_accesses(contenders);
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }
  /// The recorded time in every round.
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override;

 private:
  const VariantResult& recorded(const Problem& problem, const Variant& variant) const;

  RecordedSpace space_;
  std::map<Variant, std::size_t> place_of_;  ///< In the space's results.
};

// How much a strategy loses against exhaustive search, on recorded spaces and without a GPU.

/// (Fastest time that the search finds) / (fastest of the space) - 1. A search that finds no
/// success is charged the slowest one.
/// Requires: a space with a success.
double search_regret(const RecordedSpace& space, const SearchOptions& options,
                     const PredictTimes& predict);

struct Judgement {
  StrategyKind strategy = StrategyKind::exhaustive;
  std::size_t max_variants = 0;
  /// The mean over the seeds for random.
  double regret = 0.0;
};

/// The verdict on one space: every strategy at every budget.
struct SpaceJudgement {
  Problem problem;
  DeviceInfo device;
  std::size_t variants = 0;
  double best_us = 0.0;
  std::vector<Judgement> judgements;
};

/// Seeds over which random is averaged.
inline constexpr int kRandomSeeds = 100;

/// Judges the strategies at 8, 16 and 32 variants and at a tenth of the space, in this order.
/// Throws: Error{nothing_stored} for a space without a success.
SpaceJudgement judge_space(const RecordedSpace& space, const std::vector<StrategyKind>& strategies);

}  // namespace swr
