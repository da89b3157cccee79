// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "driver/devices.h"
#include "model/predictor.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/live_view.h"
#include "tuner/cli/measuring.h"
#include "tuner/cli/missed_problems.h"
#include "tuner/cli/report_order.h"
#include "tuner/cli/report_sink.h"
#include "tuner/cli/shard_choice.h"
#include "tuner/cli/team_tuning.h"
#include "tuner/cli/work_source.h"
#include "tuner/distribute/gpu_team.h"
#include "tuner/distribute/work_list.h"
#include "tuner/predict/predicting_evaluator.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/tuner.h"
#include <swr/error.h>
#include <swr/version.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <span>

namespace swr::cli {
namespace {

std::unique_ptr<Evaluator> make_evaluator(const Session& session, const GpuChoice& gpu,
                                          const Generator& generator) {
  if (gpu.profile) {
    return std::make_unique<PredictingEvaluator>(*gpu.profile, thread_count(session.options.jobs));
  }
  return make_measuring_evaluator(session, gpu, generator);
}

/// What a result depends on beside problem, device, versions and L2 state.
std::string conditions(const Options& options) {
  return "samples=" + std::to_string(options.samples) +
         " counters=" + (options.no_counters ? "off" : "on") +
         " seed=" + std::to_string(options.seed) +
         " deadline_s=" + std::to_string(options.deadline_s);
}

RunInfo run_info(const Session& session, const GpuChoice& gpu, const Generator& generator) {
  const bool measured = gpu.provenance() == Provenance::measured;
  const SearchOptions search = search_options(session.options, gpu.provenance());
  return {.command = session.command_line,
          .swr_version = SWR_VERSION,
          .templates_digest = generator.templates_digest(),
          .overlay_digest = overlay_digest(generator_options(session)),
          .nvrtc_version = generator.nvrtc_version(),
          .driver_version = measured ? driver_version() : "",
          .l2_state = measured ? std::string(to_string(session.options.l2_state)) : "",
          .objective = objective_options(session.options).objective.text(),
          .seed = session.options.seed,
          .strategy = std::string(to_string(search.strategy)),
          .max_variants = session.options.budget,
          .max_s = search.max_s,
          .conditions = measured ? conditions(session.options) : "",
          .starts_over = session.options.force || session.options.repeat > 1};
}

/// What to do with what was found.
std::string next_steps(const Session& session, const TuneReport& report) {
  const std::string database = database_path(session).string();
  if (report.results.empty()) {
    return "stored: nothing; kernels that were compiled stay in the cache\n";
  }
  const std::string db =
      (session.options.database ? " --db " + database : "") +
      (session.options.l2_state == L2State::cold ? " --l2 cold" : "") +
      (session.options.templates ? " --templates " + session.options.templates->string() : "") +
      (report.choice.ranked.empty() ? "" : " --objective '" + report.objective + "'");
  const std::string stored =
      "stored: " + std::to_string(report.results.size()) + " rows in " + database + "\n";
  if (report.best() == nullptr) {
    return stored;
  }
  return stored + "use it: swr-tune query " + "--gpu " + session.options.gpu +
         problem_arguments(report.problem) + db + "\nship it: swr-tune export --out DIR" + db +
         "\n";
}

void print_plan(std::ostream& out, const Problem& problem, const GpuChoice& gpu,
                const SearchSpace& space) {
  out << to_string(problem) << " on " << describe(gpu.device) << ", would be "
      << to_string(gpu.provenance()) << ": " << space.variants.size() << " variants of "
      << group_by_kernel(space.variants).size() << " kernels, " << space.dropped.size()
      << " dropped\n";
  for (const Variant& variant : space.variants) {
    out << "run   " << to_key(variant) << "\n";
  }
  for (const DroppedVariant& dropped : space.dropped) {
    out << "drop  " << to_key(dropped.variant) << "  " << dropped.constraint << ": "
        << dropped.reason << "\n";
  }
}

Json plan_json(const Problem& problem, const SearchSpace& space) {
  Json plan = Json::object();
  plan["problem"] = problem;
  plan["variants"] = Json::array();
  for (const Variant& variant : space.variants) {
    plan["variants"].push_back(to_key(variant));
  }
  plan["dropped"] = Json::array();
  for (const DroppedVariant& dropped : space.dropped) {
    plan["dropped"].push_back({{"variant", to_key(dropped.variant)},
                               {"constraint", dropped.constraint},
                               {"reason", dropped.reason}});
  }
  return plan;
}

int dry_run(const Session& session, const GpuChoice& gpu, const std::vector<Problem>& wanted,
            const SpaceOptions& space_options) {
  auto json = document(session, gpu.provenance(), gpu.device);
  json["plans"] = Json::array();
  for (const Problem& problem : wanted) {
    const SearchSpace space = require_variants(problem, gpu.device, space_options);
    if (session.options.json) {
      json["plans"].push_back(plan_json(problem, space));
    } else {
      print_plan(session.out, problem, gpu, space);
    }
  }
  if (session.options.json) {
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
std::vector<GpuChoice> gpus_of(const Session& session, std::size_t problems) {
  const Options& options = session.options;
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
  const auto model = problem.operation().make_predictor(profile);
  std::optional<std::string> reason;
  for (const Variant& variant : space.variants) {
    reason = model == nullptr ? std::nullopt : model->beyond_limits(problem, variant, 1);
    if (!reason) {
      return;
    }
  }
  if (reason) {
    throw Error(ErrorCode::invalid_argument, *reason);
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
std::vector<Problem> tunable(const Session& session, std::vector<Problem> missed) {
  if (missed.empty()) {
    return missed;
  }
  const GpuChoice gpu = first_gpu(session);
  std::erase_if(missed, [&](const Problem& problem) {
    try {
      require_tunable(problem, gpu, space_options(session.options));
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

/// The problems of the command, and the places of those that are this process's.
struct TuningWork {
  const std::vector<Problem>& all;
  const std::vector<std::size_t>& places;
  const std::vector<double>& seconds;  ///< That each of `places` takes, roughly.
  RangeSearch* range = nullptr;        ///< Chooses among the places, where a range is asked for.
};

/// Compilations cannot be broken off, and nobody waits for those in hand: what they use must not go
/// away under them, so the process ends here. All that was found is stored and printed.
[[noreturn]] void end_process(const Session& session) {
  const bool is_written = static_cast<bool>(session.out.flush());
  session.err.flush();
  std::_Exit(is_written ? kExitInterrupted : kExitFailure);
}

/// Returns the exit code. Requires: the GPUs are equal; at least one.
int tune_on(const std::vector<GpuChoice>& gpus, const Session& asked, const ShardChoice& worker,
            const TuningWork& wanted, TuneOptions tune_options) {
  const GpuChoice& gpu = gpus.front();
  // First of all, so that every thread started from here on leaves SIGINT to it.
  const InterruptListener interrupt([&asked] { acknowledge_interrupt(asked); });
  WatchedRun watched(asked);
  const Session& session = watched.session();
  const Options& options = session.options;
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
  const Generator generator(supervised_generator_options(session));
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
    throw Error(ErrorCode::invalid_argument,
                "--repeat says how much slower choices are than each other, so it goes with "
                "--objective time alone");
  }
  const bool is_beside_time =
      !options.objective.objective.is_time() || options.objective.wants_energy();
  if (is_beside_time && options.provenance != Provenance::measured) {
    throw Error(ErrorCode::invalid_argument,
                "only a GPU that is present is tuned for energy or by an objective: leave out "
                "--gpu, --objective and --energy");
  }
}

/// A search of a range learns from each length what to tune next, in one process on one GPU.
void require_one_range(const Options& options, const std::vector<int>& lengths,
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
    throw Error(ErrorCode::invalid_argument, "a range of lengths cannot be tuned so: " + why);
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

int run_tune(const Session& asked) {
  constexpr double kLongestRunS = 1e8;  // What a clock holds, and longer than any run.
  const auto began = std::chrono::steady_clock::now();
  const std::optional<double> limit_s = run_limit_s(asked.options);
  if (!asked.options.tune_replay.empty()) {
    return run_replay(asked);
  }
  const bool is_listed = asked.options.missed || asked.options.work.has_value();
  const std::vector<int> lengths =
      is_listed ? std::vector<int>() : asked_range(asked.options.problem);
  const ShardChoice worker = choose_shard(asked.options.shard, asked.environment);
  const std::vector<Problem> all = asked.options.missed ? tunable(asked, missed_problems(asked))
                                   : asked.options.work ? read_work_list(*asked.options.work)
                                                        : problems(asked.options.problem);
  if (all.empty()) {
    asked.err << "swr-tune: note: no question was missed that can be tuned\n" << std::flush;
    return kExitSuccess;
  }
  const auto places = places_of(asked, worker, identities_of(all));
  const std::vector<Problem> wanted = chosen(all, places);
  const Session session = as_worker(asked, worker, wanted.size(), all.size());
  const Options& options = session.options;
  if (wanted.empty()) {
    return kExitSuccess;
  }
  const std::vector<GpuChoice> gpus = gpus_of(session, wanted.size());
  const GpuChoice& gpu = gpus.front();  // The others are equal.
  TuneOptions tune_options{.space = space_options(options),
                           .search = search_options(options, gpu.provenance()),
                           .compile_threads = options.jobs,
                           .provenance = gpu.provenance(),
                           .objective = objective_options(options)};
  require_measurable(tune_options, options.repeat);
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
