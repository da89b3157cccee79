// SPDX-License-Identifier: MIT
#include "tuner/cli/tune_command.h"

#include "core/number_text.h"
#include "core/operation.h"
#include "core/reject.h"
#include "driver/devices.h"
#include "model/predictor.h"
#include "report/report.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/live_view.h"
#include "tuner/cli/report_sink.h"
#include "tuner/cli/team_tuning.h"
#include "tuner/cli/work_source.h"
#include "tuner/distribute/gpu_team.h"
#include "tuner/distribute/work_list.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/predict/predicting_evaluator.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/tuner.h"
#include <swr/error.h>
#include <swr/version.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <span>

namespace swr::cli {
namespace {

constexpr const char* kTuneFooter =
    R"(Axis options take comma-separated values and restrict the search to them; `swr-tune axes` explains them. Results go to stdout, progress and errors to stderr. With --op NAME the help has the options of that operation alone.

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
  const int minutes = has_minutes ? whole_number(text.substr(0, colon), option) : 0;
  const double total_s = minutes * kSecondsPerMinute + seconds;
  if (!(total_s > 0.0)) {
    reject(option + " must be above 0, not '" + text + "'");
  }
  return total_s;
}

void add_search_options(OptionList& options, TuneArguments& run) {
  const std::string group = "Search";
  options.add(
      "--strategy NAME", run.strategy,
      "exhaustive; random; model (best predicted first, corrected by what is measured); learned "
      "(by what is measured alone) [exhaustive; model with --budget, --time, --within or "
      "--missed, and for an absent GPU without axis options; learned in its place for kernels "
      "of users]",
      {.group = group});
  options.add("--budget N", run.budget,
              "Variants to try per problem at most [all; for model a tenth of the space]",
              {.group = group, .at_least = 1});
  options.add("--whole-budget", run.whole_budget,
              "Try so many also when a search by the model expects nothing of the rest",
              {.group = group});
  options.add("--time TIME", run.time, "Wall-clock limit per problem: seconds, or 5:00",
              {.group = group});
  options.add("--within TIME", run.within,
              "Wall-clock limit of the run: afterwards no problem is begun, and the one in hand "
              "is decided by what is known; the same command goes on",
              {.group = group});
  options.add("--force", run.force, "Measure anew what an earlier or interrupted run has measured",
              {.group = group});
}

void add_objective_options(OptionList& options, TuneArguments& run) {
  const std::string group = "Objective";
  add_objective_option(
      options, run.objective,
      "What the best variant has least of: time, energy, edp (energy times time), or an expression "
      "over metrics, e.g. 'energy_mj * time_us ** 2' (docs/energy.md) [time, or as a kernel's spec "
      "says]");
  options.add("--energy", run.measures_energy,
              "Measure energy too, of the variants that --energy-variants says; the objective "
              "stays",
              {.group = group});
  options.add("--energy-variants N", run.energy_variants,
              "Of how many variants to measure energy, a second for each of 3 to 6 runs",
              {.group = group, .shows_usual = true, .at_least = 1});
}

void add_measuring_options(OptionList& options, TuneArguments& run, CLI::Option* gpus) {
  const std::string group = "Measuring";
  options.add("--samples N", run.samples,
              "Most samples per variant; fewer if the median is known earlier",
              {.group = group, .shows_usual = true, .at_least = 1});
  add_l2_option(options,
                "L2 when a timed launch begins: warm (what the launch before left) or cold");
  options.add("--repeat N", run.repeat, "Tune N times and report whether the choices agree",
              {.group = group, .shows_usual = true, .at_least = 1});
  options.add("--against", run.against,
              "Time another library's call beside the best: torch, or cublaslt for matrix "
              "products, through the PyTorch of SWR_PYTHON or python3",
              {.group = group, .words = {"torch", "cublaslt"}});
  options.add("--no-counters", run.no_counters, "Measure without hardware counters",
              {.group = group});
  options.add("--deadline S", run.deadline_s,
              "Seconds after which a variant counts as hung; 0 chooses by the problem",
              {.group = group, .shows_usual = true, .at_least = 0});
  options.add("--no-isolation", run.no_isolation,
              "Measure in this process; a variant that faults then ends the run",
              {.group = group, .excludes = gpus});
}

/// Everything that says what is measured, where and how excludes a replay: the file says it.
void add_replay_option(OptionList& options, TuneArguments& run) {
  CLI::Option* const replay =
      options.add("--replay FILE...", run.replay,
                  "Search the recorded spaces of databases or of files of swr-tune db record "
                  "(.spaces) instead of a GPU; stored only in a database named by --db, which "
                  "then holds nothing else",
                  {.group = "Files", .role = FileRole::input});
  options.exclude_all_but(
      replay, {"--help", "--strategy", "--budget", "--whole-budget", "--time", "--seed", "--csv",
               "--events", "--top", "--json", "--quiet", "--jobs", "--db", "--shard", "--queue",
               "--lease", "--watch", "--port"});
}

/// Lists of problems that others made.
void add_list_options(OptionList& options, TuneArguments& run) {
  CLI::Option* const work =
      options.add("--work FILE", run.work, "Tune the problems of a file that swr-tune plan wrote",
                  {.group = "Problem", .role = FileRole::input});
  options.add("--missed", run.missed,
              "Tune the problems that programs asked for and no measurement answered, the most "
              "frequent first (docs/runtime.md)",
              {.group = "Problem", .excludes = work});
}

void add_worker_options(OptionList& options, TuneArguments& run, CLI::Option* gpus) {
  const std::string group = "Workers";
  options.add("--shard I/N", run.shard,
              "Do the I-th of N shares of the problems, counted from 0, with a database of its "
              "own; auto: as Slurm, mpirun or PMI say [auto where they do]",
              {.group = group});
  CLI::Option* const queue =
      options.add("--queue DIR", run.queue,
                  "Take problems one by one from a directory shared with other workers of the "
                  "same list; each has a database of its own",
                  {.group = group, .role = FileRole::queue, .excludes = gpus});
  options.add("--lease S", run.lease_s,
              "Seconds without a sign of life after which another worker takes a worker's problem",
              {.group = group, .shows_usual = true, .at_least = 1, .needs = queue});
}

/// What a limit leaves out should be what promises least, and what a program waits for is wanted
/// soon. Of a whole space the same model judges before and after compiling: only what it ranks
/// first can win. Whoever names axes wants to see each of them.
StrategyKind usual_strategy(const TuneSession& session, Provenance provenance) {
  const TuneArguments& options = session.options;
  const bool is_limited = options.budget || !options.time.empty() || !options.within.empty();
  const bool leaves_out = provenance == Provenance::predicted && !options.space.names_axes();
  if (!is_limited && !options.missed && !leaves_out) {
    return StrategyKind::exhaustive;
  }
  // There is no model of kernels of users.
  return session.kernels.empty() ? StrategyKind::model : StrategyKind::learned;
}

std::unique_ptr<Evaluator> make_evaluator(const TuneSession& session, const GpuChoice& gpu,
                                          const Generator& generator) {
  if (gpu.profile) {
    return std::make_unique<PredictingEvaluator>(*gpu.profile, thread_count(session.options.jobs));
  }
  return make_measuring_evaluator(session, gpu, generator);
}

/// --objective, --energy and --energy-variants. Throws: Error{invalid_argument} naming what is
/// wrong.
ObjectiveOptions objective_options(const TuneArguments& options) {
  const std::string& text = options.objective;
  return {.objective = Objective(text.empty() ? std::string(kTimeObjective) : text),
          .measures_energy = options.measures_energy,
          .most_measured = options.energy_variants,
          .seed = options.seed};
}

/// What a result depends on beside problem, device, versions and L2 state.
std::string conditions(const TuneArguments& options) {
  return "samples=" + std::to_string(options.samples) +
         " counters=" + (options.no_counters ? "off" : "on") +
         " seed=" + std::to_string(options.seed) +
         " deadline_s=" + std::to_string(options.deadline_s);
}

RunInfo run_info(const TuneSession& session, const GpuChoice& gpu, const Generator& generator) {
  const bool measured = gpu.provenance() == Provenance::measured;
  const SearchOptions search = search_options(session, gpu.provenance());
  return {.command = session.command_line,
          .swr_version = SWR_VERSION,
          .templates_digest = generator.templates_digest(),
          .overlay_digest = overlay_digest(generator_options(session)),
          .nvrtc_version = generator.nvrtc_version(),
          .driver_version = measured ? driver_version() : "",
          .l2_state = measured ? std::string(to_string(session.common.l2_state)) : "",
          .objective = objective_options(session.options).objective.text(),
          .seed = session.options.seed,
          .strategy = std::string(to_string(search.strategy)),
          .max_variants = session.options.budget,
          .max_s = search.max_s,
          .conditions = measured ? conditions(session.options) : "",
          .starts_over = session.options.force || session.options.repeat > 1};
}

/// What to do with what was found.
std::string next_steps(const TuneSession& session, const TuneReport& report) {
  const std::string database = database_path(session).string();
  if (report.results.empty()) {
    return "stored: nothing; kernels that were compiled stay in the cache\n";
  }
  const std::string db =
      (session.common.database ? " --db " + database : "") +
      (session.common.l2_state == L2State::cold ? " --l2 cold" : "") +
      (session.common.templates ? " --templates " + session.common.templates->string() : "") +
      (report.choice.ranked.empty() ? "" : " --objective '" + report.objective + "'");
  const std::string stored =
      "stored: " + std::to_string(report.results.size()) + " rows in " + database + "\n";
  if (report.best() == nullptr) {
    return stored;
  }
  const std::string query =
      "swr-tune query --gpu " + session.options.gpu + problem_arguments(report.problem) + db + "\n";
  return session.options.verbose
             ? stored + "use it: " + query + "ship it: swr-tune export --out DIR" + db + "\n"
             : "next: " + query;
}

/// A space in the order of the model's ranking, with its times; without a model as it is listed.
struct RankedSpace {
  SearchSpace space;
  std::vector<double> times_us;  ///< Of the variants; empty without a model.
};

RankedSpace ranked_space(const Problem& problem, const GpuChoice& gpu, const SpaceOptions& options,
                         int threads) {
  RankedSpace ranked{require_variants(problem, gpu.device, options), {}};
  if (problem.operation().model() == nullptr) {
    return ranked;
  }
  const std::vector<Variant> listed = ranked.space.variants;
  const auto times = model_predictor(problem, gpu.device, thread_count(threads))(listed);
  const std::vector<double>& times_us = times->all_us();
  ranked.space.variants.clear();
  for (const std::size_t place : shortlist(listed, times_us)) {
    ranked.space.variants.push_back(listed[place]);
    ranked.times_us.push_back(times_us[place]);
  }
  return ranked;
}

void print_plan(std::ostream& out, const Problem& problem, const GpuChoice& gpu,
                const RankedSpace& ranked) {
  const auto& [space, times_us] = ranked;
  const bool is_predicted = gpu.profile && !times_us.empty();
  out << to_string(problem) << " on " << describe(gpu.device) << ", would be "
      << to_string(is_predicted ? Provenance::predicted : Provenance::measured) << ": "
      << space.variants.size() << " variants of " << group_by_kernel(space.variants).size()
      << " kernels, " << space.dropped.size() << " dropped"
      << (times_us.empty() ? "" : "; ranked by the model, nothing compiled") << "\n";
  for (std::size_t i = 0; i < space.variants.size(); ++i) {
    out << "run   " << to_key(space.variants[i])
        << (times_us.empty() ? "" : "  " + time_text(times_us[i])) << "\n";
  }
  for (const DroppedVariant& dropped : space.dropped) {
    out << "drop  " << to_key(dropped.variant) << "  " << dropped.constraint << ": "
        << dropped.reason << "\n";
  }
}

Json plan_json(const Problem& problem, const RankedSpace& ranked) {
  Json plan = Json::object();
  plan["problem"] = problem;
  plan["variants"] = Json::array();
  for (const Variant& variant : ranked.space.variants) {
    plan["variants"].push_back(to_key(variant));
  }
  plan["predicted_us"] = Json::array();
  for (const double time_us : ranked.times_us) {
    plan["predicted_us"].push_back(std::isfinite(time_us) ? Json(time_us) : Json());
  }
  plan["dropped"] = Json::array();
  for (const DroppedVariant& dropped : ranked.space.dropped) {
    plan["dropped"].push_back({{"variant", to_key(dropped.variant)},
                               {"constraint", dropped.constraint},
                               {"reason", dropped.reason}});
  }
  return plan;
}

int dry_run(const TuneSession& session, const GpuChoice& gpu, const std::vector<Problem>& wanted,
            const SpaceOptions& space_options) {
  auto json = document(session, gpu.provenance(), gpu.device);
  json["plans"] = Json::array();
  for (const Problem& problem : wanted) {
    const RankedSpace ranked = ranked_space(problem, gpu, space_options, session.options.jobs);
    if (session.common.json) {
      json["plans"].push_back(plan_json(problem, ranked));
    } else {
      print_plan(session.out, problem, gpu, ranked);
    }
  }
  if (session.common.json) {
    session.out << json_document(json);
  }
  return kExitSuccess;
}

std::vector<std::string> identities_of(const std::vector<Problem>& problems) {
  std::vector<std::string> identities;
  for (const Problem& problem : problems) {
    identities.push_back(to_string(problem));
  }
  return identities;
}

std::vector<Problem> chosen(const std::vector<Problem>& all,
                            const std::vector<std::size_t>& places) {
  std::vector<Problem> problems;
  for (const std::size_t place : places) {
    problems.push_back(all[place]);
  }
  return problems;
}

/// What a search of the whole space takes on an H200, roughly: only the order matters.
double search_seconds(const Problem& problem, std::size_t variants) {
  constexpr double kVariantS = 0.01;  // Loading, verifying, counting.
  constexpr double kLaunches = 30.0;
  constexpr double kFlopPerS = 3e14;
  return static_cast<double>(variants) * (kVariantS + kLaunches * flop_count(problem) / kFlopPerS);
}

/// What takes longest comes first, so that all GPUs end at about the same time. `seconds` belong to
/// the places.
std::vector<std::size_t> longest_first(const std::vector<std::size_t>& places,
                                       const std::vector<double>& seconds) {
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return seconds[i]; });
  std::ranges::transform(order, order.begin(), [&](std::size_t i) { return places[i]; });
  return order;
}

