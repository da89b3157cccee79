// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"
#include "tuner/cli/options/text.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace swr::cli {
namespace {

constexpr const char* kTuneFooter =
    R"(Axis options take comma-separated values and restrict the search to them; `swr-tune axes` explains them. Results go to stdout, progress and errors to stderr.

Examples:
  swr-tune --gpu gb10 --seq 131072
  swr-tune --seq 4096,8192 --heads 32 --kv-heads 8 --head-dim 128 --causal --json
  swr-tune --gpu gb10 --seq 32768 --tile 80x80x5 --stages 1 --workers 0,48 --csv rows.csv
  swr-tune --replay tuned.db --strategy model --budget 16)";

/// The examples, and one of each operation that has to be named.
std::string tune_footer() {
  std::string footer = kTuneFooter;
  for (const Operation* const operation : operations_of_swr()) {
    if (operation == operations().front()) {
      continue;
    }
    footer += "\n  swr-tune --op " + std::string(operation->name()) + " " +
              std::string(operation->example()) + " --strategy model";
  }
  return footer;
}

/// "90", "1:30" or "2.5".
double parse_seconds(const std::string& option, const std::string& text) {
  constexpr double kSecondsPerMinute = 60.0;
  const std::size_t colon = text.find(':');
  const bool has_minutes = colon != std::string::npos;
  const std::string rest = has_minutes ? text.substr(colon + 1) : text;
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), seconds);
  const bool read = error == std::errc{} && end == rest.data() + rest.size();
  const bool in_range = seconds >= 0.0 && (!has_minutes || seconds < kSecondsPerMinute);
  if (!read || !in_range || !std::isfinite(seconds)) {
    reject(option + " takes seconds or minutes:seconds, e.g. 90 or 1:30, not '" + text + "'");
  }
  const int minutes = has_minutes ? whole_number(text.substr(0, colon), option.c_str()) : 0;
  const double total_s = minutes * kSecondsPerMinute + seconds;
  if (!(total_s > 0.0)) {
    reject(option + " must be above 0, not '" + text + "'");
  }
  return total_s;
}

void add_search_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Search";
  app.add_option(
         "--strategy", options.strategy,
         "exhaustive; random; model (best predicted first, corrected by what is measured); learned "
         "(by what is measured alone) [exhaustive; model with --budget, --time, --within or "
         "--missed, and for an absent GPU without axis options; learned in its place for kernels "
         "of users]")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_option("--budget", options.budget,
                 "Variants to try per problem at most [all; for model a tenth of the space]")
      ->type_name("N")
      ->check(at_least(1))
      ->group(kGroup);
  app.add_option("--time", options.time, "Wall-clock limit per problem: seconds, or 5:00")
      ->type_name("TIME")
      ->group(kGroup);
  app.add_option("--within", options.within,
                 "Wall-clock limit of the run: afterwards no problem is begun, and the one in hand "
                 "is decided by what is known; the same command goes on")
      ->type_name("TIME")
      ->group(kGroup);
  app.add_flag("--force", options.force,
               "Measure anew what an earlier or interrupted run has measured")
      ->group(kGroup);
}

void add_objective_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Objective";
  add_objective_option(
      app, options,
      "What the best variant has least of: time, energy, edp (energy times time), or an expression "
      "over metrics, e.g. 'energy_mj * time_us ** 2' (docs/energy.md) [time, or as a kernel's spec "
      "says]");
  app.add_flag("--energy", options.measures_energy,
               "Measure energy too, of the variants that --energy-variants says; the objective "
               "stays")
      ->group(kGroup);
  app.add_option("--energy-variants", options.energy_variants,
                 "Of how many variants to measure energy, a second for each of 3 to 6 runs")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group(kGroup);
}

void add_measuring_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Measuring";
  app.add_option("--samples", options.samples,
                 "Most samples per variant; fewer if the median is known earlier")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group(kGroup);
  add_l2_option(app, options,
                "L2 when a timed launch begins: warm (what the launch before left) or cold");
  app.add_option("--repeat", options.repeat, "Tune N times and report whether the choices agree")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group(kGroup);
  app.add_flag("--no-counters", options.no_counters, "Measure without hardware counters")
      ->group(kGroup);
  app.add_option("--deadline", options.deadline_s,
                 "Seconds after which a variant counts as hung; 0 chooses by the problem")
      ->capture_default_str()
      ->type_name("S")
      ->check(at_least(0))
      ->group(kGroup);
  app.add_flag("--no-isolation", options.no_isolation,
               "Measure in this process; a variant that faults then ends the run")
      ->excludes(app.get_option("--gpus"))
      ->group(kGroup);
}

