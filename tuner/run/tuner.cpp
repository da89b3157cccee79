// SPDX-License-Identifier: MIT
#include "tuner/run/tuner.h"

#include "db/match.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/objective_stage.h"
#include <swr/error.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
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

/// A stored success whose counters are still to be read, together with others'.
struct Uncounted {
  std::size_t place = 0;  ///< Among the report's results.
  long long row_id = 0;   ///< In the database.
  std::shared_ptr<const CompiledKernel> kernel;
};

/// Says of a stored row that its counters are still to be read.
constexpr std::string_view kNotCountedYet = "not counted yet";

/// Variants of one kernel, and what an earlier run knows, by variant.
using Groups = std::vector<std::vector<Variant>>;
using KnownResults = std::map<Variant, StoredResult>;

/// Nothing when the run is to stop.
std::optional<Compilation> take(CompileQueue& queue, const Variant& variant,
                                const std::function<bool()>& stop_requested) {
  try {
    auto kernel = queue.take(variant, stop_requested);
    return kernel ? std::optional(
                        Compilation{std::make_shared<const CompiledKernel>(*std::move(kernel)), {}})
                  : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile_failed) {
      throw;
    }
    return Compilation{nullptr, error.what()};
  }
}

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
  const long long all =
      std::accumulate(counts.begin(), counts.end(), 0LL,
                      [](long long sum, const auto& count) { return sum + count.second; });
  return message + ": constraint " + most->first + " drops " + std::to_string(most->second) +
         " of " + std::to_string(all) +
         (example == space.dropped.end() ? "" : " (" + example->reason + ")") +
         "; choose other tiles or axis values";
}

KnownResults known_results(const Store& store, const TuneReport& report, long long run_id) {
  KnownResults known;
  // A prediction costs no device time and follows the model of this swr, so it is made anew.
  if (report.provenance == Provenance::measured) {
    for (StoredResult& stored : store.known_results(run_id, report.problem, report.device)) {
      const Variant variant = stored.result.variant;
      known.emplace(variant, std::move(stored));
    }
  }
  return known;
}

/// True for what was measured by a run that ended before it was counted.
bool lacks_counters(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr && result.state == ResultState::ok &&
         measurement->counters_missing_because == kNotCountedYet;
}

std::vector<Variant> first_members(const Groups& groups) {
  std::vector<Variant> first;
  for (const auto& group : groups) {
    first.push_back(group.front());
  }
  return first;
}

/// The tools and the growing report of one run.
class Run {
 public:
  /// `rivals` are tried whatever the strategy chooses.
  Run(Strategy& strategy, std::vector<Variant> rivals, Evaluator& evaluator, Store& store,
      CompileQueue& queue, const TuneOptions& options, Progress& progress, TuneReport& report)
      : strategy_(strategy),
        rivals_(std::move(rivals)),
        evaluator_(evaluator),
        store_(store),
        queue_(queue),
        options_(options),
        progress_(progress),
        report_(report),
        known_(known_results(store, report, options.run_id)) {}

  void search() {
    for (auto batch = next_batch(); !batch.empty(); batch = next_batch()) {
      try_batch(batch);
    }
    evaluator_.expect(report_.problem, {});  // A run that was stopped leaves nothing behind.
    try_rivals();
    count();
  }

  RowIds take_row_ids() { return std::move(row_ids_); }

 private:
  std::vector<Variant> next_batch() {
    if (has_to_stop()) {
      return {};
    }
    const PhaseTimer timer(report_.times.search_s);
    progress_.phase("");
    return strategy_.propose();
  }

  bool has_to_stop() {
    const auto now = std::chrono::steady_clock::now();
    const auto& max_s = options_.search.max_s;
    report_.interrupted = report_.interrupted || options_.stop_requested();
    report_.out_of_time =
        (max_s && std::chrono::duration<double>(now - started_).count() >= *max_s) ||
        (options_.search_until && now >= *options_.search_until);
    return report_.interrupted || report_.out_of_time;
  }

