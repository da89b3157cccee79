// SPDX-License-Identifier: MIT
// Whether tuning again gives the same answer, and what it costs when it does not.
#pragma once

#include "core/json.h"
#include "tuner/run/tuner.h"

#include <functional>
#include <iosfwd>
#include <span>
#include <vector>

namespace swr {

/// Independent runs of one problem.
struct Agreement {
  Problem problem;
  /// What each run chose.
  std::vector<Variant> choices;
  /// The most that one run's choice is slower than another's, as a share; 0 when all chose the
  /// same, infinite when a choice failed elsewhere.
  double worst_regret = 0.0;
  /// True when the choices met in shared rounds; else the regret is by the runs' own times.
  bool met = false;

  bool is_identical() const;
};

/// How much slower each of several choices is than the fastest of them, as a share, by rounds that
/// they share; empty when it cannot be told.
using MeetAgain = std::function<std::vector<double>(std::span<const Variant>)>;

/// Choices that differ meet again. Without an answer the regret is by the times of the other runs.
/// Requires: the same problem in all; each has a best variant.
Agreement compare_runs(std::span<const TuneReport> runs, const MeetAgain& meet_again);

/// Share of the problems whose runs all chose the same; 1 without problems.
double identical_share(std::span<const Agreement> agreements);
/// The same, where choices that differ by less than the threshold count as one.
double tied_share(std::span<const Agreement> agreements, double tie_threshold);
double worst_regret(std::span<const Agreement> agreements);

void print_agreements(std::ostream& out, std::span<const Agreement> agreements,
                      double tie_threshold);
Json agreements_record(std::span<const Agreement> agreements, double tie_threshold);

}  // namespace swr
