// SPDX-License-Identifier: MIT
// Where the reports of a run of several problems go: text or one JSON document on standard output,
// rows to a CSV file, and progress beside them.
#pragma once

#include "core/json.h"
#include "report/event_log.h"
#include "report/repeatability.h"
#include "tuner/cli/output_file.h"
#include "tuner/cli/tune_command.h"
#include "tuner/distribute/gpu_history.h"
#include "tuner/distribute/team_progress.h"
#include "tuner/run/range_search.h"
#include "tuner/run/tuner.h"
#include <swr/device.h>
#include <swr/result.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace swr::cli {

/// What every document on standard output begins with.
Json document(const Session& session, Provenance provenance, const DeviceInfo& device);

class ReportSink {
 public:
  /// Reports are added to the document. Throws: Error{not_writable} when the CSV file cannot be;
  /// Error{invalid_argument} when it must not (output_guard.h).
  ReportSink(const TuneSession& session, Json document);

  /// `note` follows the report for people, `more` is added to its record for programs.
  void add(const TuneReport& report, std::string_view note, const Json& more = Json::object());
  void add(const std::vector<Agreement>& agreements);
  /// Who answers where in the range that was tuned.
  void add(const RangeSearch& range);
  /// How the GPUs of a run on several compared.
  void add(const std::vector<GpuHistory>& histories);

  /// Puts the CSV file in place. Throws: Error{not_writable} when it cannot be written whole.
  void finish();

 private:
  const TuneSession& session_;
  Json json_;
  std::optional<OutputFile> csv_;
};

/// What --quiet and --events ask for. Every GPU of --gpus has its own, used by its thread.
class ProgressSinks {
 public:
  /// `gpus` of --gpus, and how often they will begin a run all together; none without the option.
  /// Throws: Error{not_writable} when the file of events cannot be; Error{invalid_argument} when
  /// it must not (output_guard.h).
  explicit ProgressSinks(const TuneSession& session, std::span<const int> gpus = {},
                         std::size_t runs = 0);

  Progress& progress(std::size_t member = 0);
  EventLog& events(std::size_t member = 0) { return members_[member]->events; }

  /// Writes to the terminal while several GPUs share its line.
  void quietly(const std::function<void()>& write);

  /// Throws: Error{not_writable} when the file of events is incomplete.
  void finish();

 private:
  struct Member {
    Member(Progress& shown, JsonLines& lines, Json common)
        : display(shown), events(lines, std::move(common)) {}

    Progress& display;
    EventLog events;
    ProgressPair both{display, events};
  };

  /// Keeps the display alive while nothing happens.
  void tick(const std::stop_token& stop);

  const TuneSession& session_;
  std::unique_ptr<Progress> display_;
  /// In the place of the display, where several GPUs share one line.
  std::unique_ptr<TeamProgress> team_;
  LiveOutput file_;
  JsonLines events_{file_.stream()};
  std::vector<std::unique_ptr<Member>> members_;
  /// Last, so that it ends before what it shows.
  std::jthread ticker_;
};

}  // namespace swr::cli
