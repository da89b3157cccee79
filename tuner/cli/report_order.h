// SPDX-License-Identifier: MIT
// Brings the reports of problems that are tuned side by side into the order of their list.
#pragma once

#include "report/repeatability.h"
#include "tuner/cli/report_sink.h"
#include "tuner/run/tuner.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace swr::cli {

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