  void try_batch(const std::vector<Variant>& batch) {
    const Groups groups = group_by_kernel(take_known(batch));
    queue_.want(first_members(groups));
    if (!groups.empty()) {
      evaluator_.prepare(report_.problem);
    }
    queue_.expect(first_members(group_by_kernel(strategy_.likely_next())));
    std::deque<Compilation> kernels;  // Of the group in hand and those after it.
    for (auto rest = std::span<const std::vector<Variant>>(groups); !rest.empty();
         rest = rest.subspan(1)) {
      if (has_to_stop()) {
        return;
      }
      if (!take_kernels(rest, kernels)) {
        return;
      }
      try_group(rest.front(), kernels.front());
      kernels.pop_front();
    }
  }

  /// Takes the kernel of the first group, and those of as many others as the evaluator looks ahead.
  /// False when the run is to stop.
  bool take_kernels(std::span<const std::vector<Variant>> groups,
                    std::deque<Compilation>& kernels) {
    const std::size_t wanted = std::min(groups.size(), 1 + evaluator_.kernels_ahead());
    if (!kernels.empty() && 2 * kernels.size() > wanted) {
      return true;  // By halves, because the evaluator is told of all of them anew.
    }
    while (kernels.size() < wanted) {
      auto compilation = wait_for_kernel(groups[kernels.size()].front());
      if (!compilation) {
        return false;
      }
      kernels.push_back(*std::move(compilation));
    }
    std::vector<Contender> expected;
    for (std::size_t i = 0; i < wanted; ++i) {
      for (const Variant& variant : groups[i]) {
        if (kernels[i].kernel) {
          expected.push_back({variant, kernels[i].kernel.get()});
        }
      }
    }
    evaluator_.expect(report_.problem, expected);
    return true;
  }

  /// Also when the time is over: they are few, and without them the answer may lose to one.
  void try_rivals() {
    std::erase_if(rivals_, [this](const Variant& rival) {
      return std::ranges::any_of(report_.results,
                                 [&](const auto& result) { return result.variant == rival; });
    });
    if (rivals_.empty() || report_.interrupted) {
      return;
    }
    queue_.drop_wanted();
    const std::vector<Variant> unknown = take_known(rivals_);
    queue_.want(unknown);
    for (const Variant& variant : unknown) {
      if (const auto compilation = wait_for_kernel(variant)) {
        try_variant(variant, *compilation);
      }
    }
  }

  /// Answers for the variants that are known; returns the others.
  std::vector<Variant> take_known(const std::vector<Variant>& batch) {
    std::vector<Variant> unknown;
    for (const Variant& variant : batch) {
      const auto found = known_.find(variant);
      if (found == known_.end() || lacks_counters(found->second.result)) {
        unknown.push_back(variant);
        continue;
      }
      take_result(found->second);
    }
    return unknown;
  }

  /// Nothing when the run is to stop, which it then notes.
  std::optional<Compilation> wait_for_kernel(const Variant& variant) {
    const PhaseTimer timer(report_.times.compile_wait_s);
    auto compilation = take(queue_, variant, options_.stop_requested);
    if (!compilation) {
      report_.interrupted = true;
      return std::nullopt;
    }
    const bool is_there = compilation->kernel != nullptr;
    const bool is_from_cache = is_there && compilation->kernel->from_cache;
    report_.kernels_compiled += is_there ? 1 : 0;
    report_.kernels_from_cache += is_from_cache ? 1 : 0;
    progress_.kernel(is_from_cache);
    return compilation;
  }

  /// Tries the variants of one kernel.
  void try_group(const std::vector<Variant>& group, const Compilation& compilation) {
    for (const Variant& variant : group) {
      if (has_to_stop()) {
        return;
      }
      try_variant(variant, compilation);
    }
  }

