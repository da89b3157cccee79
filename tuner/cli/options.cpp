// SPDX-License-Identifier: MIT
#include "tuner/cli/options.h"

#include "tuner/study/study.h"
#include <swr/error.h>
#include <swr/variant.h>
#include <swr/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace swr::cli {
namespace {

constexpr const char* kOverview =
    R"(Tunes attention kernels for NVIDIA GPUs: generates variants, compiles them, measures them on the
GPU present or predicts them for one that is not, and stores every result.)";

constexpr const char* kFooter =
    R"(Without a subcommand, tune runs; its options: swr-tune tune --help

Examples:
  swr-tune --gpu gb10 --seq 131072             predict on a GB10, present or not
  swr-tune --seq 4096 --heads 16 --head-dim 128 --causal
                                               measure on the GPU of this machine
  swr-tune --gpu h200 --seq 1024,8192 --tile 64x64,128x64 --order sawtooth --dry-run
  swr-tune query --gpu gb10 --seq 131072       the best stored variant
  swr-tune explain --gpu gb10 --seq 131072     every term of its predicted time and traffic
  swr-tune export --out kernels                cubins and manifest of all winners

Exit codes: 0 success; 1 the environment, GPU, database or compiler failed; 2 bad command line or
values; 130 interrupted by Ctrl-C (what was found is stored and printed).
Environment: SWR_DB, SWR_CACHE_DIR, SWR_TEMPLATE_DIR, SWR_NVRTC, NO_COLOR (docs/cli.md).)";

constexpr const char* kTuneFooter =
    R"(Axis options take comma-separated values and restrict the search to them; `swr-tune axes` explains
them. Results go to stdout, progress and errors to stderr.

Examples:
  swr-tune --gpu gb10 --seq 131072
  swr-tune --seq 4096,8192 --heads 32 --kv-heads 8 --head-dim 128 --causal --json
  swr-tune --gpu gb10 --seq 32768 --tile 80x80x5 --stages 1 --workers 0,48 --csv rows.csv
  swr-tune --replay tuned.db --strategy model --budget 16)";

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

int whole_number(const std::string& text, const std::string& option) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject(option + " takes whole numbers, not '" + text + "'");
  }
  return value;
}

/// "90", "1:30" or "2.5".
double parse_seconds(const std::string& text) {
  constexpr double kSecondsPerMinute = 60.0;
  const std::size_t colon = text.find(':');
  const bool has_minutes = colon != std::string::npos;
  const std::string rest = has_minutes ? text.substr(colon + 1) : text;
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), seconds);
  const bool read = error == std::errc{} && end == rest.data() + rest.size();
  const bool in_range = seconds >= 0.0 && (!has_minutes || seconds < kSecondsPerMinute);
  if (!read || !in_range || !std::isfinite(seconds)) {
    reject("--time takes seconds or minutes:seconds, e.g. 90 or 1:30, not '" + text + "'");
  }
  const int minutes = has_minutes ? whole_number(text.substr(0, colon), "--time") : 0;
  const double total_s = minutes * kSecondsPerMinute + seconds;
  if (!(total_s > 0.0)) {
    reject("--time must be above 0, not '" + text + "'");
  }
  return total_s;
}

