// SPDX-License-Identifier: MIT
// The last part of a measured run: the fastest variants meet in shared rounds until it is clear
// which of them are equally fast, and of these a fixed rule picks one. Another run decides alike.
#pragma once

#include "core/statistics/statistics.h"
#include "tuner/evaluator.h"
#include <swr/result.h>
#include <swr/store.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace swr {

struct FinalsOptions {
  /// How much two medians of the screening may err beyond what their samples show, as a share.
  double drift = kScreeningDrift;
  std::size_t most_finalists = 128;
  /// Rounds of one race. Code and tensors lie elsewhere in each race, so that races tell more than
  /// rounds do.
  int rounds_per_race = 4;
  /// Races before the first look at what they say.
  int first_races = 8;
  /// More do not make two runs agree more often (docs/measuring.md).
  int most_rounds = 320;
  /// GPU time after which no further race begins, microseconds.
  double budget_us = 10e6;
  double tie_threshold = kTieThreshold;
  /// Confidence that a variant is tied, or is not, with which it needs no more rounds.
  double confidence = 0.99;
  /// Draws the order within rounds.
  unsigned long long seed = 1;
};

/// Gives the kernel of a variant.
using KernelSource = std::function<CompiledKernel(const Variant&)>;

struct FinalsOutcome {
  /// The winner, then the others by ratio; empty when nothing was decided.
  std::vector<Finalist> finalists;
  /// Why nothing was decided; empty when something was.
  std::string undecided_because;
};

/// The successful results that take part, fastest first: those whose interval reaches below the
/// upper end of the fastest one's, with what may drift, and `default_variant` whatever its time, so
/// that the winner never loses to it.
std::vector<VariantResult> choose_finalists(std::span<const VariantResult> results,
                                            const Variant& default_variant,
                                            const FinalsOptions& options);

/// Mean times of races, [result][race]; NaN for who was not in the race.
using RaceTimes = std::vector<std::vector<double>>;

/// The winner's place among the results. Tied with the fastest is who is slower by less than the
/// threshold; first_of_tied() picks among them.
std::size_t choose_winner(const Problem& problem, std::span<const VariantResult> results,
                          const RaceTimes& times_us, const FinalsOptions& options);

/// Runs races until no doubt is left that could change the winner, and decides. Only those take
/// part in all races that may still matter. The outcome's results carry the new samples.
/// Fewer than two finalists leave nothing to decide. Where races fail, those who fail alone as well
/// are left out. Throws: what the evaluator and the source throw.
FinalsOutcome run_finals(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                         std::span<const VariantResult> finalists, const FinalsOptions& options);

/// How much slower each variant is than the fastest of them, as a share, by shared races of these
/// alone; empty when the GPU throttled. Throws: as run_finals(). Requires: at least one variant.
std::vector<double> slowdowns_in_rounds(const Problem& problem, Evaluator& evaluator,
                                        const KernelSource& kernels,
                                        std::span<const Variant> variants, int races,
                                        const FinalsOptions& options);

/// The places among `tied` whose excess misses are as few as the fewest. Counts of equal kernels
/// jitter, so neighbours in the order of counts belong together unless a wide gap parts them: a
/// count that is half as much again as the one before and a quarter of the compulsory sectors on
/// top. Unknown counts belong to none while one is known.
std::vector<std::size_t> with_fewest_misses(const Problem& problem,
                                            std::span<const VariantResult> results,
                                            std::vector<std::size_t> tied);

/// The place that wins a tie: among those with the fewest excess misses fewest registers, then the
/// first variant key. Requires: not empty.
std::size_t first_of_tied(const Problem& problem, std::span<const VariantResult> results,
                          const std::vector<std::size_t>& tied);

}  // namespace swr