  void try_variant(const Variant& variant, const Compilation& compilation) {
    if (const auto known = known_.find(variant); known != known_.end() && compilation.kernel) {
      take_uncounted(known->second, compilation);
      return;
    }
    VariantResult result = compilation.kernel
                               ? evaluate(variant, *compilation.kernel)
                               : unevaluated(variant, ResultState::compile, compilation.log);
    const bool is_to_count = result.measurement() != nullptr && result.state == ResultState::ok;
    if (is_to_count) {
      std::get<Measurement>(result.outcome).counters_missing_because = kNotCountedYet;
    }
    const long long row_id = record(result);
    row_ids_[variant] = row_id;
    strategy_.tell(result);
    if (report_.provenance == Provenance::measured && !report_.replayed) {
      progress_.device_idle(report_.times.device_idle_s());
    }
    progress_.advance(result);
    report_.results.push_back(std::move(result));
    if (is_to_count) {
      count_later(row_id, compilation);
    }
  }

  /// What another run measured and could not count.
  void take_uncounted(StoredResult& known, const Compilation& compilation) {
    take_result(known);
    count_later(known.id, compilation);
  }

  void take_result(StoredResult& known) {
    row_ids_[known.result.variant] = known.id;
    evaluator_.complete(report_.problem, known.result);
    strategy_.tell(known.result);
    progress_.known(known.result);
    report_.results.push_back(std::move(known.result));
    ++report_.known;
  }

