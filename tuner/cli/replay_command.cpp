// SPDX-License-Identifier: MIT
// tune --replay: searches recorded spaces through the tuner, without a GPU.
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/report_sink.h"
#include "tuner/number_text.h"
#include "tuner/search/replay_evaluator.h"
#include "tuner/search/stored_spaces.h"
#include "tuner/tuner.h"

#include <algorithm>
#include <ostream>
#include <string>

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
                : "the search met no success") +
         "\nnothing is stored\n";
}

TuneReport replay(ReplayEvaluator& recording, const Session& session,
                  const InterruptListener& interrupt, ProgressSinks& sinks) {
  const RecordedSpace& space = recording.space();
  TuneOptions options{.search = search_options(session.options),
                      .compile_threads = session.options.jobs,
                      .provenance = space.results.front().provenance(),
                      .finals = FinalsOptions{.seed = session.options.seed},
                      .recorded = recording.variants(),
                      .stop_requested = [&interrupt] { return interrupt.interrupted(); }};
  Store store = Store::in_memory();
  options.run_id = store.begin_run({.command = session.command_line,
                                    .swr_version = space.origin.swr_version,
                                    .l2_state = space.origin.l2_state});
  const KernelSource no_kernels = [](const Variant&) { return CompiledKernel{}; };
  sinks.events().announce(space.problem, space.device, options.provenance);
  TuneReport report = tune(space.problem, recording, no_kernels, store, options, sinks.progress());
  sinks.events().finish(report);
  return report;
}

}  // namespace

int run_replay(const Session& session) {
  const std::filesystem::path& file = *session.options.tune_replay;
  std::vector<RecordedSpace> spaces = load_spaces(file);
  const InterruptListener interrupt;
  Json head = document(session, spaces.front().results.front().provenance(), spaces.front().device);
  head["replay"] = file.string();
  ReportSink sink(session, std::move(head));
  ProgressSinks progress(session);
  for (RecordedSpace& space : spaces) {
    ReplayEvaluator recording(std::move(space));
    const TuneReport report = replay(recording, session, interrupt, progress);
    const auto share = regret(report, recording.space());
    sink.add(report, regret_note(share, recording.space()),
             {{"recorded_best_us", recording.space().best_us()},
              {"regret", share ? Json(*share) : Json()}});
    if (interrupt.interrupted()) {
      break;
    }
  }
  sink.finish();
  progress.finish();
  return interrupt.interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace swr::cli
