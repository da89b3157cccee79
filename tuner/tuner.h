// SPDX-License-Identifier: MIT
// The story of a tuning run: enumerate the variants, compile them beside the evaluation, evaluate
// each, record every outcome as it comes, rank.
#pragma once

#include "tuner/evaluator.h"
#include "tuner/progress.h"
#include <swr/generator.h>
#include <swr/store.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace swr {

struct TuneOptions {
  SpaceOptions space;
  /// Threads that compile; 0 means one per hardware thread.
  int compile_threads = 0;
  /// What the evaluator produces; rows that never reach it carry it too.
  Provenance provenance = Provenance::measured;
  /// The run that the rows belong to, from Store::begin_run.
  long long run_id = 0;
  /// Asked before every variant; true ends the run with what is known so far.
  std::function<bool()> stop_requested = [] { return false; };
};

/// Wall-clock time of the phases in seconds.
struct PhaseTimes {
  double enumerate_s = 0.0;
  double compile_wait_s = 0.0;  ///< Waiting for kernels; most of the compiling is hidden.
  double evaluate_s = 0.0;
  double count_s = 0.0;  ///< Reading hardware counters.
  double record_s = 0.0;
  double total_s = 0.0;
};

struct TuneReport {
  AttentionProblem problem;
  DeviceInfo device;
  Provenance provenance = Provenance::measured;
  /// Every recorded row: the successful ones by time, then the others in the order tried.
  std::vector<VariantResult> results;
  /// Dropped by a constraint, before or after compilation. The latter are in `results` too.
  std::vector<DroppedVariant> dropped;
  std::size_t kernels_compiled = 0;    ///< Distinct kernels, from the cache or not.
  std::size_t kernels_from_cache = 0;  ///< Of these, read from the cubin cache.
  PhaseTimes times;
  /// True when stop_requested ended the run early.
  bool interrupted = false;

  /// The fastest successful variant; nullptr when none succeeded.
  const VariantResult* best() const;
};

/// Number of dropped variants per constraint name.
std::map<std::string, int> dropped_by_constraint(const std::vector<DroppedVariant>& dropped);

/// Variants of one kernel, adjacent: they differ only in choices made at launch, so that the first
/// one is compiled for all of them. Groups and members keep the order of their first member.
std::vector<std::vector<Variant>> group_by_kernel(const std::vector<Variant>& variants);

/// The variants that constraints leave, and those they drop.
/// Throws: Error{invalid_argument} naming the constraint and its numbers when none is left, and for
/// a restriction that names no axis value.
SearchSpace require_variants(const AttentionProblem& problem, const DeviceInfo& device,
                             const SpaceOptions& options);

/// Tunes one problem on the evaluator's device. Every variant tried is a row of the store: one that
/// does not compile, spills, or fails is recorded with its state.
/// Throws: what require_variants throws; Error from the store, the evaluator or the compiler when
/// nothing further can be done. Rows recorded before stay.
TuneReport tune(const AttentionProblem& problem, Evaluator& evaluator, const Generator& generator,
                Store& store, const TuneOptions& options, Progress& progress);

}  // namespace swr
