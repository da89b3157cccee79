// SPDX-License-Identifier: MIT
#include "tuner/tuner.h"

#include "db/match.h"
#include "tuner/compile_queue.h"
#include <swr/error.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace swr {
namespace {

/// Adds the time from its construction to its destruction.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& seconds) : seconds_(seconds) {}
  ~PhaseTimer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

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

/// A kernel, or why there is none.
struct Compilation {
  std::shared_ptr<const CompiledKernel> kernel;
  std::string log;
};

/// A measured success on its way to the database: its counters are read together with others'.
struct Uncounted {
  VariantResult result;
  std::shared_ptr<const CompiledKernel> kernel;
};

Compilation take(CompileQueue& queue) {
  try {
    return {std::make_shared<const CompiledKernel>(queue.next()), {}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile_failed) {
      throw;
    }
    return {nullptr, error.what()};
  }
}

/// The variant with every choice that is made at launch reset: equal for equal kernels.
Variant kernel_of(Variant variant) {
  const Variant neutral;
  variant.swizzle = neutral.swizzle;
  variant.section_heads = neutral.section_heads;
  variant.workers = neutral.workers;
  return variant;
}

int thread_count(const TuneOptions& options) {
  const int hardware = static_cast<int>(std::thread::hardware_concurrency());
  return options.compile_threads > 0 ? options.compile_threads : std::max(1, hardware);
}

std::string nothing_left_message(const AttentionProblem& problem, const DeviceInfo& device,
                                 const std::vector<DroppedVariant>& dropped) {
  const auto counts = dropped_by_constraint(dropped);
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string message = "no variant of " + to_string(problem) + " can run on " + device.name;
  if (most == counts.end()) {
    return message + ": the axes leave none; give every axis at least one value";
  }
  const auto example = std::find_if(dropped.begin(), dropped.end(), [&](const auto& candidate) {
    return candidate.constraint == most->first;
  });
  return message + ": constraint " + most->first + " drops " + std::to_string(most->second) +
         " of " + std::to_string(dropped.size()) + " (" + example->reason +
         "); choose other tiles or axis values";
}

/// The tools and the growing report of one run.
class Run {
 public:
  Run(Evaluator& evaluator, Store& store, const TuneOptions& options, Progress& progress,
      TuneReport& report)
      : evaluator_(evaluator),
        store_(store),
        options_(options),
        progress_(progress),
        report_(report) {}

  /// What was measured before an error is recorded without counters.
  void try_all(const std::vector<std::vector<Variant>>& groups, CompileQueue& queue) {
    try {
      try_groups(groups, queue);
      count_and_record();
    } catch (...) {
      record_uncounted();
      throw;
    }
  }

 private:
  void try_groups(const std::vector<std::vector<Variant>>& groups, CompileQueue& queue) {
    for (const auto& group : groups) {
      const Compilation compilation = wait_for_kernel(queue);
      try_group(group, compilation);
      if (report_.interrupted) {
        return;
      }
    }
  }

  Compilation wait_for_kernel(CompileQueue& queue) {
    const PhaseTimer timer(report_.times.compile_wait_s);
    Compilation compilation = take(queue);
    report_.kernels_compiled += compilation.kernel ? 1 : 0;
    report_.kernels_from_cache += compilation.kernel && compilation.kernel->from_cache ? 1 : 0;
    return compilation;
  }

  /// Tries the variants of one kernel.
  void try_group(const std::vector<Variant>& group, const Compilation& compilation) {
    for (const Variant& variant : group) {
      if (options_.stop_requested()) {
        report_.interrupted = true;
        return;
      }
      VariantResult result = compilation.kernel
                                 ? evaluate(variant, *compilation.kernel)
                                 : unevaluated(variant, ResultState::compile, compilation.log);
      progress_.advance(result);
      if (result.measurement() != nullptr && result.state == ResultState::ok) {
        count_later({std::move(result), compilation.kernel});
      } else {
        record(std::move(result));
      }
    }
  }

  VariantResult evaluate(const Variant& variant, const CompiledKernel& kernel) {
    auto dropped = check_compiled(report_.problem, variant, report_.device, kernel.resources);
    if (!dropped) {
      const PhaseTimer timer(report_.times.evaluate_s);
      return evaluator_.evaluate(report_.problem, variant, kernel);
    }
    VariantResult result =
        unevaluated(variant, ResultState::constraint, dropped->constraint + ": " + dropped->reason);
    result.resources = kernel.resources;
    result.cubin_digest = kernel.cubin_digest;
    result.ctas_per_sm =
        occupancy(kernel.resources, report_.problem, variant, report_.device).ctas_per_sm;
    report_.dropped.push_back(std::move(*dropped));
    return result;
  }