  VariantResult evaluate(const Variant& variant, const CompiledKernel& kernel) {
    auto dropped = report_.replayed
                       ? std::nullopt
                       : check_compiled(report_.problem, variant, report_.device, kernel.resources);
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

  /// Switching the profiler on and passing over the launches takes about a fifth of a second, and
  /// three times that while other GPUs of the host are counted, so it pays to do it seldom. The row
  /// is stored already, and another run counts what this one could not.
  void count_later(long long row_id, const Compilation& compilation) {
    using std::chrono::steady_clock;
    constexpr std::chrono::seconds kCountEvery{20};
    if (uncounted_.empty()) {
      waiting_since_ = steady_clock::now();
    }
    uncounted_.push_back({report_.results.size() - 1, row_id, compilation.kernel});
    if (steady_clock::now() - waiting_since_ >= kCountEvery) {
      count();
    }
  }

  void count() {
    const PhaseTimer timer(report_.times.count_s);
    const std::vector<Uncounted> waiting = std::exchange(uncounted_, {});
    std::vector<Contender> contenders;
    for (const Uncounted& one : waiting) {
      contenders.push_back({report_.results[one.place].variant, one.kernel.get()});
    }
    if (contenders.empty()) {
      return;
    }
    progress_.phase("counting L2 misses of " + std::to_string(contenders.size()) + " variants");
    std::vector<CounterReading> readings = evaluator_.count(report_.problem, contenders);
    for (std::size_t i = 0; i < readings.size(); ++i) {
      Measurement& measurement = std::get<Measurement>(report_.results[waiting[i].place].outcome);
      measurement.counters = readings[i].counters;
      measurement.counters_missing_because = std::move(readings[i].missing_because);
    }
    record_counters(waiting);
  }

  void record_counters(const std::vector<Uncounted>& counted) {
    const PhaseTimer timer(report_.times.record_s);
    for (const Uncounted& one : counted) {
      store_.record_counters(one.row_id, *report_.results[one.place].measurement());
    }
  }

  long long record(const VariantResult& result) {
    const PhaseTimer timer(report_.times.record_s);
    return store_.record(options_.run_id, report_.problem, report_.device, result);
  }

  Strategy& strategy_;
  std::vector<Variant> rivals_;
  Evaluator& evaluator_;
  Store& store_;
  CompileQueue& queue_;
  const TuneOptions& options_;
  Progress& progress_;
  TuneReport& report_;
  KnownResults known_;
  RowIds row_ids_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<Uncounted> uncounted_;
  std::chrono::steady_clock::time_point waiting_since_;
};

/// True when all of it was known and finals have decided it before.
bool is_decided(const TuneReport& report) {
  return report.known == report.results.size() &&
         std::ranges::any_of(report.results, [](const VariantResult& result) {
           const Measurement* measurement = result.measurement();
           return measurement != nullptr && measurement->sampling == Sampling::finals;
         });
}

/// Takes over the decision that an earlier run came to.
void take_known_decision(TuneReport& report, const Store& store, long long run_id) {
  auto known = store.known_decision(run_id, report.problem, report.device);
  if (!known) {
    return;
  }
  for (std::size_t i = 0; i < known->finalists.size(); ++i) {
    if (known->screening_us[i]) {
      report.screening_us[known->finalists[i].result.variant] = *known->screening_us[i];
    }
  }
  report.finalists = std::move(known->finalists);
  report.tie_threshold = known->tie_threshold;
  report.decided_before = true;
}

/// Of every result, by variant; the same for all that an objective has not ranked.
std::map<Variant, std::size_t> places_in_choice(const TuneReport& report) {
  std::map<Variant, std::size_t> places;
  for (const VariantResult& result : report.results) {
    places[result.variant] = report.choice.ranked.size();
  }
  for (std::size_t i = 0; i < report.choice.ranked.size(); ++i) {
    places[report.choice.ranked[i].variant] = i;
  }
  return places;
}

/// By the rule that the store answers with, so that the first row is what a query returns.
void rank(TuneReport& report) {
  const auto failures = std::stable_partition(
      report.results.begin(), report.results.end(),
      [](const VariantResult& result) { return result.state == ResultState::ok; });
  const auto times_us = comparable_times_us(report);
  const auto places = places_in_choice(report);
  std::stable_sort(report.results.begin(), failures,
                   [&](const VariantResult& a, const VariantResult& b) {
                     if (places.at(a.variant) != places.at(b.variant)) {
                       return places.at(a.variant) < places.at(b.variant);
                     }
                     const double a_us = times_us.at(a.variant);
                     const double b_us = times_us.at(b.variant);
                     return a_us != b_us ? a_us < b_us : is_better(report.problem, a, b);
                   });
  if (!report.finalists.empty() && report.choice.ranked.empty()) {
    const Variant& decided = report.finalists.front().result.variant;
    const auto winner = std::find_if(report.results.begin(), failures,
                                     [&](const auto& result) { return result.variant == decided; });
    if (winner != failures) {
      std::rotate(report.results.begin(), winner, winner + 1);
    }
  }
}

/// Lets the fastest meet, and puts their new results in place of the screening's.
void hold_finals(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                 Store& store, const TuneOptions& options, RowIds& row_ids) {
  const PhaseTimer timer(report.times.finals_s);
  const auto chosen = choose_finalists(
      report.results, default_variant(report.problem, report.device), *options.finals);
  FinalsOutcome outcome = run_finals(report.problem, evaluator, kernels, chosen, *options.finals);
  report.undecided_because = std::move(outcome.undecided_because);
  if (outcome.finalists.empty()) {
    return;
  }
  const std::vector<long long> finalist_ids =
      store.record_decision(options.run_id, report.problem, report.device, outcome.finalists,
                            options.finals->tie_threshold);
  for (std::size_t i = 0; i < finalist_ids.size(); ++i) {
    row_ids[outcome.finalists[i].result.variant] = finalist_ids[i];
  }
  for (const Finalist& finalist : outcome.finalists) {
    const auto screened = std::find_if(
        report.results.begin(), report.results.end(),
        [&](const VariantResult& result) { return result.variant == finalist.result.variant; });
    report.screening_us[finalist.result.variant] = screened->time_us();
    *screened = finalist.result;
  }
  report.finalists = std::move(outcome.finalists);
  report.tie_threshold = options.finals->tie_threshold;
}

/// Puts the robust one of the best predictions first, in the report and in what the store answers.
/// Requires: the report is ranked.
void prefer_robust(TuneReport& report, Store& store, long long run_id) {
  report.robust = choose_robust(report.results);
  if (!report.robust || report.robust->place == 0) {
    return;
  }
  const auto fastest = report.results.begin();
  const auto robust = fastest + static_cast<std::ptrdiff_t>(report.robust->place);
  const auto known = store.known_decision(run_id, report.problem, report.device);
  if (!known || known->finalists.front().result.variant != robust->variant) {
    const double ratio = robust->time_us() / fastest->time_us();
    store.record_decision(run_id, report.problem, report.device,
                          std::vector<Finalist>{{.result = *robust, .tied = true},
                                                {.result = *fastest,
                                                 .ratio = 1 / ratio,
                                                 .ratio_low = 1 / ratio,
                                                 .ratio_high = 1 / ratio,
                                                 .tied = true}},
                          kModelTie);
  }
  std::rotate(fastest, robust, robust + 1);
  report.robust->place = 0;
}

/// Places among the results whose accesses are worth counting: the best, and a few finalists in
/// their order while their launches together take less than beginning a pass over them does.
/// Those that were tried before are left out. Requires: the report is ranked.
std::vector<std::size_t> uncounted_accesses(const TuneReport& report) {
  constexpr std::size_t kMost = 8;
  constexpr double kLaunchesUs = 20e3;
  std::vector<std::size_t> places;
  std::size_t chosen = 0;
  double launches_us = 0.0;
  for (std::size_t place = 0; place < report.results.size() && chosen < kMost; ++place) {
    const VariantResult& result = report.results[place];
    const Measurement* measurement = result.measurement();
    if (measurement == nullptr || result.state != ResultState::ok) {
      continue;
    }
    const bool is_cheap = measurement->sampling == Sampling::finals &&
                          launches_us + measurement->median_us < kLaunchesUs;
    if (&result != report.best() && !is_cheap) {
      continue;
    }
    ++chosen;
    launches_us += measurement->median_us;
    if (!measurement->accesses && measurement->accesses_missing_because.empty()) {
      places.push_back(place);
    }
  }
  return places;
}

/// Whatever fails becomes the reason why nothing is known: what has been decided stands without.
std::vector<AccessReading> try_count_accesses(const TuneReport& report, Evaluator& evaluator,
                                              const KernelSource& kernels,
                                              const std::vector<std::size_t>& places) {
  try {
    std::vector<CompiledKernel> ready;
    std::vector<Contender> contenders;
    ready.reserve(places.size());
    for (const std::size_t place : places) {
      const Variant& variant = report.results[place].variant;
      ready.push_back(kernels(variant));
      contenders.push_back({variant, &ready.back()});
    }
    return evaluator.count_accesses(report.problem, contenders);
  } catch (const Error& error) {
    return {places.size(),
            AccessReading{std::nullopt, std::string("counting failed: ") + error.what()}};
  }
}

/// How the best go to memory, into the report and their rows.
void count_accesses(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                    Store& store, const RowIds& row_ids) {
  const std::vector<std::size_t> places = uncounted_accesses(report);
  if (places.empty()) {
    return;
  }
  const PhaseTimer timer(report.times.count_s);
  std::vector<AccessReading> readings = try_count_accesses(report, evaluator, kernels, places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    VariantResult& result = report.results[places[i]];
    Measurement& measurement = std::get<Measurement>(result.outcome);
    measurement.accesses = readings[i].accesses;
    measurement.accesses_missing_because = std::move(readings[i].missing_because);
    store.record_accesses(row_ids.at(result.variant), measurement);
  }
}

std::vector<Variant> enumerate(TuneReport& report, const TuneOptions& options) {
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
  return make_strategy(
      options.search, std::move(variants),
      model_predictor(report.problem, report.device, thread_count(options.compile_threads)));
}

/// Tries what the strategy chooses; returns the rows that hold it.
RowIds search(Strategy& strategy, std::vector<Variant> rivals, Evaluator& evaluator,
              const KernelSource& kernels, Store& store, const TuneOptions& options,
              Progress& progress, TuneReport& report) {
  auto queue = std::make_unique<CompileQueue>(thread_count(options.compile_threads), kernels);
  Run run(strategy, std::move(rivals), evaluator, store, *queue, options, progress, report);
  run.search();
  if (report.interrupted && options.abandons_compilations) {
    queue->abandon();
  }
  const PhaseTimer timer(report.times.end_s);
  queue.reset();
  return run.take_row_ids();
}

/// Those of the options, and the default variant where finals will compare to it and the axes
/// allow it.
std::vector<Variant> choose_rivals(const TuneReport& report, const TuneOptions& options,
                                   const std::vector<Variant>& space) {
  std::vector<Variant> rivals = options.rivals;
  const Variant usual = default_variant(report.problem, report.device);
  if (options.finals && report.provenance == Provenance::measured &&
      std::ranges::find(space, usual) != space.end()) {
    rivals.push_back(usual);
  }
  std::ranges::sort(rivals);
  rivals.erase(std::unique(rivals.begin(), rivals.end()), rivals.end());
  return rivals;
}

std::string title_of(const TuneReport& report, std::size_t variants) {
  const std::string doing = report.replayed                              ? "replaying "
                            : report.provenance == Provenance::predicted ? "predicting "
                                                                         : "measuring ";
  return to_string(report.problem) + " on " + report.device.name + ": " + doing +
         std::to_string(variants) + " variants";
}

}  // namespace

