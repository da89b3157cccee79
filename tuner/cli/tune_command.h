// SPDX-License-Identifier: MIT
// What tune is asked, which kernel and the processes that measure are asked too.
#pragma once

#include "tuner/cli/commands.h"
#include "tuner/cli/options.h"
#include "tuner/run/objective_choice.h"
#include "tuner/search/strategy.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace swr::cli {

struct TuneArguments {
  ProblemText problem;
  SpaceText space;
  std::string gpu = "auto";
  /// Several GPUs of this machine: all, or their numbers; empty for one, by `gpu`.
  std::string gpus;

  /// Recorded spaces that are searched instead of a GPU.
  std::vector<std::string> replay;
  /// A list of plan, instead of the problem's options.
  std::optional<std::filesystem::path> work;
  /// The questions noted beside the database, instead of the problem's options.
  bool missed = false;
  /// Which part of the work to do: I/N, auto, or empty for what the launcher says.
  std::string shard;
  /// Directory from which several workers take the problems, and how long a silent one keeps its.
  std::optional<std::filesystem::path> queue;
  int lease_s = 180;

  std::optional<std::filesystem::path> csv;
  /// Lines of JSON about a run as it happens.
  std::optional<std::filesystem::path> events;
  /// Serve the live view meanwhile, and on which port; 0 is any.
  bool watch = false;
  int port = 0;
  std::size_t top = 20;
  bool verbose = false;
  bool dry_run = false;

  int jobs = 0;
  int samples = 50;
  int repeat = 1;
  bool no_counters = false;
  bool no_isolation = false;
  /// Longest time per variant in seconds; 0 takes one that fits the problem.
  int deadline_s = 0;
  unsigned long long seed = 1;
  /// Empty: the strategy that search_options() chooses.
  std::string strategy;
  std::optional<long long> budget;
  bool whole_budget = false;
  /// Seconds, or minutes:seconds.
  std::string time;
  /// The same of the whole run.
  std::string within;
  bool force = false;
  /// Whose calls are timed beside the best; empty for nobody's.
  std::string against;
  /// What is the best; empty where it is not said.
  std::string objective;
  /// Measure energy whatever the objective, and of how many variants.
  bool measures_energy = false;
  std::size_t energy_variants = 8;
};

/// Where a run of tune goes on.
struct TuneSession : Session {
  TuneArguments options;
};

/// --gpu and --gpus, and how a run goes on, whatever is tuned.
CLI::Option* add_gpus_options(OptionList& options, TuneArguments& run);
void add_run_options(OptionList& options, TuneArguments& run, CLI::Option* gpus);

/// --strategy, --budget, --time and --seed, of results that will be measured or predicted.
/// Throws: Error{invalid_argument} naming the option.
SearchOptions search_options(const TuneSession& session, Provenance provenance);

int run_tune(const TuneSession& session);
/// tune --replay.
int run_replay(const TuneSession& session);

}  // namespace swr::cli