  VariantResult unevaluated(const Variant& variant, ResultState state, std::string detail) const {
    VariantResult result;
    result.variant = variant;
    result.state = state;
    result.detail = std::move(detail);
    result.smem_bytes = smem_bytes(report_.problem, variant);
    if (report_.provenance == Provenance::predicted) {
      result.outcome = Prediction{};
    }
    return result;
  }

  /// Switching the profiler on takes about a tenth of a second, so it pays to do it once a second;
  /// that is also what a killed run can lose.
  void count_later(Uncounted measured) {
    using std::chrono::steady_clock;
    constexpr std::chrono::seconds kCountEvery{1};
    if (uncounted_.empty()) {
      waiting_since_ = steady_clock::now();
    }
    uncounted_.push_back(std::move(measured));
    if (steady_clock::now() - waiting_since_ >= kCountEvery) {
      count_and_record();
    }
  }

  void count_and_record() {
    {
      const PhaseTimer timer(report_.times.count_s);
      count();
    }
    record_uncounted();
  }

  void count() {
    std::vector<Contender> contenders;
    for (const Uncounted& measured : uncounted_) {
      contenders.push_back({measured.result.variant, measured.kernel.get()});
    }
    if (contenders.empty()) {
      return;
    }
    std::vector<CounterReading> readings = evaluator_.count(report_.problem, contenders);
    for (std::size_t i = 0; i < readings.size(); ++i) {
      Measurement& measurement = std::get<Measurement>(uncounted_[i].result.outcome);
      measurement.counters = readings[i].counters;
      measurement.counters_missing_because = std::move(readings[i].missing_because);
    }
  }

  void record_uncounted() {
    for (Uncounted& measured : std::exchange(uncounted_, {})) {
      record(std::move(measured.result));
    }
  }

  void record(VariantResult result) {
    const PhaseTimer timer(report_.times.record_s);
    store_.record(options_.run_id, report_.problem, report_.device, result);
    report_.results.push_back(std::move(result));
  }

  Evaluator& evaluator_;
  Store& store_;
  const TuneOptions& options_;
  Progress& progress_;
  TuneReport& report_;
  std::vector<Uncounted> uncounted_;
  std::chrono::steady_clock::time_point waiting_since_;
};

/// By the rule that the store answers with, so that the first row is what a query returns.
void rank(TuneReport& report) {
  const auto failures = std::stable_partition(
      report.results.begin(), report.results.end(),
      [](const VariantResult& result) { return result.state == ResultState::ok; });
  std::stable_sort(report.results.begin(), failures,
                   [&](const VariantResult& a, const VariantResult& b) {
                     return is_better(report.problem, a, b);
                   });
}

std::vector<Variant> first_members(const std::vector<std::vector<Variant>>& groups) {
  std::vector<Variant> first;
  for (const auto& group : groups) {
    first.push_back(group.front());
  }
  return first;
}

std::vector<Variant> enumerate(TuneReport& report, const SpaceOptions& options) {
  const PhaseTimer timer(report.times.enumerate_s);
  SearchSpace space = require_variants(report.problem, report.device, options);
  report.dropped = std::move(space.dropped);
  return std::move(space.variants);
}

std::string title_of(const TuneReport& report, std::size_t variants) {
  return to_string(report.problem) + " on " + report.device.name + ": " +
         (report.provenance == Provenance::predicted ? "predicting " : "measuring ") +
         std::to_string(variants) + " variants";
}

}  // namespace

const VariantResult* TuneReport::best() const {
  const bool found = !results.empty() && results.front().state == ResultState::ok;
  return found ? &results.front() : nullptr;
}

std::map<std::string, int> dropped_by_constraint(const std::vector<DroppedVariant>& dropped) {
  std::map<std::string, int> counts;
  for (const DroppedVariant& candidate : dropped) {
    ++counts[candidate.constraint];
  }
  return counts;
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

SearchSpace require_variants(const AttentionProblem& problem, const DeviceInfo& device,
                             const SpaceOptions& options) {
  SearchSpace space = enumerate_space(problem, device, options);
  if (space.variants.empty()) {
    throw Error(ErrorCode::invalid_argument, nothing_left_message(problem, device, space.dropped));
  }
  return space;
}

TuneReport tune(const AttentionProblem& problem, Evaluator& evaluator, const Generator& generator,
                Store& store, const TuneOptions& options, Progress& progress) {
  TuneReport report;
  report.problem = problem;
  report.device = evaluator.device();
  report.provenance = options.provenance;
  {
    const PhaseTimer timer(report.times.total_s);
    const std::vector<Variant> variants = enumerate(report, options.space);
    const auto groups = group_by_kernel(variants);
    CompileQueue queue(first_members(groups), thread_count(options), [&](const Variant& variant) {
      return generator.compile(problem, variant, report.device.sm_arch);
    });
    const ProgressScope scope(progress, title_of(report, variants.size()), variants.size());
    Run(evaluator, store, options, progress, report).try_all(groups, queue);
  }
  rank(report);
  return report;
}

}  // namespace swr