/// The GPUs to tune on: those of --gpus, as far as there are problems, else the one of --gpu.
std::vector<GpuChoice> gpus_of(const TuneSession& session, std::size_t problems) {
  const TuneArguments& options = session.options;
  std::vector<GpuChoice> gpus =
      options.gpus.empty() ? std::vector{choose_gpu(options.gpu)} : choose_gpus(options.gpus);
  if (gpus.size() > problems) {
    session.err << "swr-tune: note: " + std::to_string(gpus.size()) + " GPUs for " +
                       std::to_string(problems) +
                       " problems: a problem is not divided, so the last GPUs stay idle\n"
                << std::flush;
    gpus.resize(problems);
  }
  return gpus;
}

std::vector<int> numbers_of(const std::vector<GpuChoice>& gpus) {
  std::vector<int> numbers;
  for (const GpuChoice& gpu : gpus) {
    numbers.push_back(gpu.ordinal);
  }
  return numbers;
}

/// A prediction of nothing that the model walks is refused before kernels are compiled for it.
void require_predictable(const Problem& problem, const SearchSpace& space,
                         const GpuProfile& profile) {
  const auto model = make_predictor(problem.operation(), profile);
  std::optional<std::string> reason;
  for (const Variant& variant : space.variants) {
    reason = model == nullptr ? std::nullopt : model->beyond_limits(problem, variant, 1);
    if (!reason) {
      return;
    }
  }
  if (reason) {
    reject(*reason);
  }
}

