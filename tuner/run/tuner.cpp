// SPDX-License-Identifier: MIT
#include "tuner/run/tuner.h"

#include "tuner/run/stages.h"

#include <string>
#include <utility>
#include <vector>

namespace swr {
namespace {

/// Ends the progress display however the run ends, so that an error starts on a line of its own.
class ProgressScope {
 public:
  ProgressScope(Progress& progress, const std::string& title, std::size_t total)
      : progress_(progress) {
    progress_.begin(title, total);
  }
  ~ProgressScope() { progress_.end(); }
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;

 private:
  Progress& progress_;
};

std::string title_of(const TuneReport& report, std::size_t variants) {
  const std::string doing = report.replayed                              ? "replaying "
                            : report.provenance == Provenance::predicted ? "predicting "
                                                                         : "measuring ";
  return to_string(report.problem) + " on " + report.device.name + ": " + doing +
         std::to_string(variants) + " variants";
}

TuneReport empty_report(const Problem& problem, const Evaluator& evaluator,
                        const TuneOptions& options) {
  TuneReport report;
  report.problem = problem;
  report.device = evaluator.device();
  report.provenance = options.provenance;
  report.replayed = options.replays;
  report.objective = options.objective.objective.text();
  return report;
}

/// The stages of one run, in their order.
class TuningRun {
 public:
  TuningRun(Evaluator& evaluator, const KernelSource& kernels, Store& store,
            const TuneOptions& options, Progress& progress, TuneReport& report)
      : evaluator_(evaluator),
        kernels_(kernels),
        store_(store),
        options_(options),
        progress_(progress),
        report_(report) {}

  void run() {
    const PowerReading idle = wants_energy()
                                  ? idle_power(report_.problem, evaluator_, options_.objective)
                                  : PowerReading{};
    std::vector<Variant> space = candidates(report_, options_);
    report_.space_size = space.size();
    std::vector<Variant> rivals = choose_rivals(report_, options_, space);
    const auto strategy = choose_strategy(report_, options_, std::move(space), progress_);
    const ProgressScope scope(progress_, title_of(report_, strategy->planned()),
                              strategy->planned());
    row_ids_ = search_variants(*strategy, std::move(rivals), evaluator_, kernels_, store_, options_,
                               progress_, report_);
    decide();
    follow_objective(idle);
    rank_results(report_);
    finish();
    note_answer();
  }

 private:
  bool is_measured() const { return report_.provenance == Provenance::measured; }
  bool is_measured_anew() const { return is_measured() && !report_.replayed; }
  bool wants_energy() const { return is_measured_anew() && options_.objective.wants_energy(); }

  void decide() {
    if (is_decided(report_)) {
      take_known_decision(report_, store_, options_.run_id);
    } else if (options_.finals && !report_.interrupted && is_measured()) {
      progress_.phase("deciding between the fastest in shared rounds");
      hold_finals(report_, evaluator_, kernels_, store_, options_, row_ids_);
    }
  }

  void follow_objective(const PowerReading& idle) {
    if (wants_energy() && !report_.interrupted) {
      progress_.phase("measuring energy");
      const PhaseTimer timer(report_.times.energy_s);
      measure_energies(report_, evaluator_, kernels_, store_, options_, idle, row_ids_);
    }
    const bool is_about_time = options_.objective.objective.is_time();
    if (is_measured_anew() && !is_about_time && !report_.interrupted) {
      choose_by_objective(report_, store_, options_, row_ids_);
    }
  }

  void finish() {
    const bool is_predicted = report_.provenance == Provenance::predicted;
    if (is_predicted && !report_.replayed && !report_.interrupted) {
      prefer_robust(report_, store_, options_);
    }
    if (is_measured_anew() && options_.count_accesses && !report_.interrupted) {
      progress_.phase("counting how the best go to memory");
      count_accesses_of_best(report_, evaluator_, kernels_, store_, row_ids_);
    }
  }

  void note_answer() {
    const VariantResult* const best = report_.best();
    if (best == nullptr || report_.replayed || !options_.objective.objective.is_time()) {
      return;
    }
    auto answer = store_.exact(report_.problem, report_.device, options_.setting);
    if (answer && answer->result.variant != best->variant) {
      report_.answer = std::move(answer);
    }
  }

  Evaluator& evaluator_;
  const KernelSource& kernels_;
  Store& store_;
  const TuneOptions& options_;
  Progress& progress_;
  TuneReport& report_;
  RowIds row_ids_;
};

}  // namespace

const VariantResult* TuneReport::best() const {
  const bool found = !results.empty() && results.front().state == ResultState::ok;
  return found ? &results.front() : nullptr;
}

TuneReport tune(const Problem& problem, Evaluator& evaluator, const Generator& generator,
                Store& store, const TuneOptions& options, Progress& progress) {
  const int sm_arch = evaluator.device().sm_arch;
  const KernelSource kernels = [&problem, &generator, sm_arch](const Variant& variant) {
    return generator.compile(problem, variant, sm_arch);
  };
  return tune(problem, evaluator, kernels, store, options, progress);
}

TuneReport tune(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                Store& store, const TuneOptions& options, Progress& progress) {
  TuneReport report = empty_report(problem, evaluator, options);
  {
    const PhaseTimer timer(report.times.total_s);
    TuningRun(evaluator, kernels, store, options, progress, report).run();
  }
  return report;
}

}  // namespace swr
