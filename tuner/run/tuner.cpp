// SPDX-License-Identifier: MIT
#include "tuner/run/tuner.h"

#include "tuner/predict/model_ranking.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/stages.h"
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

namespace swr {
namespace {

std::string nothing_left_message(const Problem& problem, const DeviceInfo& device,
                                 const SearchSpace& space) {
  const auto counts = dropped_by_constraint(space.dropped, space.left_out);
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string message = "no variant of " + to_string(problem) + " can run on " + device.name;
  if (most == counts.end()) {
    return message + ": the axes leave none; give every axis at least one value";
  }
  const auto example = std::ranges::find(space.dropped, most->first, &DroppedVariant::constraint);
  // A share: counts of large spaces stand for more.
  const double all = std::accumulate(
      counts.begin(), counts.end(), 0.0,
      [](double sum, const auto& count) { return sum + static_cast<double>(count.second); });
  const auto percent = static_cast<int>(100.0 * static_cast<double>(most->second) / all);
  return message + ": constraint " + most->first + " drops " + std::to_string(percent) + " %" +
         (example == space.dropped.end() ? "" : " (" + example->reason + ")") +
         "; choose other tiles or axis values";
}

/// As many as a screen shows beside what follows.
std::vector<RankedGuess> first_ranked(const std::vector<Variant>& space, PredictedTimes& times) {
  constexpr std::size_t kShown = 5;
  std::vector<RankedGuess> first;
  for (const std::size_t place : first_of_shortlist(space, times, kShown)) {
    const double time_us = times.at_least_us()[place];
    if (std::isfinite(time_us)) {
      first.push_back({space[place], time_us});
    }
  }
  return first;
}

}  // namespace

std::vector<Variant> candidates(TuneReport& report, const TuneOptions& options) {
  const PhaseTimer timer(report.times.enumerate_s);
  if (options.variants) {
    return *options.variants;
  }
  SearchSpace space = require_variants(report.problem, report.device, options.space);
  report.dropped = std::move(space.dropped);
  report.left_out = std::move(space.left_out);
  return std::move(space.variants);
}

std::unique_ptr<Strategy> choose_strategy(TuneReport& report, const TuneOptions& options,
                                          std::vector<Variant> variants, Progress& progress) {
  const PhaseTimer timer(report.times.search_s);
  if (options.search.strategy == StrategyKind::model) {
    progress.phase("predicting " + std::to_string(variants.size()) +
                   " variants to choose what to try first");
  }
  const auto predict =
      model_predictor(report.problem, report.device, thread_count(options.compile_threads));
  SearchOptions search = options.search;
  // A prediction costs no device time, and several of the best decide.
  search.spends_all = search.spends_all || report.provenance == Provenance::predicted;
  return make_strategy(search, std::move(variants), [&](const std::vector<Variant>& space) {
    auto times = predict(space);
    report.ranking = first_ranked(space, *times);
    progress.ranked(report.ranking);
    return times;
  });
}

std::vector<Variant> choose_rivals(const TuneReport& report, const TuneOptions& options,
                                   const std::vector<Variant>& space) {
  std::vector<Variant> rivals;
  const auto add = [&](const Variant& rival) {
    if (std::ranges::find(rivals, rival) == rivals.end()) {
      rivals.push_back(rival);
    }
  };
  const auto add_of_space = [&](const Variant& rival) {
    if (std::ranges::find(space, rival) != space.end()) {
      add(rival);
    }
  };
  if (options.finals && report.provenance == Provenance::measured) {
    add_of_space(default_variant(report.problem, report.device));
    // What runs without a tune, whose answer is to be no worse.
    if (const auto untuned =
            report.problem.operation().modelled_variant(report.problem, report.device)) {
      add_of_space(*untuned);
    }
  }
  std::ranges::for_each(options.rivals, add);
  rivals.resize(std::min(rivals.size(), options.search.max_variants.value_or(rivals.size())));
  return rivals;
}

std::map<std::string, long long> dropped_by_constraint(const std::vector<DroppedVariant>& dropped,
                                                       std::map<std::string, long long> left_out) {
  for (const DroppedVariant& candidate : dropped) {
    ++left_out[candidate.constraint];
  }
  return left_out;
}

std::vector<std::vector<Variant>> group_by_kernel(const std::vector<Variant>& variants) {
  std::vector<std::vector<Variant>> groups;
  std::map<Variant, std::size_t> group_of;
  for (const Variant& variant : variants) {
    const auto [position, is_new] = group_of.try_emplace(kernel_of(variant), groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[position->second].push_back(variant);
  }
  return groups;
}

SearchSpace require_variants(const Problem& problem, const DeviceInfo& device,
                             const SpaceOptions& options) {
  SearchSpace space = enumerate_space(problem, device, options);
  if (space.variants.empty()) {
    throw Error(ErrorCode::invalid_argument, nothing_left_message(problem, device, space));
  }
  return space;
}

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
    report_.planned = strategy->planned();
    auto queue = std::make_unique<CompileQueue>(thread_count(options_.compile_threads), kernels_);
    row_ids_ = search_variants(*strategy, std::move(rivals), evaluator_, *queue, store_, options_,
                               progress_, report_);
    decide();
    follow_objective(idle);
    rank_results(report_);
    finish();
    note_answer();
    end(std::move(queue));
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

  /// What was begun ahead and is not needed went on meanwhile.
  void end(std::unique_ptr<CompileQueue> queue) {
    if (report_.interrupted && options_.abandons_compilations) {
      queue->abandon();
    }
    const PhaseTimer timer(report_.times.end_s);
    queue.reset();
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