SearchSpace require_tunable(const Problem& problem, const GpuChoice& gpu,
                            const SpaceOptions& options) {
  SearchSpace space = require_variants(problem, gpu.device, options);
  if (gpu.profile) {
    require_predictable(problem, space, *gpu.profile);
  }
  return space;
}

/// Programs ask for what they like: a question that cannot be tuned must not keep others from it,
/// and it is no fault of the run that finds it.
std::vector<Problem> tunable(const TuneSession& session, std::vector<Problem> missed) {
  if (missed.empty()) {
    return missed;
  }
  const GpuChoice gpu = first_gpu(session);
  std::erase_if(missed, [&](const Problem& problem) {
    try {
      require_tunable(problem, gpu, space_options(session.options.space));
      return false;
    } catch (const Error& error) {
      session.err << "swr-tune: note: " + to_string(problem) + " is left out: " + error.what() +
                         "\n"
                  << std::flush;
      return true;
    }
  });
  return missed;
}

/// A list says every problem, so what says one beside it would be ignored.
std::vector<Problem> problems_of(const TuneSession& session) {
  const TuneArguments& options = session.options;
  if (!options.missed && !options.work) {
    return problems(options.problem);
  }
  const ProblemText& text = options.problem;
  if (text.names_op || !text.given.empty()) {
    const std::string list = options.missed ? "--missed" : "--work";
    const std::string other = text.names_op ? "op" : text.given.begin()->first;
    reject(list + " excludes --" + other + ": the list says every problem; leave --" + other +
           " out");
  }
  return options.missed ? tunable(session, missed_problems(session))
                        : read_work_list(*options.work);
}