/// Everything that says what is measured, where and how excludes a replay: the file says it.
void add_replay_option(CLI::App& app, Options& options) {
  const std::set<std::string> usable{"--help",  "--strategy", "--budget", "--time",  "--seed",
                                     "--csv",   "--events",   "--top",    "--json",  "--quiet",
                                     "--jobs",  "--db",       "--shard",  "--queue", "--lease",
                                     "--watch", "--port"};
  const auto others = app.get_options(
      [&usable](const CLI::Option* option) { return !usable.contains(option->get_name()); });
  CLI::Option* const replay =
      app.add_option("--replay", options.tune_replay,
                     "Search the recorded spaces of databases or of files of swr-tune db record "
                     "(.spaces) instead of a GPU; stored only in a database named by --db, which "
                     "then holds nothing else")
          ->type_name("FILE...")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->group("Files");
  for (CLI::Option* const other : others) {
    replay->excludes(other);
  }
}

/// Excludes the options of the problem: a file says it.
void exclude_problem(CLI::App& app, CLI::Option& option) {
  for (const char* other :
       {"--op", "--batch", "--dtype", "--alignment", "--seq", "--seq-kv", "--heads", "--kv-heads",
        "--head-dim", "--causal", "--m", "--n", "--k", "--layout", "--output", "--reads-c"}) {
    option.excludes(app.get_option(other));
  }
}

/// Lists of problems that others made.
void add_list_options(CLI::App& app, Options& options) {
  CLI::Option* const work =
      app.add_option("--work", options.work, "Tune the problems of a file that swr-tune plan wrote")
          ->type_name("FILE")
          ->group("Problem");
  CLI::Option* const missed = app.add_flag("--missed", options.missed,
                                           "Tune the problems that programs asked for and no "
                                           "measurement answered, the most frequent first "
                                           "(docs/runtime.md)")
                                  ->excludes(work)
                                  ->group("Problem");
  exclude_problem(app, *work);
  exclude_problem(app, *missed);
}

void add_worker_options(CLI::App& app, Options& options) {
  app.add_option("--shard", options.shard,
                 "Do the I-th of N shares of the problems, counted from 0, with a database of its "
                 "own; auto: as Slurm, mpirun or PMI say [auto where they do]")
      ->type_name("I/N")
      ->group("Workers");
  CLI::Option* const queue =
      app.add_option("--queue", options.queue,
                     "Take problems one by one from a directory shared with other workers of the "
                     "same list; each has a database of its own")
          ->type_name("DIR")
          ->excludes(app.get_option("--gpus"))
          ->group("Workers");
  app.add_option(
         "--lease", options.lease_s,
         "Seconds without a sign of life after which another worker takes a worker's problem")
      ->capture_default_str()
      ->type_name("S")
      ->check(at_least(1))
      ->needs(queue)
      ->group("Workers");
}

/// Each of several GPUs needs a process of its own and is one that is present.
void add_gpus_option(CLI::App& app, Options& options, CLI::Option* gpu) {
  app.add_option("--gpus", options.gpus,
                 "Several equal GPUs of this machine at once, each with a problem of its own: all, "
                 "or numbers as in 0,1")
      ->type_name("LIST")
      ->excludes(gpu);
}

/// How a tuning run goes on, whatever is tuned. Requires: --gpus.
void add_run_options(CLI::App& app, Options& options) {
  add_database_option(app, options);
  add_generator_options(app, options);
  app.add_option("--csv", options.csv, "Write every row to a CSV file")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--events", options.events,
                 "Write what happens to a file as it happens, one JSON object per line")
      ->type_name("FILE")
      ->group("Output");
  app.add_flag("--watch", options.watch,
               "Show the run as a page on this machine while it goes on (see swr-tune watch)")
      ->group("Live view");
  add_port_option(app, options);
  app.add_option("--top", options.top, "Rows of the printed table")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group("Output");
  add_json_option(app, options);
  add_quiet_option(app, options);
  app.add_flag("--dry-run", options.dry_run, "List what would run and what is dropped, and why");
  app.add_option("--jobs", options.jobs,
                 "Threads that compile, and as many that predict; 0 is one per processor")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(0));
  add_objective_options(app, options);
  add_measuring_options(app, options);
  app.add_option("--seed", options.seed, "Seed of the random inputs and of --strategy random")
      ->capture_default_str();
  add_search_options(app, options);
  add_worker_options(app, options);
}

