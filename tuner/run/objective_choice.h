// SPDX-License-Identifier: MIT
// The choice by an objective beside time, after the finals: whose energy is measured, how often,
// and which variant wins. docs/energy.md gives the reasons.
#pragma once

#include "kernel_spec/expression/expression.h"
#include "tuner/evaluator.h"
#include "tuner/run/finals.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

// What tuning looks for: the variant for which a number is the smallest. That is its time, its
// energy, their product, or what a user's expression makes of the metrics (docs/energy.md).

/// Immutable; safe from any thread.
class Objective {
 public:
  /// "time", "energy", "edp" (energy times time), or an expression over metric_names(). The default
  /// is time.
  /// Throws: Error{invalid_argument} naming the metric that is not known, or why the expression
  /// cannot be computed: tried at once with made-up metrics, so that no run ends in it.
  explicit Objective(std::string text = "time");

  /// As it is stored.
  const std::string& text() const { return text_; }
  bool is_time() const;
  bool needs_energy() const;

  /// Of a measured result whose time is `time_us`; empty where a metric that it reads is not known.
  /// Throws: Error{invalid_argument} where it has no value, or none above 0.
  std::optional<double> value(const Problem& problem, const DeviceInfo& device,
                              const VariantResult& result, double time_us) const;

  /// Those of CSV files and reports, and shorter names of some (docs/energy.md).
  static std::vector<std::string> metric_names();

 private:
  std::string text_;
  kernel_spec::BoundExpression expression_;
};

struct ObjectiveOptions {
  Objective objective = Objective();
  /// Measure energy although the objective does not need it.
  bool measures_energy = false;
  /// Of how many variants energy is measured.
  std::size_t most_measured = 8;
  /// None of these is slower than the fastest times this.
  double reach = 1.5;
  /// Runs of each, in rounds shared by all: at least the first number, then until those of each lie
  /// within `repeatability` of each other, as a share of their mean.
  int first_runs = 3;
  int most_runs = 6;
  double repeatability = 0.03;
  /// A difference below this share of a value with energy in it does not matter: such variants tie.
  double energy_tie_threshold = 0.02;
  /// The same of other values.
  double tie_threshold = 0.005;
  /// Draws the order within rounds.
  unsigned long long seed = 1;

  bool wants_energy() const { return measures_energy || objective.needs_energy(); }
};

/// A variant in the order of an objective.
struct RankedVariant {
  Variant variant;
  double value = 0.0;  ///< Of the objective.
  /// Of its value to the best one's, with a 95 percent interval where there are runs of both.
  double ratio = 1.0;
  double ratio_low = 1.0;
  double ratio_high = 1.0;
  bool tied = false;  ///< Not told apart from the smallest value.
};

struct ObjectiveOutcome {
  /// The best first, then by value; empty of time, and where nothing could be ranked.
  std::vector<RankedVariant> ranked;
  std::optional<double> tie_threshold;
  /// Why nothing was ranked, or why energy is not known; empty when all is.
  std::string missing_because;
  /// What the GPU drew with nothing to do; empty where no energy was measured in this run.
  std::optional<double> idle_power_w;
};

/// Times to compare results by, microseconds.
using TimesByVariant = std::map<Variant, double>;

/// The places of the successful results whose energy says most, of those within reach of the
/// fastest: half of them the fastest, the others in turn those that read and write least DRAM and
/// those that move fewest sectors from L2, where this is counted. In the order of time.
std::vector<std::size_t> choose_for_energy(std::span<const VariantResult> results,
                                           const TimesByVariant& times_us,
                                           const ObjectiveOptions& options);

/// Measures the energy of results at these places, which lack it, in shared rounds. What could not
/// be measured says why. `stop` ends it after a round. Throws: what the evaluator and the source
/// throw.
void measure_energy(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                    std::vector<VariantResult>& results, std::span<const std::size_t> places,
                    double idle_power_w, const ObjectiveOptions& options,
                    const std::function<bool()>& stop);

/// Ranks the successful results of which the objective's metrics are known. The smallest value
/// wins; among those tied with it the fastest does, and then the first key.
/// Throws: Error{invalid_argument} when no result has a value although its metrics are known.
std::vector<RankedVariant> rank_by(const Objective& objective, const Problem& problem,
                                   const DeviceInfo& device, std::span<const VariantResult> results,
                                   const TimesByVariant& times_us, double tie_threshold);

/// Places of the points that no other one beats in time and energy at once, by time.
/// [point] is a time and an energy; both positive.
std::vector<std::size_t> pareto_front(std::span<const std::pair<double, double>> points);

// Which of several predicted variants that the model cannot tell apart to choose: the one that
// loses least should the chip be another than its profile says.

/// Predicted times of one space this close are ties: about their common error they scatter by 1.75
/// % within a tenth of the best (124 spaces of an H200, experiments/l2_model).
inline constexpr double kModelTie = 0.02;

/// How much slower than it says a chip may be in one of the things that take time: tensor cores,
/// exponentials, L2, memory, latencies. Related chips differ by about as much.
inline constexpr double kChipDoubt = 0.25;

struct RobustChoice {
  std::size_t place = 0;  ///< Among the results.
  std::size_t tied = 0;   ///< Results within kModelTie of the fastest, itself included.
  /// How much slower than the best of the tied it is at worst, as a share: on the chip as it is
  /// described, or with one of the five slower by kChipDoubt.
  double slowdown = 0.0;
  double fastest_slowdown = 0.0;  ///< The same of the fastest.
};

/// The choice among the successful predictions: the least slowdown, of equal ones the fastest.
/// Empty where no two tie, where how far they may be off is not known, and of measured results.
std::optional<RobustChoice> choose_robust(std::span<const VariantResult> results);

}  // namespace swr