/// The problems of the command, and the places of those that are this process's.
struct TuningWork {
  const std::vector<Problem>& all;
  const std::vector<std::size_t>& places;
  const std::vector<double>& seconds;  ///< That each of `places` takes, roughly.
  RangeSearch* range = nullptr;        ///< Chooses among the places, where a range is asked for.
};

/// Compilations cannot be broken off, and nobody waits for those in hand: what they use must not go
/// away under them, so the process ends here. All that was found is stored and printed.
[[noreturn]] void end_process(const TuneSession& session) {
  const bool is_written = static_cast<bool>(session.out.flush());
  session.err.flush();
  std::_Exit(is_written ? kExitInterrupted : kExitFailure);
}

/// Returns the exit code. Requires: the GPUs are equal; at least one.
int tune_on(const std::vector<GpuChoice>& gpus, const TuneSession& asked, const ShardChoice& worker,
            const TuningWork& wanted, TuneOptions tune_options) {
  const GpuChoice& gpu = gpus.front();
  // First of all, so that every thread started from here on leaves SIGINT to it.
  const InterruptListener interrupt([&asked] { acknowledge_interrupt(asked); });
  WatchedRun watched(asked);
  const TuneSession& session = watched.session();
  const TuneArguments& options = session.options;
  tune_options.stop_requested = [&interrupt] { return interrupt.interrupted(); };
  tune_options.abandons_compilations = true;
  // Passes of their own take half a second a problem, and longer beside other GPUs.
  tune_options.count_accesses = wanted.places.size() == 1 && options.repeat == 1;
  const bool are_side_by_side = gpus.size() > 1;
  const bool is_list = wanted.range == nullptr;
  WorkSource work(session, worker, identities_of(wanted.all),
                  are_side_by_side ? longest_first(wanted.places, wanted.seconds)
                  : is_list        ? wanted.places
                                   : std::vector<std::size_t>());
  const Generator generator(supervised_generator_options(session, !options.no_isolation));
  Json head = document(session, tune_options.provenance, gpu.device);
  head["database"] = database_path(session).string();
  ReportSink sink(session, std::move(head));
  const std::vector<int> numbers = numbers_of(gpus);
  const auto is_over = [&] {
    return tune_options.stop_requested() ||
           (tune_options.search_until &&
            std::chrono::steady_clock::now() >= *tune_options.search_until);
  };
  const auto next = [&] {
    return is_list ? work.next(is_over) : is_over() ? std::nullopt : wanted.range->next();
  };
  ProgressSinks progress(session, options.gpus.empty() ? std::span<const int>{} : numbers,
                         wanted.places.size() * static_cast<std::size_t>(options.repeat));
  ReportOrder reports(
      sink, progress, [&session](const TuneReport& report) { return next_steps(session, report); },
      are_side_by_side ? wanted.places : std::vector<std::size_t>{});
  const auto start = [&](const GpuChoice& chosen_gpu) {
    return make_evaluator(session, chosen_gpu, generator);
  };
  TeamTuning tuning(
      {start, session, generator, interrupt, wanted.all, work, reports, progress, wanted.range},
      gpus, tune_options, run_info(session, gpu, generator));
  try {
    run_team(numbers, next, tuning);
  } catch (...) {
    reports.finish();  // What is done is reported all the same.
    throw;
  }
  const bool is_done = is_list ? work.left() == 0 : !wanted.range->next();
  if (is_done) {
    tuning.finish();
  }
  reports.finish();
  if (!is_list) {
    sink.add(*wanted.range);
  }
  if (!options.gpus.empty()) {
    sink.add(tuning.histories());
  }
  sink.finish();
  progress.finish();
  if (!is_done && !interrupt.interrupted()) {
    const std::string what = is_list
                                 ? std::to_string(work.left()) + " of " +
                                       std::to_string(wanted.places.size()) + " problems were begun"
                                 : std::string("every part of the range was settled");
    session.err << "swr-tune: note: the time was over before " + what +
                       "; the same command goes on\n"
                << std::flush;
  }
  if (interrupt.interrupted()) {
    watched.end();
    work.give_back();
    end_process(session);
  }
  if (!tuning.every_problem_solved()) {
    throw Error(ErrorCode::compile_failed,
                "no variant succeeded; the report above and the database say why for each");
  }
  return kExitSuccess;
}

