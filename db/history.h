// SPDX-License-Identifier: MIT
// Everything a database holds, in the order in which it was recorded: for reports, which show how
// answers came about and not only what they are.
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/store.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swr {

struct RecordedRun {
  long long id = 0;
  std::string started_at;                  ///< UTC, ISO 8601.
  std::optional<std::string> finished_at;  ///< Empty when it was interrupted.
  RunInfo info;
};

struct RecordedResult {
  long long id = 0;
  long long run_id = 0;
  VariantResult result;  ///< Without samples.
};

/// One who took part in finals.
struct RecordedFinalist {
  long long result_id = 0;
  double ratio = 1.0;
  double ratio_low = 1.0;
  double ratio_high = 1.0;
  bool tied = false;
  long long rounds = 0;  ///< Samples taken of it.
};

struct RecordedDecision {
  long long run_id = 0;
  long long winner_id = 0;
  std::string objective;  ///< kTimeObjective of finals.
  /// The share below which a difference was a tie; empty in rows of schemas before 5.
  std::optional<double> tie_threshold;
  std::vector<RecordedFinalist> finalists;  ///< By ratio.
};

/// One problem on one device, whatever names the device went by.
struct RecordedPlace {
  Problem problem;
  DeviceInfo device;
  std::vector<RecordedResult> results;      ///< Oldest first.
  std::vector<RecordedDecision> decisions;  ///< Oldest first.
  /// Store::peers.
  std::vector<std::pair<std::string, double>> peers = {};
};

struct History {
  std::vector<RecordedRun> runs;      ///< Oldest first.
  std::vector<RecordedPlace> places;  ///< By problem, then by device.
  /// Operations whose rows are not among these: kernels of users whose spec neither the file nor
  /// the process has.
  std::vector<std::string> unknown_kernels;
};

/// Reads one state of the file.
/// Throws: Error{not_found}; Error{unreadable} naming the row whose values cannot be believed;
/// Error{database_locked}.
History read_history(const std::filesystem::path& path);

}  // namespace swr