std::string option_name(std::string_view axis_name) {
  std::string name = "--" + std::string(axis_name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_tile_axis(std::string_view name) {
  return name == "tile_m" || name == "tile_n" || name == "warps";
}

std::string axis_help(const Axis& axis) {
  std::string choices;
  for (const auto spelling : axis.spellings) {
    choices += (choices.empty() ? " One or more of: " : ", ") + std::string(spelling);
  }
  return std::string(axis.summary) + (choices.empty() ? "" : choices + ".");
}

/// CLI11's own range check would repeat the range in every line of the help.
CLI::Validator at_least(int low) {
  constexpr int kHigh = 1000000;
  CLI::Validator check = CLI::Range(low, kHigh);
  check.description("");
  return check;
}

/// What a kernel depends on, without the lengths.
void add_kernel_options(CLI::App& app, ProblemText& problem) {
  constexpr const char* kGroup = "Problem";
  app.add_option("--head-dim", problem.head_dim, "Elements per head; a multiple of 16 up to 256")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--dtype", problem.dtype, "Type of Q, K, V and O: fp16 or bf16")
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--causal", problem.causal, "Mask the future, aligned to the last row and key")
      ->group(kGroup);
  app.add_option("--alignment", problem.alignment,
                 "Bytes that divide every address and stride: 2, 4, 8 or 16")
      ->capture_default_str()
      ->group(kGroup);
}

/// The lengths of Q. Their option is the caller's to require.
CLI::Option* add_problem_options(CLI::App& app, ProblemText& problem, const char* seq_help) {
  constexpr const char* kGroup = "Problem";
  app.add_option("--op", problem.op, "Operation; attention is the only one")
      ->capture_default_str()
      ->group(kGroup);
  CLI::Option* const seq =
      app.add_option("--seq", problem.seq, seq_help)->type_name("N[,N]")->group(kGroup);
  app.add_option("--seq-kv", problem.seq_kv, "Length of K and V [same as --seq]")->group(kGroup);
  app.add_option("--batch", problem.batch, "Batch size")->capture_default_str()->group(kGroup);
  app.add_option("--heads", problem.heads, "Query heads")->capture_default_str()->group(kGroup);
  app.add_option("--kv-heads", problem.kv_heads, "Key and value heads [same as --heads]")
      ->group(kGroup);
  add_kernel_options(app, problem);
  return seq;
}

void add_gpu_option(CLI::App& app, Options& options) {
  app.add_option("--gpu", options.gpu,
                 "auto (the first GPU present), a profile (see swr-tune devices) or a profile's "
                 ".json file; a GPU that is not present is predicted")
      ->capture_default_str()
      ->type_name("GPU");
}

void add_axis_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Axes";
  app.add_option("--tile", options.tiles,
                 "Q rows x K rows, and warps if wanted: 64x64,128x64,80x80x5")
      ->type_name("MxN[xWARPS]")
      ->group(kGroup);
  for (const Axis& axis : axes()) {
    if (!is_tile_axis(axis.name)) {
      app.add_option(option_name(axis.name), options.axis_values[std::string(axis.name)],
                     axis_help(axis))
          ->type_name("LIST")
          ->group(kGroup);
    }
  }
}

void add_database_option(CLI::App& app, Options& options) {
  app.add_option("--db", options.database,
                 "Database [SWR_DB, else $XDG_DATA_HOME/swr/tuned.db, else "
                 "~/.local/share/swr/tuned.db]")
      ->type_name("FILE")
      ->group("Files");
}

void add_templates_option(CLI::App& app, Options& options) {
  app.add_option("--templates", options.templates,
                 "Files here replace the built-in templates of the same path [SWR_TEMPLATE_DIR]")
      ->type_name("DIR")
      ->group("Files");
}

constexpr const char* kAskedL2 = "Ask for results that were measured with such an L2: warm or cold";

void add_l2_option(CLI::App& app, Options& options, const char* help) {
  app.add_option_function<std::string>(
         "--l2", [&](const std::string& text) { options.l2_state = parse_l2_state(text); }, help)
      ->default_str("warm")
      ->type_name("STATE")
      ->group("Measuring");
}

void add_generator_options(CLI::App& app, Options& options) {
  app.add_option("--cache-dir", options.cache_dir,
                 "Cubin cache [SWR_CACHE_DIR, else $XDG_CACHE_HOME/swr, else ~/.cache/swr]")
      ->type_name("DIR")
      ->group("Files");
  add_templates_option(app, options);
}

void add_json_option(CLI::App& app, Options& options) {
  app.add_flag("--json", options.json, "One JSON document on stdout instead of text")
      ->group("Output");
}

void add_search_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Search";
  app.add_option("--strategy", options.strategy,
                 "exhaustive; random; model (best predicted first, corrected by what is measured)")
      ->capture_default_str()
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
  app.add_flag("--force", options.force,
               "Measure anew what an earlier or interrupted run has measured")
      ->group(kGroup);
}

