// SPDX-License-Identifier: MIT
// Where the reports of a run of several problems go: text or one JSON document on standard output,
// rows to a CSV file, and progress beside them.
#pragma once

#include "core/json.h"
#include "report/event_log.h"
#include "tuner/cli/output_file.h"
#include "tuner/cli/tune_command.h"
#include "tuner/distribute/gpu_history.h"
#include "tuner/run/range_search.h"
#include "tuner/run/tuner.h"
#include <swr/device.h>
#include <swr/result.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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

// Brings the reports of problems that are tuned side by side into the order of their list.

/// Used by any number of threads.
class ReportOrder {
 public:
  /// What follows a report for people.
  using Note = std::function<std::string(const TuneReport&)>;

  /// Holds reports back until all problems before theirs in `order` are done; an empty order passes
  /// each on at once.
  ReportOrder(ReportSink& sink, ProgressSinks& progress, Note note, std::vector<std::size_t> order);

  /// A report of the problem at this place.
  void add(std::size_t place, const TuneReport& report);
  /// There will be no more of them. `agreement` of several runs.
  void done(std::size_t place, std::optional<Agreement> agreement);
  /// The problem is tuned anew: reports that are held back are forgotten.
  void restart(std::size_t place);

  /// Passes on what is still held back, and then the agreements.
  void finish();

 private:
  struct Held {
    std::vector<TuneReport> reports;
    bool is_done = false;
  };

  void pass_on(std::vector<TuneReport>& reports);

  ReportSink& sink_;
  ProgressSinks& progress_;
  Note note_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool is_ordered_;
  std::deque<std::size_t> order_;
  std::map<std::size_t, Held> held_;
  std::map<std::size_t, Agreement> agreements_;
};

}  // namespace swr::cli
