// SPDX-License-Identifier: MIT
// The command line as a value: which command, with which options.
#pragma once

#include "tuner/run/objective_choice.h"
#include "tuner/search/strategy.h"
#include <swr/generator.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr::cli {

enum class Command {
  help,  ///< Print Options::help_text: help or the version was asked for.
  tune,
  query,
  explain,
  calibrate,
  export_results,
  devices,
  emit,
  axes,
  plan,
  measure_worker,  ///< Started by a command that measures, with that command's arguments.
  compile_worker,  ///< Likewise, by one that compiles many kernels.
  record,
  export_t4,
  import_results,
  merge,
  export_csv,
  judge,
  report,
  doctor,
  completion,
  man_page,
  watch,
  kernel,
};

/// Stands before the arguments of the command that started it. Not in the help: nobody else has a
/// use for it.
inline constexpr const char* kMeasureWorkerCommand = "measure-worker";
inline constexpr const char* kCompileWorkerCommand = "compile-worker";

/// Writes the manual page. Not in the help: the build runs it.
inline constexpr const char* kManPageCommand = "man-page";

/// The problem as it was typed; problems() turns it into values.
struct ProblemText {
  /// Of the first operation.
  ProblemText();

  std::string op;
  /// What was given, by the option without dashes.
  std::map<std::string, std::string> given;
};

/// What plan makes a list of: a file of shapes, or a model with lengths and batches.
struct PlanOptions {
  std::optional<std::filesystem::path> shapes;
  std::optional<std::filesystem::path> model;
  std::string seq;
  std::string batch = "1";
  std::string dtype;
  bool causal = false;
  bool training = false;
};

/// A kernel of a user's: where its spec lies, and what is asked of it.
struct KernelChoice {
  std::vector<std::filesystem::path> specs;  ///< The first is the one that is asked for.
  std::vector<std::string> sizes;            ///< NAME=VALUE[,VALUE]
  std::vector<std::string> axes;             ///< The same of parameters.
  bool enumerates = false;
  bool compiles_only = false;
};

struct Options {
  Command command = Command::help;
  std::string help_text;

  ProblemText problem;
  KernelChoice kernel;
  std::string gpu = "auto";
  /// Several GPUs of this machine: all, or their numbers; empty for one, by `gpu`.
  std::string gpus;
  /// --gpu of export, whose default is every GPU.
  std::string export_gpu = "all";
  /// --op of export, whose default is every operation.
  std::string export_op = "all";
  std::string export_format = "dir";
  std::string package_name = "tuned_kernels";
  /// Comma-separated tiles and, by axis name, values.
  std::string tiles;
  std::map<std::string, std::string> axis_values;

  std::optional<std::filesystem::path> database;
  std::optional<std::filesystem::path> cache_dir;
  /// Believe the kernels that members of the cache's group stored.
  bool shared_cache = false;
  std::optional<std::filesystem::path> templates;
  std::optional<std::filesystem::path> csv;
  /// Lines of JSON about a run as it happens.
  std::optional<std::filesystem::path> events;
  /// Serve the live view meanwhile, and on which port; 0 is any.
  bool watch = false;
  int port = 0;
  /// File or folder of watch.
  std::optional<std::filesystem::path> watched;
  /// Files of import and merge.
  std::vector<std::string> imports;
  /// Directory of export and record, file of emit and merge.
  std::optional<std::filesystem::path> out;
  std::string variant_key;
  /// Measured and modelled sweep of calibrate.
  std::optional<std::filesystem::path> sweep;

  /// Recorded spaces that tune searches instead of a GPU.
  std::vector<std::string> tune_replay;
  /// Asks a database of replayed results.
  bool replayed = false;
  PlanOptions plan;
  /// Recorded spaces that record writes again where the database has none of their problem.
  std::optional<std::filesystem::path> keep;
  /// A list of plan, instead of the problem's options.
  std::optional<std::filesystem::path> work;
  /// The questions noted beside the database, instead of the problem's options.
  bool missed = false;
  /// Which part of the work to do: I/N, auto, or empty for what the launcher says.
  std::string shard;
  /// Directory from which several workers take the problems, and how long a silent one keeps its.
  std::optional<std::filesystem::path> queue;
  int lease_s = 180;
  /// Files of judge, and the strategies it compares.
  std::vector<std::string> replay;
  /// Whose completion is to be written: bash, zsh or fish.
  std::string shell;
  /// Database that report compares with.
  std::optional<std::filesystem::path> against;
  std::string strategies;

  std::size_t top = 20;
  bool json = false;
  bool quiet = false;
  bool dry_run = false;
  int jobs = 0;
  int samples = 50;
  L2State l2_state = L2State::warm;
  int repeat = 1;
  bool no_counters = false;
  /// Empty: the strategy that search_options() chooses.
  std::string strategy;
  std::optional<long long> budget;
  /// Seconds, or minutes:seconds.
  std::string time;
  /// The same of the whole run.
  std::string within;
  bool force = false;
  bool no_isolation = false;
  /// Longest time per variant in seconds; 0 takes one that fits the problem.
  int deadline_s = 0;
  unsigned long long seed = 1;
  /// What is the best; empty where it is not said.
  std::string objective;
  /// Measure energy whatever the objective, and of how many variants.
  bool measures_energy = false;
  std::size_t energy_variants = 8;
};

/// Reads the arguments after the program's name. Without a subcommand the command is tune; without
/// any argument the help is asked for, whose lines have at most `width` characters (0: as is
/// usual). Throws: Error{invalid_argument} for anything that is no valid command line; what is
/// misspelt is named with what was probably meant.
Options parse_options(std::span<const std::string> arguments, std::size_t width = 0);

/// One problem per sequence length. Throws: Error{invalid_argument} naming the option.
std::vector<Problem> problems(const ProblemText& text);

/// The lengths of the one option that was given as LOW..HIGH, in ascending order; none without such
/// an option. problems() takes them as a list. Throws: as problems().
std::vector<int> asked_range(const ProblemText& text);

/// True where --op names no operation of swr, so that it may be a kernel that the database has.
bool may_ask_for_stored_kernel(const Options& options);

/// Registers the kernels of --spec, and has the first take the place of --op with --arg and --axis.
/// Throws: what read_kernel_spec() and register_kernel() throw.
void take_kernels(Options& options);

/// A problem with these kind fields, whose sizes forbid no choice. Throws: as problems().
Problem kernel_problem(const ProblemText& text);

/// The options that ask for the same problem again, each after a space.
std::string problem_arguments(const Problem& problem);

/// --strategy, --budget, --time and --seed, of results that will be measured or predicted.
/// Throws: Error{invalid_argument} naming the option.
SearchOptions search_options(const Options& options, Provenance provenance);

/// --objective, --energy and --energy-variants of a run whose objective is that of --objective,
/// else of its kernel's spec, else time. Throws: Error{invalid_argument} naming what is wrong with
/// it.
ObjectiveOptions objective_options(const Options& options);

/// --within in seconds; empty without it. Throws: Error{invalid_argument} naming the option.
std::optional<double> run_limit_s(const Options& options);

/// The tiles and axis values asked for. Throws: Error{invalid_argument} naming the option.
SpaceOptions space_options(const Options& options);

/// "128x64" or "128x64x4". Without warps each family takes its usual number.
/// Throws: Error{invalid_argument}.
Tile parse_tile(const std::string& text);

}  // namespace swr::cli
