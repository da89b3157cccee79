// SPDX-License-Identifier: MIT
// tune --replay: searches recorded spaces through the tuner, without a GPU.
#include "core/number_text.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/live_view.h"
#include "tuner/cli/report_sink.h"
#include "tuner/cli/tune_command.h"
#include "tuner/cli/work_source.h"
#include "tuner/run/tuner.h"
#include "tuner/search/replay_evaluator.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace swr::cli {
namespace {

/// How much slower the fastest variant found is than the fastest recorded, as a share; by recorded
/// times. Empty when the search met no success.
std::optional<double> regret(const TuneReport& report, const RecordedSpace& space) {
  std::optional<double> found_us;
  for (const VariantResult& result : report.results) {
    if (result.state == ResultState::ok) {
      found_us = std::min(found_us.value_or(result.time_us()), result.time_us());
    }
  }
  return found_us ? std::optional(*found_us / space.best_us() - 1.0) : std::nullopt;
}

std::string regret_note(std::optional<double> share, const RecordedSpace& space) {
  constexpr double kPercent = 100.0;
  return "fastest recorded: " + time_text(space.best_us()) + "; " +
         (share ? "the fastest found is " + significant_text(*share * kPercent, 3) + " % slower"
                : "the search met no success");
}

/// In memory, unless a database was named: nobody takes a replayed result for a GPU's by accident.
Store open_store(const TuneSession& session) {
  if (!session.common.database) {
    return Store::in_memory();
  }
  return Store(*session.common.database, Store::Mode::read_write, Store::Content::replayed);
}

std::string storage_note(const TuneSession& session) {
  return session.common.database ? "stored as replayed in " + session.common.database->string() +
                                       ": ask with swr-tune query --replayed\n"
                                 : "nothing is stored\n";
}

/// A run for each space, with the versions that it was recorded with. Runs continue each other.
long long begin_run(Store& store, const TuneSession& session, const RecordedSpace& space) {
  // A recorded space is as good as a present GPU.
  const SearchOptions search = search_options(session, Provenance::measured);
  return store.begin_run({.command = session.command_line,
                          .swr_version = space.origin.swr_version,
                          .templates_digest = space.origin.templates_digest,
                          .overlay_digest = space.origin.overlay_digest,
                          .nvrtc_version = space.origin.nvrtc_version,
                          .driver_version = space.origin.driver_version,
                          .l2_state = space.origin.l2_state,
                          .seed = session.options.seed,
                          .strategy = std::string(to_string(search.strategy)),
                          .max_variants = session.options.budget,
                          .max_s = search.max_s,
                          .conditions = "replayed"});
}

TuneReport replay(ReplayEvaluator& recording, Store& store, const TuneSession& session,
                  const InterruptListener& interrupt, ProgressSinks& sinks) {
  const RecordedSpace& space = recording.space();
  // Assigned one by one: of a list in braces GCC 13 and 14 warn that a member may be used
  // uninitialised.
  TuneOptions options;
  options.search = search_options(session, Provenance::measured);
  options.compile_threads = session.options.jobs;
  options.provenance = space.results.front().provenance();
  options.run_id = begin_run(store, session, space);
  options.finals = FinalsOptions{.seed = session.options.seed};
  options.variants = recording.variants();
  options.replays = true;
  options.stop_requested = [&interrupt] { return interrupt.interrupted(); };
  const KernelSource no_kernels = [](const Variant&) { return CompiledKernel{}; };
  sinks.events().announce(space.problem, space.device, options.provenance);
  TuneReport report = tune(space.problem, recording, no_kernels, store, options, sinks.progress());
  sinks.events().finish(report);
  if (!report.interrupted && !report.out_of_time) {
    store.finish_run(options.run_id);
  }
  return report;
}

std::vector<RecordedSpace> load_all(const std::vector<std::string>& files) {
  std::vector<RecordedSpace> spaces;
  for (const std::string& file : files) {
    std::ranges::move(load_spaces(file), std::back_inserter(spaces));
  }
  return spaces;
}

std::vector<std::string> identities_of(const std::vector<RecordedSpace>& spaces) {
  std::vector<std::string> identities;
  for (const RecordedSpace& space : spaces) {
    identities.push_back(to_string(space.problem) + " on " + space.device.name);
  }
  return identities;
}

Json head_of(const TuneSession& session, const RecordedSpace& first) {
  Json head = document(session, first.results.front().provenance(), first.device);
  const auto& files = session.options.replay;
  head["replay"] = files.size() == 1 ? Json(files.front()) : Json(files);
  if (session.common.database) {
    head["database"] = session.common.database->string();
  }
  return head;
}

}  // namespace

int run_replay(const TuneSession& asked) {
  const ShardChoice worker = choose_shard(asked.options.shard, asked.environment);
  std::vector<RecordedSpace> spaces = load_all(asked.options.replay);
  const auto identities = identities_of(spaces);
  const auto places = places_of(asked, worker, identities);
  const TuneSession own = as_worker(asked, worker, places.size(), spaces.size());
  if (places.empty()) {
    return kExitSuccess;
  }
  const InterruptListener interrupt([&own] { acknowledge_interrupt(own); });
  const WatchedRun watched(own);
  const TuneSession& session = watched.session();
  WorkSource work(session, worker, identities, places);
  Store store = open_store(session);
  ReportSink sink(session, head_of(session, spaces[places.front()]));
  ProgressSinks progress(session);
  const auto stop_requested = [&interrupt] { return interrupt.interrupted(); };
  while (const auto place = work.next(stop_requested)) {
    ReplayEvaluator recording(spaces[*place]);  // A queue may hand a place out again.
    const TuneReport report = replay(recording, store, session, interrupt, progress);
    const auto share = regret(report, recording.space());
    sink.add(report, regret_note(share, recording.space()) + "\n" + storage_note(session),
             {{"recorded_best_us", recording.space().best_us()},
              {"regret", share ? Json(*share) : Json()}});
    if (interrupt.interrupted()) {
      break;
    }
    work.done();
  }
  sink.finish();
  progress.finish();
  return interrupt.interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace swr::cli