const VariantResult* TuneReport::best() const {
  const bool found = !results.empty() && results.front().state == ResultState::ok;
  return found ? &results.front() : nullptr;
}

std::map<Variant, double> comparable_times_us(const TuneReport& report) {
  std::map<Variant, double> times_us;
  for (const VariantResult& result : report.results) {
    times_us[result.variant] = result.time_us();
  }
  if (report.finalists.empty()) {
    return times_us;
  }
  const VariantResult& winner = report.finalists.front().result;
  const auto screened = report.screening_us.find(winner.variant);
  const double winner_us =
      screened != report.screening_us.end() ? screened->second : winner.time_us();
  for (const Finalist& finalist : report.finalists) {
    times_us[finalist.result.variant] = finalist.ratio * winner_us;
  }
  return times_us;
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
  TuneReport report;
  report.problem = problem;
  report.device = evaluator.device();
  report.provenance = options.provenance;
  report.replayed = options.replays;
  report.objective = options.objective.objective.text();
  const bool is_measured = options.provenance == Provenance::measured && !options.replays;
  RowIds row_ids;
  {
    const PhaseTimer timer(report.times.total_s);
    const bool wants_energy = is_measured && options.objective.wants_energy();
    const PowerReading idle =
        wants_energy ? idle_power(problem, evaluator, options.objective) : PowerReading{};
    std::vector<Variant> space = enumerate(report, options);
    report.space_size = space.size();
    std::vector<Variant> rivals = choose_rivals(report, options, space);
    const auto strategy = choose_strategy(report, options, std::move(space), progress);
    const ProgressScope scope(progress, title_of(report, strategy->planned()), strategy->planned());
    row_ids =
        search(*strategy, std::move(rivals), evaluator, kernels, store, options, progress, report);
    if (is_decided(report)) {
      take_known_decision(report, store, options.run_id);
    } else if (options.finals && !report.interrupted && report.provenance == Provenance::measured) {
      progress.phase("deciding between the fastest in shared rounds");
      hold_finals(report, evaluator, kernels, store, options, row_ids);
    }
    if (wants_energy && !report.interrupted) {
      progress.phase("measuring energy");
      const PhaseTimer energy_timer(report.times.energy_s);
      measure_energies(report, evaluator, kernels, store, options, idle, row_ids);
    }
    if (is_measured && !options.objective.objective.is_time() && !report.interrupted) {
      choose_by_objective(report, store, options, row_ids);
    }
    rank(report);
    if (report.provenance == Provenance::predicted && !report.replayed && !report.interrupted) {
      prefer_robust(report, store, options.run_id);
    }
    if (is_measured && options.count_accesses && !report.interrupted) {
      progress.phase("counting how the best go to memory");
      count_accesses(report, evaluator, kernels, store, row_ids);
    }
  }
  return report;
}

}  // namespace swr