void add_measuring_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Measuring";
  app.add_option("--samples", options.samples,
                 "Most samples per variant; fewer when the median is known sooner")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group(kGroup);
  add_l2_option(app, options,
                "L2 when a timed launch begins: warm (what the launch before left) or cold");
  app.add_option("--repeat", options.repeat,
                 "Tune so many times and report whether the choices agree")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group(kGroup);
  app.add_flag("--no-counters", options.no_counters, "Measure without hardware counters")
      ->group(kGroup);
  app.add_option("--deadline", options.deadline_s,
                 "Seconds after which a variant counts as hanging; 0 fits the problem")
      ->capture_default_str()
      ->type_name("S")
      ->check(at_least(0))
      ->group(kGroup);
  app.add_flag("--no-isolation", options.no_isolation,
               "Measure in this process, where a variant that faults ends the run")
      ->group(kGroup);
}

/// Everything that says what is measured, where and how excludes a replay: the file says it.
void add_replay_option(CLI::App& app, Options& options) {
  const std::set<std::string> usable{"--help", "--strategy", "--budget", "--time",  "--seed",
                                     "--csv",  "--events",   "--top",    "--json",  "--quiet",
                                     "--jobs", "--db",       "--shard",  "--queue", "--lease"};
  const auto others = app.get_options(
      [&usable](const CLI::Option* option) { return !usable.contains(option->get_name()); });
  CLI::Option* const replay =
      app.add_option("--replay", options.tune_replay,
                     "Search the recorded spaces of databases or of files of swr-tune db record "
                     "(.json) instead of a GPU; stored only in a database named by --db, which "
                     "then holds nothing else")
          ->type_name("FILE...")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->group("Files");
  for (CLI::Option* const other : others) {
    replay->excludes(other);
  }
}

/// Excludes the options of the problem: the file says it.
void add_work_option(CLI::App& app, Options& options) {
  CLI::Option* const work =
      app.add_option("--work", options.work, "Tune the problems of a file that swr-tune plan wrote")
          ->type_name("FILE")
          ->group("Problem");
  for (const char* other : {"--seq", "--seq-kv", "--batch", "--heads", "--kv-heads", "--head-dim",
                            "--dtype", "--causal", "--alignment"}) {
    work->excludes(app.get_option(other));
  }
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
          ->group("Workers");
  app.add_option("--lease", options.lease_s,
                 "Seconds after which a worker that gives no sign loses its problem to another")
      ->capture_default_str()
      ->type_name("S")
      ->check(at_least(1))
      ->needs(queue)
      ->group("Workers");
}

void add_tune_options(CLI::App& app, Options& options) {
  app.footer(kTuneFooter);
  CLI::Option* const seq =
      add_problem_options(app, options.problem, "Sequence lengths, one problem each");
  add_work_option(app, options);
  add_gpu_option(app, options);
  add_axis_options(app, options);
  add_database_option(app, options);
  add_generator_options(app, options);
  app.add_option("--csv", options.csv, "Write every row to a CSV file")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--events", options.events,
                 "Write what happens to a file as it happens, one JSON object per line")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--top", options.top, "Rows of the printed table")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(1))
      ->group("Output");
  add_json_option(app, options);
  app.add_flag("--quiet", options.quiet, "No progress")->group("Output");
  app.add_flag("--dry-run", options.dry_run, "List what would run and what is dropped, and why");
  app.add_option("--jobs", options.jobs, "Compiling threads; 0 is one per processor")
      ->capture_default_str()
      ->type_name("N")
      ->check(at_least(0));
  add_measuring_options(app, options);
  app.add_option("--seed", options.seed, "Seed of the random inputs and of --strategy random")
      ->capture_default_str();
  add_search_options(app, options);
  add_worker_options(app, options);
  add_replay_option(app, options);
  app.callback([seq, &options] {
    if (options.tune_replay.empty() && !options.work && seq->empty()) {
      throw CLI::RequiredError(seq->get_name());
    }
  });
}

