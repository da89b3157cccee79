// SPDX-License-Identifier: MIT
// The last part of a measured run: the fastest variants meet in shared rounds, and intervals on
// paired ratios decide who wins. Identical variants tie, and ties resolve the same way every time.
#pragma once

#include "tuner/evaluator.h"
#include <swr/store.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace swr {

struct FinalsOptions {
  /// Variants slower than the screening's best by more than this share stay out; more when the
  /// screening was noisier.
  double margin = 0.03;
  std::size_t most_finalists = 16;
  int rounds_per_step = 10;
  int most_rounds = 60;
  /// Rounds end when every interval is narrower than this, or wholly beyond what matters.
  double interval_width = 0.005;
  /// A difference below this share does not matter: such variants tie.
  double matters = 0.005;
  /// Draws the order within rounds and the bootstrap's resamples.
  unsigned long long seed = 1;
};

/// Gives the kernel of a variant that was compiled before.
using KernelSource = std::function<CompiledKernel(const Variant&)>;

struct FinalsOutcome {
  /// The winner, then the others by ratio; empty when nothing was decided.
  std::vector<Finalist> finalists;
  /// Why nothing was decided; empty when something was.
  std::string undecided_because;
};

/// The successful results that take part: those within the margin, fastest first, and
/// `default_variant` whatever its time, so that the winner never loses to it.
std::vector<VariantResult> choose_finalists(std::span<const VariantResult> results,
                                            const Variant& default_variant,
                                            const FinalsOptions& options);

/// The winner's place among the results, from samples taken in rounds: [result][round]. Tied with
/// the one of the smallest median is who is not told apart from it, or slower by less than matters.
/// Among the tied, those with excess misses beyond the fewest by more than these counts jitter are
/// left out; then fewest registers, then the variant's key.
std::size_t choose_winner(const AttentionProblem& problem, std::span<const VariantResult> results,
                          const std::vector<std::vector<double>>& samples_us,
                          const FinalsOptions& options);

/// Runs rounds until the intervals are narrow enough, and decides. The outcome's results carry the
/// new samples. Fewer than two finalists leave nothing to decide.
/// Throws: what the evaluator and the source throw.
FinalsOutcome run_finals(const AttentionProblem& problem, Evaluator& evaluator,
                         const KernelSource& kernels, std::span<const VariantResult> finalists,
                         const FinalsOptions& options);

}  // namespace swr
