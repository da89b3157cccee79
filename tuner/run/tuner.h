// SPDX-License-Identifier: MIT
// The story of a tuning run: enumerate the variants, compile them beside the evaluation, evaluate
// each, record every outcome as it comes, rank.
#pragma once

#include "tuner/evaluator.h"
#include "tuner/run/finals.h"
#include "tuner/run/objective_choice.h"
#include "tuner/run/progress.h"
#include "tuner/search/strategy.h"
#include <swr/generator.h>
#include <swr/store.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace swr {

struct TuneOptions {
  SpaceOptions space;
  SearchOptions search;
  /// Threads that compile; 0 means one per hardware thread.
  int compile_threads = 0;
  /// What the evaluator produces; rows that never reach it carry it too.
  Provenance provenance = Provenance::measured;
  /// The run that the rows belong to, from Store::begin_run, and its setting.
  long long run_id = 0;
  Setting setting;
  /// How the winner of a measured run is decided; without, the smallest median wins.
  std::optional<FinalsOptions> finals = FinalsOptions{};
  /// What the winner is the best by, and whether energy is measured where that does not need it.
  ObjectiveOptions objective;
  /// Count how the winner, and finalists as far as that is cheap, go to memory.
  bool count_accesses = true;
  /// The space, in place of what `space` describes; no constraint is asked.
  std::optional<std::vector<Variant>> variants;
  /// True when the evaluator replays a recording, whose variants are the space: nothing is
  /// compiled.
  bool replays = false;
  /// Tried whatever the search chooses, within its budget. Requires: legal for the problem.
  std::vector<Variant> rivals;
  /// Ends the search, as SearchOptions::max_s does.
  std::optional<std::chrono::steady_clock::time_point> search_until;
  /// Asked before every variant and while a kernel is waited for, from the thread that tunes; true
  /// ends the run with what is known so far.
  std::function<bool()> stop_requested = [] { return false; };
  /// True ends a run that is stopped without waiting for the compilations in hand, some seconds at
  /// worst. What they use then has to live as long as the process.
  bool abandons_compilations = false;
};

/// Wall-clock time of the phases in seconds.
struct PhaseTimes {
  double enumerate_s = 0.0;
  double search_s = 0.0;        ///< Choosing what to try next, predictions included.
  double compile_wait_s = 0.0;  ///< Waiting for kernels; most of the compiling is hidden.
  double evaluate_s = 0.0;
  double count_s = 0.0;   ///< Reading hardware counters.
  double finals_s = 0.0;  ///< Deciding between the fastest.
  double energy_s = 0.0;  ///< Measuring energy.
  double record_s = 0.0;
  double end_s = 0.0;  ///< Waiting for compilations that turned out not to be needed.
  double total_s = 0.0;

  /// Time that the device waited for the host.
  double device_idle_s() const { return enumerate_s + search_s + compile_wait_s + record_s; }
  /// What no phase accounts for.
  double other_s() const {
    return total_s - device_idle_s() - evaluate_s - count_s - finals_s - energy_s - end_s;
  }
};

/// How long another library takes for a problem.
struct PeerTime {
  std::string call;  ///< "torch 2.11.0 matmul".
  double median_us = 0.0;
};

struct TuneReport {
  Problem problem;
  DeviceInfo device;
  Provenance provenance = Provenance::measured;
  /// True when no GPU took part: the times are those of a recording.
  bool replayed = false;
  /// Variants that may run, of which a search that is not exhaustive tries some.
  std::size_t space_size = 0;
  /// The outcome of every variant tried: the successful ones by time, but the decided winner or the
  /// robust choice first, then the others in the order tried.
  std::vector<VariantResult> results;
  /// Who met in the finals, the winner first; empty when nothing was decided.
  std::vector<Finalist> finalists;
  /// True when an earlier run held them and nothing was new since.
  bool decided_before = false;
  /// The share below which a difference was a tie in them; empty where an old database does not
  /// say.
  std::optional<double> tie_threshold;
  /// What the screening found for the finalists, whose results are those of the finals; not all are
  /// known of finals held before.
  std::map<Variant, double> screening_us;
  /// Why not, where finals were wanted.
  std::string undecided_because;
  /// What it was tuned for. Beside time, who met in the choice, the best first, which are then
  /// first of the results too.
  std::string objective = std::string(kTimeObjective);
  ObjectiveOutcome choice;
  /// Of a predicted run with ties: how the first result was chosen among them.
  std::optional<RobustChoice> robust;
  /// What the store answers from now on where that is another variant than best(): one that an
  /// earlier run found, or that came with swr (its id is 0). By time alone.
  std::optional<StoredResult> answer;
  /// The first of the model's ranking, where that chose what to try.
  std::vector<RankedGuess> ranking;
  /// Of --against.
  std::vector<PeerTime> peers;
  /// Dropped by a constraint, before or after compilation. The latter are in `results` too.
  std::vector<DroppedVariant> dropped;
  /// As SearchSpace::left_out.
  std::map<std::string, long long> left_out;
  std::size_t kernels_compiled = 0;    ///< Distinct kernels, from the cache or not.
  std::size_t kernels_from_cache = 0;  ///< Of these, read from the cubin cache.
  /// Rows of `results` that were known from an earlier run and not tried again.
  std::size_t known = 0;
  PhaseTimes times;
  /// Variants that the search was to try at most.
  std::size_t planned = 0;
  /// As Strategy::expected_gain().
  std::optional<double> expected_gain;
  /// True when stop_requested ended the run early.
  bool interrupted = false;
  /// True when SearchOptions::max_s or search_until ended the run before the search was done.
  bool out_of_time = false;

  /// The decided winner by the objective, else the fastest successful variant; nullptr when none
  /// succeeded.
  const VariantResult* best() const;
};

/// Number of dropped variants per constraint name; those in `left_out` count too.
std::map<std::string, long long> dropped_by_constraint(
    const std::vector<DroppedVariant>& dropped, std::map<std::string, long long> left_out = {});

/// Times to rank the results by. Finals load the GPU longer than the screening did, so their
/// medians are not set against the screening's: a finalist counts by its ratio to the winner.
std::map<Variant, double> comparable_times_us(const TuneReport& report);

/// Variants of one kernel, adjacent: they differ only in choices made at launch, so that the first
/// one is compiled for all of them. Groups and members keep the order of their first member.
std::vector<std::vector<Variant>> group_by_kernel(const std::vector<Variant>& variants);

/// The variants that constraints leave, and those they drop.
/// Throws: Error{invalid_argument} naming the constraint and its numbers when none is left, and for
/// a restriction that names no axis value.
SearchSpace require_variants(const Problem& problem, const DeviceInfo& device,
                             const SpaceOptions& options);

/// Tunes one problem on the evaluator's device. Every variant tried is a row of the store: one that
/// does not compile, spills, or fails is recorded with its state. What Store::known_results knows
/// is not measured again. Throws: what require_variants throws; Error from the store, the evaluator
/// or the compiler when nothing further can be done. Rows recorded before stay.
TuneReport tune(const Problem& problem, Evaluator& evaluator, const Generator& generator,
                Store& store, const TuneOptions& options, Progress& progress);
/// The same with kernels of another source, which several threads ask at once.
TuneReport tune(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                Store& store, const TuneOptions& options, Progress& progress);

}  // namespace swr