void add_tune(CLI::App& program, Options& options) {
  add_tune_options(*program.add_subcommand("tune", "Tune one shape or several (the default)"),
                   options);
}

void add_measure_worker(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(kMeasureWorkerCommand);
  app.group("");
  add_tune_options(app, options);
}

void add_query(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand("query", "Print the best stored variant for a problem");
  app.footer(
      "The answer says how it matched: exact, nearest (another shape), same_arch (another "
      "device),\n"
      "predicted (nothing measured fits) or default_only (nothing stored fits).\n\n"
      "Example: swr-tune query --gpu gb10 --seq 131072 --json");
  add_problem_options(app, options.problem, "Sequence length; a list asks for several problems")
      ->required();
  add_gpu_option(app, options);
  add_database_option(app, options);
  add_l2_option(app, options, kAskedL2);
  add_templates_option(app, options);
  app.add_flag("--replayed", options.replayed,
               "Ask a database of tune --replay --db, whose results no GPU has given")
      ->group("Files");
  add_json_option(app, options);
}

void add_explain(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "explain", "Print every term of one variant's predicted time and L2 traffic");
  app.footer(
      "Without --variant: the best stored for exactly this problem and GPU, else the best of the\n"
      "whole space by prediction.\n\n"
      "Example: swr-tune explain --gpu gb10 --seq 131072");
  add_problem_options(app, options.problem, "Sequence length; a list explains several problems")
      ->required();
  add_gpu_option(app, options);
  app.add_option("--variant", options.variant_key,
                 "Key as tune and query print it; axes left out keep their default")
      ->type_name("KEY");
  add_database_option(app, options);
  add_l2_option(app, options, kAskedL2);
  add_generator_options(app, options);
  add_json_option(app, options);
}

void add_calibrate(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "calibrate", "Measure on the GPU present what its profile needs and write the profile");
  app.footer(
      "Measures the effective L2 for data that every SM reads, bandwidth and latency of L2 and\n"
      "DRAM, and the rates of mma.sync, ex2 and FMA.\n\n"
      "Example: swr-tune calibrate --out h200.json --sweep sweep.csv");
  app.add_option("--gpu", options.gpu, "auto (the first GPU present), or a profile's id or file")
      ->capture_default_str()
      ->type_name("GPU");
  app.add_option("--out", options.out, "The profile to write; its name without .json is its id")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  app.add_option("--sweep", options.sweep,
                 "Write the buffer sweep, measured beside modelled, to a CSV file")
      ->type_name("FILE")
      ->group("Files");
  add_generator_options(app, options);
  app.add_flag("--quiet", options.quiet, "No progress")->group("Output");
  add_json_option(app, options);
}

void add_export(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "export", "Write the kernels of all winners: cubins and a manifest, or a C++ package");
  app.footer(
      "Examples:\n"
      "  swr-tune export --out kernels\n"
      "  swr-tune export --out kernels --gpu gb10\n"
      "  swr-tune export --format cpp --name my_attention --out my_attention");
  app.add_option(
         "--format", options.export_format,
         "dir: cubins and manifest.json; cpp: a CMake project with embedded cubins that needs "
         "only the CUDA driver")
      ->check(CLI::IsMember({"dir", "cpp"}))
      ->capture_default_str();
  app.add_option("--name", options.package_name,
                 "With --format cpp: name of the library and its namespace")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--gpu", options.export_gpu,
                 "Winners of one GPU only: auto, a profile or a profile's .json file; all exports "
                 "those of every GPU")
      ->capture_default_str()
      ->type_name("GPU");
  app.add_option("--out", options.out, "Directory; created when missing")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  add_database_option(app, options);
  add_l2_option(app, options, kAskedL2);
  add_generator_options(app, options);
  add_json_option(app, options);
}

