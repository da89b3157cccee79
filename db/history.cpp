// SPDX-License-Identifier: MIT
#include "db/history.h"

#include "core/printable.h"
#include "db/connection.h"
#include "db/kernels.h"
#include "db/rows.h"
#include "db/store_impl.h"
#include "db/table.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <map>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// Reads one database; rows find their place by the ids of their problem and device.
class HistoryReader {
 public:
  HistoryReader(const SQLite::Database& database, const fs::path& path)
      : database_(database), path_(path) {}

  History read() {
    readable_ = is_readable_row(database_);
    read_problems();
    read_devices();
    History history;
    history.unknown_kernels = unknown_kernels(database_);
    history.runs = runs();
    read_results();
    read_decisions();
    read_peers();
    for (auto& [ids, place] : places_) {
      history.places.push_back(std::move(place));
    }
    std::ranges::stable_sort(history.places, {}, &RecordedPlace::problem);
    return history;
  }

 private:
  using PlaceKey = std::pair<long long, long long>;  ///< Ids of problem and device.

  void read_problems() {
    SQLite::Statement row(database_, "SELECT * FROM problem WHERE " + readable_);
    while (row.executeStep()) {
      problems_[row.getColumn("id").getInt64()] = read_problem(row, {path_, "problem"});
    }
  }

  /// A device that is the same as an earlier row stands under that row's id.
  void read_devices() {
    SQLite::Statement row(database_, "SELECT * FROM device ORDER BY id");
    while (row.executeStep()) {
      const long long id = row.getColumn("id").getInt64();
      const DeviceInfo device = read_device(row, {path_, "device"});
      const auto same = std::ranges::find_if(
          devices_, [&](const auto& entry) { return same_device(entry.second, device); });
      device_ids_[id] = same == devices_.end() ? id : same->first;
      devices_.emplace(device_ids_[id], device);
    }
  }

  std::vector<RecordedRun> runs() {
    std::vector<RecordedRun> runs;
    SQLite::Statement row(database_, "SELECT * FROM run ORDER BY id");
    while (row.executeStep()) {
      RecordedRun run{.id = row.getColumn("id").getInt64(),
                      .started_at = printable_line(row.getColumn("started_at").getString()),
                      .finished_at = std::nullopt,
                      .info = read_run(row, {path_, "run"})};
      if (!row.isColumnNull("finished_at")) {
        run.finished_at = printable_line(row.getColumn("finished_at").getString());
      }
      runs.push_back(std::move(run));
    }
    return runs;
  }

  RecordedPlace& place_of(SQLite::Statement& row) {
    const long long problem_id = row.getColumn("problem_id").getInt64();
    const long long device_row = row.getColumn("device_id").getInt64();
    const auto problem = problems_.find(problem_id);
    const auto device_id = device_ids_.find(device_row);
    if (problem == problems_.end() || device_id == device_ids_.end()) {
      throw Error(ErrorCode::unreadable, "database " + path_.string() + " holds a row of problem " +
                                             std::to_string(problem_id) + " and device " +
                                             std::to_string(device_row) + ", which it lacks");
    }
    RecordedPlace& place = places_[{problem_id, device_id->second}];
    place.problem = problem->second;
    place.device = devices_.at(device_id->second);
    return place;
  }

  void read_results() {
    SQLite::Statement row(database_, "SELECT result.*, " + variant_columns() +
                                         " FROM result JOIN variant ON variant.id = "
                                         "result.variant_id WHERE " +
                                         readable_ + " ORDER BY result.id");
    while (row.executeStep()) {
      place_of(row).results.push_back({row.getColumn("id").getInt64(),
                                       row.getColumn("run_id").getInt64(),
                                       read_result(row, {path_, "result"})});
    }
  }

  void read_peers() {
    SQLite::Statement row(
        database_,
        "SELECT * FROM gpu_reference WHERE state = 'ok' AND kernel LIKE 'against %' "
        "ORDER BY id");
    while (row.executeStep()) {
      const GpuReference peer = read_reference(row, {path_, "gpu_reference"});
      const auto device = device_ids_.find(row.getColumn("device_id").getInt64());
      for (auto& [ids, place] : places_) {
        if (device != device_ids_.end() && ids.second == device->second &&
            to_string(place.problem) == peer.tuned) {
          const std::string call = peer.kernel.substr(kPeerPrefix.size());
          std::erase_if(place.peers, [&](const auto& one) { return one.first == call; });
          place.peers.emplace_back(call, peer.median_us);
        }
      }
    }
  }

  std::vector<RecordedFinalist> finalists(long long decision_id) {
    std::vector<RecordedFinalist> finalists;
    SQLite::Statement row(database_,
                          "SELECT finalist.*, (SELECT count(*) FROM sample WHERE sample.result_id "
                          "= finalist.result_id) AS rounds FROM finalist WHERE decision_id = ? "
                          "ORDER BY ratio, result_id");
    row.bind(1, static_cast<std::int64_t>(decision_id));
    while (row.executeStep()) {
      const Finalist read = read_finalist(row, {path_, "finalist"});
      finalists.push_back({.result_id = row.getColumn("result_id").getInt64(),
                           .ratio = read.ratio,
                           .ratio_low = read.ratio_low,
                           .ratio_high = read.ratio_high,
                           .tied = read.tied,
                           .rounds = row.getColumn("rounds").getInt64()});
    }
    return finalists;
  }

  void read_decisions() {
    SQLite::Statement row(database_,
                          "SELECT decision.* FROM decision JOIN problem ON problem.id = "
                          "decision.problem_id WHERE " +
                              readable_ + " ORDER BY decision.id");
    while (row.executeStep()) {
      RecordedDecision decision{.run_id = row.getColumn("run_id").getInt64(),
                                .winner_id = row.getColumn("winner_id").getInt64(),
                                .objective = printable_line(row.getColumn("objective").getString()),
                                .tie_threshold = std::nullopt,
                                .finalists = finalists(row.getColumn("id").getInt64())};
      if (!row.isColumnNull("tie_threshold")) {
        decision.tie_threshold = row.getColumn("tie_threshold").getDouble();
      }
      place_of(row).decisions.push_back(std::move(decision));
    }
  }

  const SQLite::Database& database_;
  const fs::path& path_;
  std::string readable_;  ///< is_readable_row().
  std::map<long long, Problem> problems_;
  std::map<long long, DeviceInfo> devices_;
  std::map<long long, long long> device_ids_;
  std::map<PlaceKey, RecordedPlace> places_;
};

}  // namespace

History read_history(const fs::path& path) {
  return with_database_errors(path, [&] {
    SQLite::Database database = open_database(path, Store::Mode::read_only);
    const SQLite::Transaction snapshot(database);
    require_intact_rows(database, path);
    return HistoryReader(database, path).read();
  });
}

}  // namespace swr
