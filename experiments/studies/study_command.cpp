// SPDX-License-Identifier: MIT
#include "experiments/studies/study_command.h"

#include "driver/devices.h"
#include "experiments/studies/study_run.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/options.h"
#include "tuner/cli/output_file.h"
#include "tuner/cli/report_sink.h"
#include "tuner/cli/tune_command.h"
#include "tuner/predict/predicting_evaluator.h"
#include <swr/store.h>
#include <swr/version.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <ostream>
#include <set>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

RunInfo run_info(const TuneSession& session, const GpuChoice& gpu, const Generator& generator) {
  const bool measured = gpu.provenance() == Provenance::measured;
  return {.command = session.command_line,
          .swr_version = SWR_VERSION,
          .templates_digest = generator.templates_digest(),
          .overlay_digest = overlay_digest(generator_options(session)),
          .nvrtc_version = generator.nvrtc_version(),
          .driver_version = measured ? driver_version() : "",
          .l2_state = measured ? "warm" : "",
          .seed = session.options.seed,
          .conditions = "study",
          .starts_over = session.options.force};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[sizeof "2026-01-01"];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

void write_header(std::ostream& out, const Session& session, const Study& study,
                  const GpuChoice& gpu, const RunInfo& run) {
  const bool predicted = gpu.provenance() == Provenance::predicted;
  out << "# " << study.title << ", " << to_string(gpu.provenance()) << "\n\n"
      << (predicted ? "**Every number here is predicted** by the model (docs/model.md) for "
                    : "Measured on ")
      << describe(gpu.device) << ".\n\n"
      << "    " << session.command_line << "\n\n"
      << "swr " << run.swr_version << ", templates " << run.templates_digest.substr(0, 12)
      << ", NVRTC " << run.nvrtc_version
      << (run.driver_version.empty() ? "" : ", driver " + run.driver_version) << ", " << today()
      << ".\n";
}

/// A provenance of a study: where its results are stored, and who produces them.
class StudyPart {
 public:
  StudyPart(const TuneSession& session, const GpuChoice& gpu, const Generator& generator,
            Store& store)
      : session_(session),
        generator_(generator),
        store_(store),
        provenance_(gpu.provenance()),
        run_(run_info(session, gpu, generator)),
        evaluator_(gpu.profile ? std::make_unique<PredictingEvaluator>(*gpu.profile)
                               : make_measuring_evaluator(session, gpu, generator)),
        stored_(store, gpu.device, provenance_, setting(session)) {}

  /// Returns false when it was interrupted.
  bool tune(const Study& study, const InterruptListener& interrupt) {
    const long long run_id = store_.begin_run(run_);
    const StudyTally tally =
        swr::run_study(study, stored_,
                       {.evaluator = *evaluator_,
                        .generator = generator_,
                        .store = store_,
                        .provenance = provenance_,
                        .run_id = run_id,
                        .force = session_.options.force,
                        .stop_requested = [&interrupt] { return interrupt.interrupted(); },
                        .done = [this](const StudyGroup& group) { show(group); }});
    session_.out << study.name << ": " << tally.tuned << " points " << to_string(provenance_)
                 << ", " << tally.known << " known from an earlier run, " << tally.illegal
                 << " not legal on this GPU\n";
    if (tally.interrupted) {
      session_.out << "interrupted: the same command continues where this one stopped\n";
    } else {
      store_.finish_run(run_id);
    }
    return !tally.interrupted;
  }

  ResultOf results() {
    return [this](const StudyPoint& point) {
      auto result = stored_.find(point);
      if (result) {
        evaluator_->complete(point.problem, *result);
      }
      return result;
    };
  }
  const RunInfo& run() const { return run_; }

 private:
  void show(const StudyGroup& group) const {
    if (!session_.common.quiet) {
      for (const StudyPoint* point : group.points) {
        session_.err << to_string(point->problem) << "  " << describe(point->variant) << "\n";
      }
    }
  }

  const TuneSession& session_;
  const Generator& generator_;
  Store& store_;
  Provenance provenance_;
  RunInfo run_;
  std::unique_ptr<Evaluator> evaluator_;
  StoredPoints stored_;
};

/// The model of the GPU that is present.
GpuChoice as_model(const GpuChoice& gpu) {
  GpuChoice model = gpu;
  model.profile = profile_for_device(gpu.device);
  return model;
}

void write_files(const Session& session, const fs::path& directory, const Study& study,
                 const GpuChoice& gpu, const RunInfo& run, const ResultOf& result_of,
                 const StudyContext& context) {
  std::error_code ignored_until_open;
  fs::create_directories(directory, ignored_until_open);
  const fs::path csv_path = directory / (study.name + ".csv");
  const fs::path table_path = directory / (study.name + ".md");
  OutputFile csv(session, csv_path);
  write_study_csv(csv.text(), study, result_of, context);
  OutputFile tables(session, table_path);
  write_header(tables.text(), session, study, gpu, run);
  write_study_tables(tables.text(), study, result_of, context);
  csv.finish();
  tables.finish();
  session.out << "wrote " << csv_path.string() << " and " << table_path.string() << "\n";
}

/// The command line as a value.
struct Asked {
  std::string study;
  std::string gpu = "auto";
  fs::path out;
  bool force = false;
};

void declare(CommandLine& line, Asked& asked) {
  std::vector<std::string> names;
  std::string footer;
  for (const StudyEntry& study : studies()) {
    names.emplace_back(study.name);
    footer += std::string(study.name) + ": " + std::string(study.summary) + ".\n";
  }
  line.set_footer(
      footer +
      "Points that the database knows are not tuned again, so the same command continues.\n\n"
      "Example: swr-study sawtooth --gpu gb10 --db study.db --out study");
  OptionList options = line.own();
  options.add("name", asked.study, "One of the studies below",
              {.is_required = true, .words = names});
  add_gpu_option(options, asked.gpu);
  options.add("--out DIR", asked.out, "Directory of NAME.csv and NAME.md; created when missing",
              {.is_required = true});
  add_database_option(options);
  add_generator_options(options);
  add_quiet_option(options);
  options.add("--force", asked.force, "Tune anew what the database knows");
}

int tune_and_write(const TuneSession& session, const Asked& asked) {
  const GpuChoice gpu = choose_gpu(session.options.gpu);
  const Study study = make_study(asked.study, gpu.device);
  StudyContext context;
  const InterruptListener interrupt([&session] { acknowledge_interrupt(session); });
  std::error_code ignored_until_open;
  fs::create_directories(database_path(session).parent_path(), ignored_until_open);
  Store store(database_path(session), Store::Mode::read_write);
  const Generator generator(supervised_generator_options(session));
  std::optional<StudyPart> predictions;
  if (study.judges_model && !gpu.profile) {
    predictions.emplace(session, as_model(gpu), generator, store);
    context.predictions = predictions->results();
    if (!predictions->tune(study, interrupt)) {
      return kExitInterrupted;
    }
  }
  StudyPart part(session, gpu, generator, store);
  if (!part.tune(study, interrupt)) {
    return kExitInterrupted;
  }
  write_files(session, asked.out, study, gpu, part.run(), part.results(), context);
  return kExitSuccess;
}

int parse_and_run(std::span<const std::string> arguments, const Environment& environment,
                  std::ostream& out, std::ostream& err) {
  Asked asked;
  CommandLine line("swr-study",
                   "Repeats a paper's experiments: measured on the GPU present, else predicted", 0);
  declare(line, asked);
  const std::string role = arguments.empty() ? "" : arguments[0];
  const bool serves = role == kMeasureWorkerCommand || role == kCompileWorkerCommand;
  const auto own = arguments.subspan(serves ? 1 : 0);
  const ParsedCommand parsed = line.parse({own.begin(), own.end()});
  if (!parsed.help_text.empty()) {
    out << parsed.help_text;
    return kExitSuccess;
  }
  const TuneSession session{{.common = parsed.common,
                             .environment = environment,
                             .command_line = command_line("swr-study", own),
                             .arguments = {own.begin(), own.end()},
                             .out = out,
                             .err = err},
                            {.gpu = asked.gpu, .force = asked.force}};
  // Measurements and compilations are served by this program too, as by swr-tune.
  return role == kMeasureWorkerCommand   ? run_measure_worker(session)
         : role == kCompileWorkerCommand ? run_compile_worker(session)
                                         : tune_and_write(session, asked);
}

}  // namespace

int run_study(std::span<const std::string> arguments, const Environment& environment,
              std::ostream& out, std::ostream& err) {
  return run_reporting([&] { return parse_and_run(arguments, environment, out, err); }, environment,
                       err);
}

}  // namespace swr::cli