void add_devices(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("devices", "List the GPUs present and the built-in profiles");
  add_json_option(app, options);
}

void add_emit(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("emit", "Print one variant as a single self-contained .cu file");
  app.footer(
      "Example: swr-tune emit --variant tile_m=128,tile_n=64,warps=4,order=sawtooth,"
      "persistence=persistent > kernel.cu");
  app.add_option("--variant", options.variant_key,
                 "Key as tune and query print it; axes left out keep their default")
      ->required()
      ->type_name("KEY");
  add_kernel_options(app, options.problem);
  app.add_option("--out", options.out, "Write to a file instead of stdout")
      ->type_name("FILE")
      ->group("Files");
  add_generator_options(app, options);
}

void add_axes(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand("axes", "List the tuning axes and the constraints");
  add_json_option(app, options);
}

void add_plan(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "plan", "Write a list of problems for tune --work, from shapes or from a model");
  app.footer(
      "Examples:\n"
      "  swr-tune plan --shapes shapes.txt --out work.json\n"
      "  swr-tune plan --model config.json --seq 1024,8192 --batch 1,8 --causal --out work.json");
  PlanOptions& plan = options.plan;
  CLI::Option_group& source = *app.add_option_group("Source");
  source
      .add_option("--shapes", plan.shapes,
                  "Text with a shape per line (seq=4096 heads=32 kv-heads=8 causal), or JSON")
      ->type_name("FILE");
  CLI::Option* const model =
      source.add_option("--model", plan.model, "A model's config.json: heads and head_dim")
          ->type_name("FILE");
  source.require_option(1);
  constexpr const char* kGroup = "With --model";
  CLI::Option* const seq =
      app.add_option("--seq", plan.seq, "Lengths")->type_name("N[,N]")->group(kGroup)->needs(model);
  model->needs(seq);
  app.add_option("--batch", plan.batch, "Batch sizes")
      ->capture_default_str()
      ->type_name("N[,N]")
      ->group(kGroup)
      ->needs(model);
  app.add_option("--dtype", plan.dtype, "fp16 or bf16 [the model's]")->group(kGroup)->needs(model);
  app.add_flag("--causal", plan.causal, "With the causal mask")->group(kGroup)->needs(model);
  app.add_option("--out", options.out, "Write to a file instead of stdout")
      ->type_name("FILE")
      ->group("Files");
}

/// A subcommand of db that writes files into a directory.
void add_db_writer(CLI::App& db, Options& options, const std::string& name,
                   const std::string& description, const std::string& example_directory) {
  CLI::App& app = *db.add_subcommand(name, description);
  app.footer("Example: swr-tune db " + name + " --out " + example_directory);
  app.add_option("--out", options.out, "Directory; created when missing")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  add_database_option(app, options);
}

void add_import_t4(CLI::App& db, Options& options) {
  CLI::App& app = *db.add_subcommand(
      "import-t4", "Store results of files in the T4 format 1.0, such as export-t4 writes");
  app.footer("Example: swr-tune db import-t4 --from results/*.t4.json --db tuned.db");
  app.add_option("--from", options.imports, "Files; each says under \"swr\" what it is of")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
  add_database_option(app, options);
}

void add_merge(CLI::App& db, Options& options) {
  CLI::App& app = *db.add_subcommand("merge", "Join the databases of several workers into one");
  app.footer(
      "Merging again adds nothing. Results of one device that are not comparable (other "
      "templates,\n"
      "NVRTC, driver, L2 state or options) are refused, and --out stays as it was.\n\n"
      "Example: swr-tune db merge --out tuned.db --from results/*.db");
  app.add_option("--out", options.out, "Database to add to; created when missing")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  app.add_option("--from", options.imports, "Databases to read")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
}

