// SPDX-License-Identifier: MIT
// swr-tune study: the experiments of a paper, measured on the GPU present or modelled for the named
// one, through the tuner and its database.
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/measuring.h"
#include "tuner/cli/report_sink.h"
#include "tuner/driver/devices.h"
#include "tuner/model/predicting_evaluator.h"
#include "tuner/report.h"
#include "tuner/study/study.h"
#include "tuner/tuner.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/store.h>
#include <swr/version.h>

#include <ctime>
#include <fstream>
#include <map>
#include <ostream>
#include <set>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

RunInfo run_info(const Session& session, const GpuChoice& gpu, const Generator& generator) {
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

/// What is stored of a study's problems, by variant; read once per problem.
class StoredPoints {
 public:
  StoredPoints(const Store& store, DeviceInfo device, Provenance provenance, Setting setting)
      : store_(store),
        device_(std::move(device)),
        provenance_(provenance),
        setting_(std::move(setting)) {}

  std::optional<VariantResult> find(const StudyPoint& point) {
    const auto known = results_.find(point.problem);
    auto& of_problem =
        known != results_.end() ? known->second : results_[point.problem] = read(point.problem);
    const auto result = of_problem.find(point.variant);
    return result != of_problem.end() ? std::optional(result->second) : std::nullopt;
  }

  void forget(const Problem& problem) { results_.erase(problem); }

 private:
  using OfProblem = std::map<Variant, VariantResult>;

  OfProblem read(const Problem& problem) const {
    OfProblem of_problem;
    for (StoredResult& stored : store_.results(problem, device_, setting_)) {
      if (stored.result.provenance() == provenance_) {
        of_problem.emplace(stored.result.variant, std::move(stored.result));
      }
    }
    return of_problem;
  }

  const Store& store_;
  DeviceInfo device_;
  Provenance provenance_;
  Setting setting_;
  std::map<Problem, OfProblem> results_;
};

struct Tally {
  std::size_t tuned = 0;
  std::size_t known = 0;
  std::size_t illegal = 0;
};

/// The variants of a problem that nothing is known of.
struct OpenProblem {
  AttentionProblem problem;
  std::vector<Variant> variants;
};

/// What is to be tuned, by problem in the order of the study: what shares inputs, reference and
/// counter passes is done together.
std::vector<OpenProblem> open_problems(const Study& study, StoredPoints& stored,
                                       const DeviceInfo& device, bool force, Tally& tally) {
  std::vector<OpenProblem> open;
  std::map<AttentionProblem, std::size_t> place_of;
  std::set<std::pair<AttentionProblem, AttentionVariant>> seen;
  for (const Experiment& experiment : study.experiments) {
    for (const StudyPoint& point : experiment.points) {
      if (!seen.emplace(point.problem, point.variant).second) {
        continue;
      }
      if (check_constraints(point.problem, point.variant, device)) {
        ++tally.illegal;
      } else if (!force && stored.find(point)) {
        ++tally.known;
      } else {
        const auto [place, is_new] = place_of.try_emplace(point.problem, open.size());
        if (is_new) {
          open.push_back({point.problem, {}});
        }
        open[place->second].variants.emplace_back(point.variant);
      }
    }
  }
  return open;
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

void require_written(std::ofstream& file, const fs::path& path) {
  if (!file.flush()) {
    throw Error(ErrorCode::not_writable,
                "cannot write all of " + path.string() + "; is the disk full?");
  }
}

void write_files(const Session& session, const Study& study, const GpuChoice& gpu,
                 const RunInfo& run, StoredPoints& stored) {
  const fs::path& directory = *session.options.out;
  std::error_code ignored_until_open;
  fs::create_directories(directory, ignored_until_open);
  const ResultOf result_of = [&stored](const StudyPoint& point) { return stored.find(point); };
  const fs::path csv_path = directory / (study.name + ".csv");
  const fs::path table_path = directory / (study.name + ".md");
  std::ofstream csv = open_output(csv_path);
  write_study_csv(csv, study, result_of);
  require_written(csv, csv_path);
  std::ofstream tables = open_output(table_path);
  write_header(tables, session, study, gpu, run);
  write_study_tables(tables, study, result_of);
  require_written(tables, table_path);
  session.out << "wrote " << csv_path.string() << " and " << table_path.string() << "\n";
}

}  // namespace

int run_study(const Session& session) {
  const GpuChoice gpu = choose_gpu(session.options.gpu);
  const Study study = make_study(session.options.study, gpu.device);
  const InterruptListener interrupt;
  std::error_code ignored_until_open;
  fs::create_directories(database_path(session).parent_path(), ignored_until_open);
  Store store(database_path(session), Store::Mode::read_write);
  const Generator generator(generator_options(session));
  const std::unique_ptr<Evaluator> evaluator =
      gpu.profile ? std::make_unique<PredictingEvaluator>(*gpu.profile)
                  : make_measuring_evaluator(session, gpu, generator);
  const RunInfo run = run_info(session, gpu, generator);
  TuneOptions options;
  options.provenance = gpu.provenance();
  options.run_id = store.begin_run(run);
  options.finals.reset();  // Every point is wanted, not a winner.
  options.stop_requested = [&interrupt] { return interrupt.interrupted(); };
  StoredPoints stored(store, gpu.device, gpu.provenance(), setting(session));
  QuietProgress progress;
  Tally tally;
  for (OpenProblem& open : open_problems(study, stored, gpu.device, session.options.force, tally)) {
    if (interrupt.interrupted()) {
      break;
    }
    options.variants = std::move(open.variants);
    const TuneReport report = tune(open.problem, *evaluator, generator, store, options, progress);
    tally.tuned += report.results.size();
    stored.forget(open.problem);
    if (!session.options.quiet) {
      session.err << to_string(open.problem) << "  " << report.results.size() << " variants\n";
    }
  }
  session.out << study.name << ": " << tally.tuned << " points " << to_string(gpu.provenance())
              << ", " << tally.known << " known from an earlier run, " << tally.illegal
              << " not legal on this GPU\n";
  if (interrupt.interrupted()) {
    session.out << "interrupted: the same command continues where this one stopped\n";
    return kExitInterrupted;
  }
  store.finish_run(options.run_id);
  write_files(session, study, gpu, run, stored);
  session.out << "look at it: swr-tune report --db " << database_path(session).string()
              << " --out report.html\n";
  return kExitSuccess;
}

}  // namespace swr::cli