/// What is beside time needs a GPU: a prediction has no energy and no counters.
void require_measurable(const TuneOptions& options, int repeat) {
  if (!options.objective.objective.is_time() && repeat != 1) {
    reject(
        "--repeat says how much slower choices are than each other, so it goes with "
        "--objective time alone");
  }
  const bool is_beside_time =
      !options.objective.objective.is_time() || options.objective.wants_energy();
  if (is_beside_time && options.provenance != Provenance::measured) {
    reject(
        "only a GPU that is present is tuned for energy or by an objective: leave out "
        "--gpu, --objective and --energy");
  }
}

/// Before anything is tuned.
void require_comparable(const TuneSession& session, const GpuChoice& gpu,
                        const std::vector<Problem>& problems) {
  if (session.options.against.empty()) {
    return;
  }
  if (gpu.provenance() != Provenance::measured) {
    reject("--against times a call on the GPU itself, and " + gpu.device.name +
           " is not here: leave out --gpu, or --against");
  }
  require_peer(peer_choice(session, gpu), problems);
}

/// A search of a range learns from each length what to tune next, in one process on one GPU.
void require_one_range(const TuneArguments& options, const std::vector<int>& lengths,
                       const std::vector<Problem>& wanted, const std::vector<Problem>& all) {
  std::string why;
  if (all.size() != lengths.size()) {
    why = "the other options take one value each beside it";
  } else if (!options.gpus.empty() || options.queue || wanted.size() != all.size()) {
    why = "it is searched by one process on one GPU";
  } else if (options.repeat != 1) {
    why = "--repeat is for single problems";
  }
  if (!why.empty()) {
    reject("a range of lengths cannot be tuned so: " + why);
  }
}

