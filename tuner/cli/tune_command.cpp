// SPDX-License-Identifier: MIT
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/measuring.h"
#include "tuner/cli/report_sink.h"
#include "tuner/cli/shard_choice.h"
#include "tuner/cli/work_source.h"
#include "tuner/driver/devices.h"
#include "tuner/model/predicting_evaluator.h"
#include "tuner/repeatability.h"
#include "tuner/report.h"
#include "tuner/tuner.h"
#include "tuner/work_list.h"
#include <swr/error.h>
#include <swr/version.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <ostream>

namespace swr::cli {
namespace {

std::unique_ptr<Evaluator> make_evaluator(const Session& session, const GpuChoice& gpu,
                                          const Generator& generator) {
  if (gpu.profile) {
    return std::make_unique<PredictingEvaluator>(*gpu.profile);
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
  return {.command = session.command_line,
          .swr_version = SWR_VERSION,
          .templates_digest = generator.templates_digest(),
          .overlay_digest = overlay_digest(generator_options(session)),
          .nvrtc_version = generator.nvrtc_version(),
          .driver_version = measured ? driver_version() : "",
          .l2_state = measured ? std::string(to_string(session.options.l2_state)) : "",
          .seed = session.options.seed,
          .strategy = session.options.strategy,
          .max_variants = session.options.budget,
          .max_s = search_options(session.options).max_s,
          .conditions = measured ? conditions(session.options) : "",
          .starts_over = session.options.force || session.options.repeat > 1};
}

/// Adds options that differ from what they are without being named.
class Arguments {
 public:
  explicit Arguments(std::string text) : text_(std::move(text)) {}

  void add(const char* option, int value) { add(option, std::to_string(value)); }
  void add(const char* option, int value, int usual) {
    if (value != usual) {
      add(option, value);
    }
  }
  void add(const char* option, std::string_view value) {
    text_ += std::string(" ") + option + " " + std::string(value);
  }
  void add_flag(const char* option, bool value) { text_ += value ? std::string(" ") + option : ""; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_problem(Arguments& arguments, const AttentionProblem& problem) {
  const AttentionProblem usual;
  arguments.add("--seq", problem.seq_q);
  arguments.add("--seq-kv", problem.seq_kv, problem.seq_q);
  arguments.add("--batch", problem.batch, usual.batch);
  arguments.add("--heads", problem.heads_q, usual.heads_q);
  arguments.add("--kv-heads", problem.heads_kv, problem.heads_q);
  arguments.add("--head-dim", problem.head_dim, usual.head_dim);
  if (problem.dtype != usual.dtype) {
    arguments.add("--dtype", to_string(problem.dtype));
  }
  arguments.add_flag("--causal", problem.causal);
  arguments.add("--alignment", problem.alignment_bytes, usual.alignment_bytes);
}

void add_problem(Arguments& arguments, const GemmProblem& problem) {
  const GemmProblem usual;
  arguments.add("--op", "gemm");
  arguments.add("--m", problem.m);
  arguments.add("--n", problem.n);
  arguments.add("--k", problem.k);
  arguments.add("--batch", problem.batch, usual.batch);
  arguments.add("--dtype", to_string(problem.dtype));
  if (to_string(problem.output) != to_string(problem.dtype)) {
    arguments.add("--output", to_string(problem.output));
  }
  if (problem.layout != usual.layout) {
    arguments.add("--layout", to_string(problem.layout));
  }
  arguments.add_flag("--reads-c", problem.reads_c);
  arguments.add("--alignment", problem.alignment_bytes, usual.alignment_bytes);
}

/// The options that ask for the same problem again.
std::string problem_arguments(const Options& options, const Problem& problem) {
  Arguments arguments("--gpu " + options.gpu);
  std::visit([&](const auto& one) { add_problem(arguments, one); }, problem);
  return arguments.text();
}

/// What to do with what was found.
std::string next_steps(const Session& session, const TuneReport& report) {
  const std::string database = database_path(session).string();
  const std::string db =
      (session.options.database ? " --db " + database : "") +
      (session.options.l2_state == L2State::cold ? " --l2 cold" : "") +
      (session.options.templates ? " --templates " + session.options.templates->string() : "");
  return "stored: " + std::to_string(report.results.size()) + " rows in " + database +
         "\nuse it: swr-tune query " + problem_arguments(session.options, report.problem) + db +
         "\nship it: swr-tune export --out DIR" + db + "\n";
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

/// The database may lie in a directory that does not exist yet.
Store open_store(const std::filesystem::path& path) {
  std::error_code ignored_until_open;
  std::filesystem::create_directories(path.parent_path(), ignored_until_open);
  return Store(path, Store::Mode::read_write);
}

/// Tunes one problem as often as asked for, each time as a run of its own.
class RepeatedTuning {
 public:
  RepeatedTuning(const Session& session, Store& store, const RunInfo& info, ReportSink& sink)
      : session_(session), sink_(sink) {
    for (int i = 0; i < session.options.repeat; ++i) {
      run_ids_.push_back(store.begin_run(info));
    }
  }

  /// `tune_once` tunes as the given run; its number draws the order of the finals. Stops early
  /// after an interrupted or fruitless run. Choices that differ meet again. False when a run found
  /// nothing.
  template <typename TuneOnce>
  bool tune_all(TuneOnce&& tune_once, const MeetAgain& meet_again) {
    std::vector<TuneReport> runs;
    for (std::size_t i = 0; i < run_ids_.size(); ++i) {
      runs.push_back(tune_once(run_ids_[i], i));
      sink_.add(runs.back(), next_steps(session_, runs.back()));
      if (runs.back().interrupted || runs.back().best() == nullptr) {
        return runs.back().best() != nullptr;
      }
    }
    agreements_.push_back(compare_runs(runs, meet_again));
    return true;
  }

  /// Notes that the runs did all they were asked to.
  void finish(Store& store) const {
    for (const long long run_id : run_ids_) {
      store.finish_run(run_id);
    }
  }

  void report_agreement() const {
    if (run_ids_.size() > 1) {
      sink_.add(agreements_);
    }
  }

 private:
  const Session& session_;
  ReportSink& sink_;
  std::vector<long long> run_ids_;
  std::vector<Agreement> agreements_;
};

/// Lets choices of several runs meet in rounds of their own.
MeetAgain meet_again(const Problem& problem, Evaluator& evaluator, const Generator& generator,
                     unsigned long long seed) {
  return [&problem, &evaluator, &generator, seed](std::span<const Variant> choices) {
    constexpr int kRaces = 200;
    const KernelSource kernels = [&](const Variant& variant) {
      return generator.compile(problem, variant, evaluator.device().sm_arch);
    };
    return slowdowns_in_rounds(problem, evaluator, kernels, choices, kRaces, {.seed = seed});
  };
}

bool is_attention(const Problem& problem) { return op_of(problem) == Op::attention; }

/// Throws: Error{invalid_argument} for a problem that no model knows.
void require_modelled(const std::vector<Problem>& problems, const GpuChoice& gpu) {
  for (const Problem& problem : problems) {
    if (!is_attention(problem)) {
      throw Error(ErrorCode::invalid_argument,
                  "there is no model of " + std::string(to_string(op_of(problem))) + " yet, and " +
                      gpu.device.name + " is not here; tune it where that GPU is, with --gpu auto");
    }
  }
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

}  // namespace

int run_tune(const Session& asked) {
  if (!asked.options.tune_replay.empty()) {
    return run_replay(asked);
  }
  const ShardChoice worker = choose_shard(asked.options.shard, asked.environment);
  const std::vector<Problem> all =
      asked.options.work ? read_work_list(*asked.options.work) : problems(asked.options.problem);
  const auto places = places_of(asked, worker, identities_of(all));
  const std::vector<Problem> wanted = chosen(all, places);
  const Session session = as_worker(asked, worker, wanted.size(), all.size());
  const Options& options = session.options;
  if (wanted.empty()) {
    return kExitSuccess;
  }
  TuneOptions tune_options{.space = space_options(options),
                           .search = search_options(options),
                           .compile_threads = options.jobs};
  const GpuChoice gpu = choose_gpu(options.gpu);
  if (options.dry_run) {
    return dry_run(session, gpu, wanted, tune_options.space);
  }
  if (gpu.profile) {
    require_modelled(wanted, gpu);
  }
  for (const Problem& problem : wanted) {
    // Wrong values surface before the first problem is tuned, not after.
    require_variants(problem, gpu.device, tune_options.space);
  }
  // First of all, so that every thread started from here on leaves SIGINT to it.
  const InterruptListener interrupt;
  WorkSource work(session, worker, identities_of(all), places);
  Store store = open_store(database_path(session));
  const Generator generator(generator_options(session));
  const auto evaluator = make_evaluator(session, gpu, generator);
  Json head = document(session, gpu.provenance(), gpu.device);
  head["database"] = database_path(session).string();
  ReportSink sink(session, std::move(head));
  tune_options.provenance = gpu.provenance();
  RepeatedTuning repeated(session, store, run_info(session, gpu, generator), sink);
  tune_options.stop_requested = [&interrupt] { return interrupt.interrupted(); };
  ProgressSinks progress(session);
  bool every_problem_solved = true;
  bool finished = true;
  while (const auto place = work.next(tune_options.stop_requested)) {
    const Problem& problem = all[*place];
    const auto tune_once = [&](long long run_id, unsigned long long number) {
      tune_options.run_id = run_id;
      tune_options.finals = FinalsOptions{.seed = options.seed + 1000 * number};
      progress.events().announce(problem, gpu.device, gpu.provenance());
      TuneReport report =
          tune(problem, *evaluator, generator, store, tune_options, progress.progress());
      progress.events().finish(report);
      finished = finished && !report.interrupted && !report.out_of_time;
      return report;
    };
    const bool solved =
        repeated.tune_all(tune_once, meet_again(problem, *evaluator, generator, options.seed));
    every_problem_solved = every_problem_solved && solved;
    if (interrupt.interrupted()) {
      break;
    }
    work.done();
  }
  if (finished && !interrupt.interrupted()) {
    repeated.finish(store);
  }
  repeated.report_agreement();
  sink.finish();
  progress.finish();
  if (interrupt.interrupted()) {
    return kExitInterrupted;
  }
  if (!every_problem_solved) {
    throw Error(ErrorCode::compile_failed,
                "no variant succeeded; the report above and the database say why for each");
  }
  return kExitSuccess;
}

}  // namespace swr::cli
