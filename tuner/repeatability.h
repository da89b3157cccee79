// SPDX-License-Identifier: MIT
// Whether tuning again gives the same answer, and what it costs when it does not.
#pragma once

#include "core/json.h"
#include "tuner/tuner.h"

#include <iosfwd>
#include <span>
#include <vector>

namespace swr {

/// Independent runs of one problem.
struct Agreement {
  AttentionProblem problem;
  /// What each run chose.
  std::vector<Variant> choices;
  /// The most that the choice of one run is slower than that of another, as a share, by the times
  /// of that other run; 0 when all chose the same, infinite when a choice failed elsewhere.
  double worst_regret = 0.0;

  bool is_identical() const;
};

/// Requires: the same problem in all; each has a best variant.
Agreement compare_runs(std::span<const TuneReport> runs);

/// Share of the problems whose runs all chose the same; 1 without problems.
double identical_share(std::span<const Agreement> agreements);
double worst_regret(std::span<const Agreement> agreements);

void print_agreements(std::ostream& out, std::span<const Agreement> agreements);
Json agreements_record(std::span<const Agreement> agreements);

}  // namespace swr