void add_db(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("db", "Write the database's results in other forms, and read them");
  app.require_subcommand(1);
  add_db_writer(app, options, "record",
                "Write every tuned space as a small text file, for judge and for tests", "spaces");
  add_db_writer(app, options, "export-t4",
                "Write every measured space in the T4 auto-tuning results format 1.0", "results");
  add_import_t4(app, options);
  add_merge(app, options);
  add_db_writer(app, options, "export-csv",
                "Write every measured space as CSV with the columns of the CUTLASS profiler",
                "results");
}

void add_judge(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "judge", "Compare search strategies on recorded spaces, without a GPU");
  app.footer(
      "Regret is what the best variant found loses against the best of the space, after measuring\n"
      "8, 16 and 32 variants and a tenth of the space.\n\n"
      "Examples:\n"
      "  swr-tune judge --replay tuned.db\n"
      "  swr-tune judge --replay spaces/*.json --strategy model");
  app.add_option("--replay", options.replay,
                 "Databases and files written by swr-tune db record (.json)")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
  app.add_option("--strategy", options.strategies, "Strategies to compare")
      ->capture_default_str()
      ->type_name("LIST");
  add_json_option(app, options);
}

void add_report(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "report", "Write what the database holds as one HTML page with charts");
  app.footer(
      "The page needs no network. Nothing is measured or predicted anew.\n\n"
      "Example: swr-tune report --out report.html --db tuned.db");
  app.add_option("--out", options.out, "The page to write")
      ->required()
      ->type_name("FILE.html")
      ->group("Files");
  add_database_option(app, options);
}

void add_study(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "study", "Repeat a paper's experiments: measured on the GPU present, else predicted");
  app.footer(
      "sawtooth: sectors against the formula, where misses begin, hit rate over active SMs, "
      "cyclic\n"
      "against sawtooth. tiled-attention: 80 shapes, best tile by shape and what it gains.\n"
      "Points that the database knows are not tuned again, so the same command continues.\n\n"
      "Example: swr-tune study sawtooth --gpu gb10 --db study.db --out study");
  app.add_option("name", options.study, "sawtooth or tiled-attention")
      ->check(CLI::IsMember(study_names()))
      ->required();
  add_gpu_option(app, options);
  app.add_option("--out", options.out, "Directory of NAME.csv and NAME.md; created when missing")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  add_database_option(app, options);
  add_generator_options(app, options);
  app.add_flag("--quiet", options.quiet, "No progress")->group("Output");
  app.add_flag("--force", options.force, "Tune anew what the database knows");
}

void add_subcommands(CLI::App& program, Options& options) {
  program.footer(kFooter);
  program.set_version_flag("--version", "swr-tune " SWR_VERSION);
  program.require_subcommand(1);
  // The last of a repeated option wins, as wrappers that append options expect.
  program.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_tune(program, options);
  add_query(program, options);
  add_explain(program, options);
  add_calibrate(program, options);
  add_export(program, options);
  add_devices(program, options);
  add_emit(program, options);
  add_axes(program, options);
  add_plan(program, options);
  add_db(program, options);
  add_judge(program, options);
  add_report(program, options);
  add_study(program, options);
  add_measure_worker(program, options);
}

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> kCommands{
      {"tune", Command::tune},
      {"query", Command::query},
      {"explain", Command::explain},
      {"calibrate", Command::calibrate},
      {"export", Command::export_results},
      {"devices", Command::devices},
      {"emit", Command::emit},
      {"axes", Command::axes},
      {"plan", Command::plan},
      {"db record", Command::record},
      {"db export-t4", Command::export_t4},
      {"db import-t4", Command::import_t4},
      {"db merge", Command::merge},
      {"db export-csv", Command::export_csv},
      {"judge", Command::judge},
      {"report", Command::report},
      {"study", Command::study},
      {kMeasureWorkerCommand, Command::measure_worker}};
  return kCommands;
}