constexpr const char* kKernelFooter =
    R"(SPEC is swr's own JSON, a T1 file, or a .cu file with pragmas (docs/kernels.md). Its code runs on the GPU, in a process of its own; nothing of it is executed on the host.

Examples:
  swr-tune kernel blur.json --arg width=4096,8192
  swr-tune kernel blur.json --axis block_size_x=64,128 --budget 200
  swr-tune kernel blur.json --enumerate --gpu gb10
  swr-tune kernel blur.json --compile-only --gpu h200
  swr-tune query --spec blur.json --arg width=5000)";

}  // namespace

void add_kernel(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand("kernel", "Tune a CUDA kernel of your own");
  app.footer(kKernelFooter);
  KernelChoice& kernel = options.kernel;
  app.add_option("SPEC", kernel.specs, "The kernel's spec")->required()->expected(1);
  app.add_option("--arg", kernel.sizes, "A size of the problem; a list is one problem each")
      ->type_name("NAME=N[,N]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->group("Problem");
  app.add_option("--axis", kernel.axes, "Values of a parameter to search, in place of all")
      ->type_name("NAME=V[,V]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->group("Axes");
  CLI::Option* const enumerate =
      app.add_flag("--enumerate", kernel.enumerates,
                   "Say how many variants there are and what drops others, and compile nothing");
  app.add_flag("--compile-only", kernel.compiles_only,
               "Compile --budget variants, one unless it says more, and measure nothing")
      ->excludes(enumerate);
  add_gpus_option(app, options, add_gpu_option(app, options));
  add_run_options(app, options);
}

void add_tune(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand("tune", "Tune one shape or several (the default)");
  app.footer(tune_footer());
  add_problem_options(app, options.problem, "a list is one problem each");
  add_list_options(app, options);
  add_gpus_option(app, options, add_gpu_option(app, options));
  add_axis_options(app, options);
  add_run_options(app, options);
  add_replay_option(app, options);
}

namespace {

bool names_axes(const Options& options) {
  return !options.tiles.empty() || std::ranges::any_of(options.axis_values, [](const auto& axis) {
    return !axis.second.empty();
  });
}

StrategyKind usual_strategy(const Options& options, Provenance provenance) {
  // What a limit leaves out should be what promises least.
  const bool is_limited = options.budget || !options.time.empty() || !options.within.empty();
  // What a program waits for is wanted soon.
  const bool is_wanted_soon = is_limited || options.missed;
  // Of a whole space the same model judges before and after compiling: only what it ranks first can
  // win. Whoever names axes wants to see each of them.
  const bool leaves_out = provenance == Provenance::predicted && !names_axes(options);
  if (!is_wanted_soon && !leaves_out) {
    return StrategyKind::exhaustive;
  }
  // There is no model of kernels of users.
  return options.kernel.specs.empty() ? StrategyKind::model : StrategyKind::learned;
}

}  // namespace

SearchOptions search_options(const Options& options, Provenance provenance) {
  SearchOptions search{.strategy = options.strategy.empty() ? usual_strategy(options, provenance)
                                                            : parse_strategy(options.strategy),
                       .max_variants = std::nullopt,
                       .max_s = std::nullopt,
                       .seed = options.seed};
  if (options.budget) {
    search.max_variants = static_cast<std::size_t>(*options.budget);
  }
  if (!options.time.empty()) {
    search.max_s = parse_seconds("--time", options.time);
  }
  return search;
}

ObjectiveOptions objective_options(const Options& options) {
  const std::string& text = options.objective;
  return {.objective = Objective(text.empty() ? std::string(kTimeObjective) : text),
          .measures_energy = options.measures_energy,
          .most_measured = options.energy_variants,
          .seed = options.seed};
}

std::optional<double> run_limit_s(const Options& options) {
  return options.within.empty() ? std::nullopt
                                : std::optional(parse_seconds("--within", options.within));
}

}  // namespace swr::cli
