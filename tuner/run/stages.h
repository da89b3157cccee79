// SPDX-License-Identifier: MIT
// The stages of a run, one behind the other: what to try, trying it, what is known of earlier runs,
// finals, energy and accesses. Kernels are compiled ahead, and each result goes into the database
// as soon as it is there.
#pragma once

#include "tuner/run/compile_queue.h"
#include "tuner/run/tuner.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

namespace swr {

/// The newest row of each variant in the database.
using RowIds = std::map<Variant, long long>;

/// Tries what the strategy chooses and then `rivals`, into the report and the database; returns the
/// rows that hold it. Takes kernels of the queue and stops it. Throws: what the evaluator, the
/// source of the queue's kernels and the store throw.
RowIds search_variants(Strategy& strategy, std::vector<Variant> rivals, Evaluator& evaluator,
                       CompileQueue& queue, Store& store, const TuneOptions& options,
                       Progress& progress, TuneReport& report);

/// Into the report and the rows of those. What cannot be counted says why.
/// Requires: the report is ranked. Throws: as Store::record_accesses().
void count_accesses_of_best(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                            Store& store, const RowIds& row_ids);

/// Those of the options, or the whole space; what constraints drop goes into the report.
/// Throws: as require_variants().
std::vector<Variant> candidates(TuneReport& report, const TuneOptions& options);

std::unique_ptr<Strategy> choose_strategy(TuneReport& report, const TuneOptions& options,
                                          std::vector<Variant> variants, Progress& progress);

/// The default variant where finals will compare to it and the axes allow it, then those of the
/// options: as many as the budget has places for.
std::vector<Variant> choose_rivals(const TuneReport& report, const TuneOptions& options,
                                   const std::vector<Variant>& space);

/// True when all of it was known and finals have decided it before.
bool is_decided(const TuneReport& report);

/// Takes over the decision that an earlier run came to.
void take_known_decision(TuneReport& report, const Store& store, long long run_id);

/// Lets the fastest meet, and puts their new results in place of the screening's.
/// Requires: the options have finals. Throws: as run_finals() and Store::record_decision().
void hold_finals(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                 Store& store, const TuneOptions& options, RowIds& row_ids);

/// By the rule that the store answers with, so that the first row is what a query returns.
void rank_results(TuneReport& report);

/// Puts the robust one of the best predictions first, in the report and in what the store answers:
/// that is the report's first unless it holds something clearly faster.
/// Requires: the report is ranked.
void prefer_robust(TuneReport& report, Store& store, const TuneOptions& options);

/// What an idle GPU draws: to be asked before anything is measured, when it has had time to cool.
/// Throws: Error{no_counters} when that is not known and the objective needs energy.
PowerReading idle_power(const Problem& problem, Evaluator& evaluator,
                        const ObjectiveOptions& options);

/// Measures the energy of those that matter where it is not known, into the report and their rows.
/// Throws: as measure_energy() and Store::record_energy().
void measure_energies(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                      Store& store, const TuneOptions& options, const PowerReading& idle,
                      const RowIds& row_ids);

/// Ranks the report's variants by the objective, and stores who won unless that is known.
/// Throws: as rank_by() and Store::record_choice().
void choose_by_objective(TuneReport& report, Store& store, const TuneOptions& options,
                         const RowIds& row_ids);

/// Adds the time from its construction to its destruction.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& seconds) : seconds_(seconds) {}
  ~PhaseTimer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// Variants whose hardware counters are still to be read, many at once.

/// Switching the profiler on and passing over the launches takes about a fifth of a second, and
/// three times that while other GPUs of the host are counted, so it pays to do it seldom. The rows
/// are stored already, and another run counts what this one could not.
class CounterBacklog {
 public:
  CounterBacklog(Evaluator& evaluator, Store& store, Progress& progress, TuneReport& report)
      : evaluator_(evaluator), store_(store), progress_(progress), report_(report) {}

  /// Says of a measurement that its counters are still to be read.
  static void mark(Measurement& measurement);
  /// True for what was measured by a run that ended before it was counted.
  static bool lacks(const VariantResult& result);

  /// A success at `place` among the report's results, which the row holds. Counts when the oldest
  /// has waited for long.
  void add(std::size_t place, long long row_id, std::shared_ptr<const CompiledKernel> kernel);

  /// All that wait, into the report and their rows. Throws: as Evaluator::count() and
  /// Store::record_counters().
  void count();

 private:
  struct Uncounted {
    std::size_t place = 0;
    long long row_id = 0;
    std::shared_ptr<const CompiledKernel> kernel;
  };

  void record(const std::vector<Uncounted>& counted);

  Evaluator& evaluator_;
  Store& store_;
  Progress& progress_;
  TuneReport& report_;
  std::vector<Uncounted> uncounted_;
  std::chrono::steady_clock::time_point waiting_since_;
};

}  // namespace swr
