// SPDX-License-Identifier: MIT
// How much a strategy loses against exhaustive search, on recorded spaces and without a GPU.
#pragma once

#include "core/recorded_space.h"
#include "tuner/search/strategy.h"

#include <cstddef>
#include <vector>

namespace swr {

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