/// So that a run with a limit sees some dozens of lengths.
void limit_each_length(SearchOptions& search, const std::optional<double>& limit_s) {
  constexpr double kLengths = 30.0;
  if (limit_s && !search.max_s && !search.max_variants) {
    search.max_s = *limit_s / kLengths;
  }
}

}  // namespace

SearchOptions search_options(const TuneSession& session, Provenance provenance) {
  const TuneArguments& options = session.options;
  SearchOptions search{.strategy = options.strategy.empty() ? usual_strategy(session, provenance)
                                                            : parse_strategy(options.strategy),
                       .max_variants = std::nullopt,
                       .max_s = std::nullopt,
                       .seed = options.seed,
                       .spends_all = options.whole_budget};
  if (options.budget) {
    search.max_variants = static_cast<std::size_t>(*options.budget);
  }
  if (!options.time.empty()) {
    search.max_s = parse_seconds("--time", options.time);
  }
  return search;
}

// Each of several GPUs needs a process of its own and is one that is present.
CLI::Option* add_gpus_options(OptionList& options, TuneArguments& run) {
  CLI::Option* const gpu = add_gpu_option(options, run.gpu);
  return options.add("--gpus LIST", run.gpus,
                     "Several equal GPUs of this machine at once, each with a problem of its own: "
                     "all, or numbers as in 0,1",
                     {.excludes = gpu});
}

