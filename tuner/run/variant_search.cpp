// SPDX-License-Identifier: MIT
#include "tuner/run/stages.h"
#include <swr/error.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace swr {
namespace {

/// A kernel, or why there is none.
struct Compilation {
  std::shared_ptr<const CompiledKernel> kernel;
  std::string log;
};

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

std::vector<Variant> first_members(const Groups& groups) {
  std::vector<Variant> first;
  for (const auto& group : groups) {
    first.push_back(group.front());
  }
  return first;
}

/// The tools and the growing report of one run.
class VariantSearch {
 public:
  /// `rivals` are tried whatever the strategy chooses.
  VariantSearch(Strategy& strategy, std::vector<Variant> rivals, Evaluator& evaluator, Store& store,
                CompileQueue& queue, const TuneOptions& options, Progress& progress,
                TuneReport& report)
      : strategy_(strategy),
        rivals_(std::move(rivals)),
        evaluator_(evaluator),
        store_(store),
        queue_(queue),
        options_(options),
        progress_(progress),
        report_(report),
        known_(known_results(store, report, options.run_id)),
        uncounted_(evaluator, store, progress, report) {}

  void search() {
    for (auto batch = next_batch(); !batch.empty(); batch = next_batch()) {
      try_batch(batch);
    }
    report_.expected_gain = strategy_.expected_gain();
    evaluator_.expect(report_.problem, {});  // A run that was stopped leaves nothing behind.
    try_rivals();
    uncounted_.count();
  }

  RowIds take_row_ids() { return std::move(row_ids_); }

 private:
  std::vector<Variant> next_batch() {
    if (has_to_stop()) {
      return {};
    }
    const PhaseTimer timer(report_.times.search_s);
    progress_.phase("");
    return within_budget(strategy_.propose());
  }

  /// What leaves a place in the budget for every rival that has yet to be tried.
  std::vector<Variant> within_budget(std::vector<Variant> batch) const {
    const auto is_open = [&](const Variant& rival) {
      return std::ranges::find(batch, rival) == batch.end() && !is_tried(rival);
    };
    const auto used = std::ranges::count_if(report_.results, reached_device) +
                      std::ranges::count_if(rivals_, is_open);
    std::size_t left = options_.search.max_variants.value_or(SIZE_MAX);
    left -= std::min(left, static_cast<std::size_t>(used));
    for (auto last = batch.end(); batch.size() > left && last != batch.begin();) {
      --last;
      if (std::ranges::find(rivals_, *last) == rivals_.end()) {
        last = batch.erase(last);
      }
    }
    return batch;
  }

  bool is_tried(const Variant& variant) const {
    return std::ranges::find(report_.results, variant, &VariantResult::variant) !=
           report_.results.end();
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

  /// Takes the kernel of the first group, and of those after it, as far as the evaluator looks
  /// ahead, the ones that are there: the first results come with the first kernel. False when the
  /// run is to stop.
  bool take_kernels(std::span<const std::vector<Variant>> groups,
                    std::deque<Compilation>& kernels) {
    const std::size_t wanted = std::min(groups.size(), 1 + evaluator_.kernels_ahead());
    if (!kernels.empty() && 2 * kernels.size() > wanted) {
      return true;  // By halves, because the evaluator is told of all of them anew.
    }
    while (kernels.size() < wanted &&
           (kernels.empty() || queue_.is_ready(groups[kernels.size()].front()))) {
      auto compilation = wait_for_kernel(groups[kernels.size()].front());
      if (!compilation) {
        return false;
      }
      kernels.push_back(*std::move(compilation));
    }
    std::vector<Contender> expected;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
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
    std::erase_if(rivals_, [this](const Variant& rival) { return is_tried(rival); });
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
      if (found == known_.end() || CounterBacklog::lacks(found->second.result)) {
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
      CounterBacklog::mark(std::get<Measurement>(result.outcome));
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
      uncounted_.add(report_.results.size() - 1, row_id, compilation.kernel);
    }
  }

  /// What another run measured and could not count.
  void take_uncounted(StoredResult& known, const Compilation& compilation) {
    take_result(known);
    uncounted_.add(report_.results.size() - 1, known.id, compilation.kernel);
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
  CounterBacklog uncounted_;
};

}  // namespace

RowIds search_variants(Strategy& strategy, std::vector<Variant> rivals, Evaluator& evaluator,
                       CompileQueue& queue, Store& store, const TuneOptions& options,
                       Progress& progress, TuneReport& report) {
  VariantSearch trial(strategy, std::move(rivals), evaluator, store, queue, options, progress,
                      report);
  trial.search();
  queue.stop();
  return trial.take_row_ids();
}

}  // namespace swr
