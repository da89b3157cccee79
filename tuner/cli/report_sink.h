// SPDX-License-Identifier: MIT
// Where the reports of a run of several problems go: text or one JSON document on standard output,
// rows to a CSV file, and progress beside them.
#pragma once

#include "core/json.h"
#include "tuner/cli/commands.h"
#include "tuner/event_log.h"
#include "tuner/repeatability.h"
#include "tuner/tuner.h"
#include <swr/device.h>
#include <swr/result.h>

#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace swr::cli {

/// What every document on standard output begins with.
Json document(const Session& session, Provenance provenance, const DeviceInfo& device);

class ReportSink {
 public:
  /// Reports are added to the document. Throws: Error{not_writable} when the CSV file cannot be.
  ReportSink(const Session& session, Json document);

  /// `note` follows the report for people, `more` is added to its record for programs.
  void add(const TuneReport& report, std::string_view note, const Json& more = Json::object());
  void add(const std::vector<Agreement>& agreements);

  /// Throws: Error{not_writable} when the CSV file is incomplete.
  void finish();

 private:
  const Session& session_;
  Json json_;
  std::ofstream csv_;
};

/// What --quiet and --events ask for.
class ProgressSinks {
 public:
  /// Throws: Error{not_writable} when the file of events cannot be.
  explicit ProgressSinks(const Session& session);

  Progress& progress();
  EventLog& events() { return events_; }

  /// Throws: Error{not_writable} when the file of events is incomplete.
  void finish();

 private:
  const Session& session_;
  std::unique_ptr<Progress> display_;
  std::ofstream file_;
  EventLog events_{file_};
  ProgressPair both_{*display_, events_};
};

}  // namespace swr::cli