/// "tune", or "db record" for a command of two words.
std::string command_name(const CLI::App& program) {
  const CLI::App& command = *program.get_subcommands().front();
  const auto inner = command.get_subcommands();
  return command.get_name() + (inner.empty() ? "" : " " + inner.front()->get_name());
}

/// Options without a subcommand belong to tune.
std::vector<std::string> with_command(std::span<const std::string> arguments) {
  std::vector<std::string> all(arguments.begin(), arguments.end());
  const bool about_program =
      !all.empty() && (all[0] == "--help" || all[0] == "-h" || all[0] == "--version");
  if (about_program) {
    return all;
  }
  if (all.empty() || all[0].starts_with("-")) {
    all.insert(all.begin(), "tune");
  } else if (all[0] != "db" && !commands().contains(all[0])) {
    reject("unknown command '" + all[0] + "'; see swr-tune --help");
  }
  return all;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

Options parse_options(std::span<const std::string> arguments) {
  Options options;
  CLI::App program(kOverview, "swr-tune");
  add_subcommands(program, options);
  std::vector<std::string> remaining = with_command(arguments);
  std::reverse(remaining.begin(), remaining.end());  // CLI11 takes them from the back.
  try {
    program.parse(remaining);
  } catch (const CLI::CallForHelp&) {
    options.help_text = program.help();
    return options;
  } catch (const CLI::CallForVersion& version) {
    options.help_text = std::string(version.what()) + "\n";
    return options;
  } catch (const CLI::ParseError& error) {
    reject(std::string(error.what()) + "; see swr-tune --help");
  }
  options.command = commands().at(command_name(program));
  return options;
}

std::vector<AttentionProblem> problems(const ProblemText& text) {
  if (text.op != "attention") {
    reject("--op '" + text.op + "' is unknown; the only operation is attention");
  }
  std::vector<AttentionProblem> all;
  for (const std::string& part : split(text.seq, ',')) {
    const int seq = whole_number(part, "--seq");
    all.push_back({.batch = text.batch,
                   .heads_q = text.heads,
                   .heads_kv = text.kv_heads.value_or(text.heads),
                   .seq_q = seq,
                   .seq_kv = text.seq_kv.value_or(seq),
                   .head_dim = text.head_dim,
                   .dtype = parse_dtype(text.dtype),
                   .causal = text.causal,
                   .alignment_bytes = text.alignment});
    validate(all.back());
  }
  return all;
}

SearchOptions search_options(const Options& options) {
  SearchOptions search{.strategy = parse_strategy(options.strategy),
                       .max_variants = std::nullopt,
                       .max_s = std::nullopt,
                       .seed = options.seed};
  if (options.budget) {
    search.max_variants = static_cast<std::size_t>(*options.budget);
  }
  if (!options.time.empty()) {
    search.max_s = parse_seconds(options.time);
  }
  return search;
}

Tile parse_tile(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 2 && parts.size() != 3) {
    reject("--tile '" + text + "' is not of the form MxN or MxNxWARPS, e.g. 128x64");
  }
  Tile tile{.tile_m = whole_number(parts[0], "--tile"), .tile_n = whole_number(parts[1], "--tile")};
  if (parts.size() == 3) {
    tile.warps = whole_number(parts[2], "--tile");
    if (tile.warps == 0) {
      reject("--tile '" + text + "' has no warps; leave the third number out for the usual ones");
    }
  }
  return tile;
}

SpaceOptions space_options(const Options& options) {
  SpaceOptions space;
  if (!options.tiles.empty()) {
    for (const std::string& part : split(options.tiles, ',')) {
      space.tiles.push_back(parse_tile(part));
    }
  }
  for (const auto& [axis_name, text] : options.axis_values) {
    if (text.empty()) {
      continue;
    }
    for (std::string& value : split(text, ',')) {
      space.restrictions[axis_name].emplace_back(std::move(value));
    }
  }
  return space;
}

}  // namespace swr::cli