void add_run_options(OptionList& options, TuneArguments& run, CLI::Option* gpus) {
  add_database_option(options);
  add_generator_options(options);
  options.add("--csv FILE", run.csv, "Write every row to a CSV file",
              {.group = "Output", .role = FileRole::output});
  options.add("--events FILE", run.events,
              "Write what happens to a file as it happens, one JSON object per line",
              {.group = "Output", .role = FileRole::output});
  options.add("--watch", run.watch,
              "Show the run as a page on this machine while it goes on (see swr-tune watch)",
              {.group = "Live view"});
  add_port_option(options, run.port);
  options.add("--top N", run.top, "Rows of the printed table",
              {.group = "Output", .shows_usual = true, .at_least = 1});
  add_json_option(options);
  add_quiet_option(options);
  options.add("--verbose", run.verbose,
              "Say more than the best: its key, ties, finals, orders, what failed or was dropped, "
              "where the time went",
              {.group = "Output"});
  options.add("--dry-run", run.dry_run,
              "List what would run, as the model ranks it without compiling, and what is dropped, "
              "and why");
  options.add("--jobs N", run.jobs,
              "Threads that compile, and as many that predict; 0 is one per processor",
              {.shows_usual = true, .at_least = 0});
  add_objective_options(options, run);
  add_measuring_options(options, run, gpus);
  options.add("--seed", run.seed, "Seed of the random inputs and of --strategy random",
              {.shows_usual = true});
  add_search_options(options, run);
  add_worker_options(options, run, gpus);
}

void add_tune(CommandLine& line) {
  auto [options, run] = line.add<TuneArguments>(
      {.name = "tune",
       .meaning = "Tune one shape or several (the default)",
       .footer = tune_footer(),
       .group = "Tune"},
      [](const Session& session, const TuneArguments& asked) {
        return run_tune({session, asked});
      },
      [](const Session& session, const TuneArguments& asked) {
        return run_measure_worker({session, asked});
      });
  add_problem_options(options, run.problem, "a list is one problem each");
  add_list_options(options, run);
  CLI::Option* const gpus = add_gpus_options(options, run);
  add_axis_options(options, run.space);
  add_run_options(options, run, gpus);
  add_replay_option(options, run);
}

int run_tune(const TuneSession& asked) {
  constexpr double kLongestRunS = 1e8;  // What a clock holds, and longer than any run.
  const auto began = std::chrono::steady_clock::now();
  const std::optional<double> limit_s =
      asked.options.within.empty() ? std::nullopt
                                   : std::optional(parse_seconds("--within", asked.options.within));
  if (!asked.options.replay.empty()) {
    return run_replay(asked);
  }
  const bool is_listed = asked.options.missed || asked.options.work.has_value();
  const std::vector<int> lengths =
      is_listed ? std::vector<int>() : asked_range(asked.options.problem);
  const ShardChoice worker = choose_shard(asked.options.shard, asked.environment);
  const std::vector<Problem> all = problems_of(asked);
  if (all.empty()) {
    asked.err << "swr-tune: note: no question was missed that can be tuned\n" << std::flush;
    return kExitSuccess;
  }
  const auto places = places_of(asked, worker, identities_of(all));
  const std::vector<Problem> wanted = chosen(all, places);
  const TuneSession session = as_worker(asked, worker, wanted.size(), all.size());
  const TuneArguments& options = session.options;
  if (wanted.empty()) {
    return kExitSuccess;
  }
  const std::vector<GpuChoice> gpus = gpus_of(session, wanted.size());
  const GpuChoice& gpu = gpus.front();  // The others are equal.
  TuneOptions tune_options{.space = space_options(options.space),
                           .search = search_options(session, gpu.provenance()),
                           .compile_threads = options.jobs,
                           .provenance = gpu.provenance(),
                           .setting = setting(session),
                           .objective = objective_options(options)};
  require_measurable(tune_options, options.repeat);
  require_comparable(session, gpu, wanted);
  if (options.dry_run) {
    return dry_run(session, gpu, wanted, tune_options.space);
  }
  std::optional<RangeSearch> range;
  if (!lengths.empty()) {
    require_one_range(options, lengths, wanted, all);
    range.emplace(all, lengths, gpu.device);
    limit_each_length(tune_options.search, limit_s);
  }
  std::vector<double> seconds;
  for (const Problem& problem : wanted) {
    // Wrong values surface before the first problem is tuned, not after.
    const SearchSpace space = require_tunable(problem, gpu, tune_options.space);
    seconds.push_back(search_seconds(problem, space.variants.size()));
  }
  if (limit_s) {
    tune_options.search_until =
        began + std::chrono::round<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(std::min(*limit_s, kLongestRunS)));
  }
  const TuningWork work{all, places, seconds, range ? &*range : nullptr};
  const int code = tune_on(gpus, session, worker, work, std::move(tune_options));
  if (options.missed) {
    forget_answered(session, gpu);
  }
  return code;
}

}  // namespace swr::cli
