// SPDX-License-Identifier: MIT
#include "db/query.h"

#include "db/lookup_records.h"
#include "db/match.h"
#include "db/rows.h"
#include <swr/error.h>

#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace swr {
namespace {

namespace fs = std::filesystem;

struct StoredProblem {
  long long id = 0;
  AttentionProblem problem;
};

struct StoredDevice {
  long long id = 0;
  DeviceInfo device;
};

/// Rows of `device` that same_device() holds to be one: their results are pooled.
using DeviceGroup = std::vector<StoredDevice>;

/// Reads one database; everything else in this file goes through it.
class Reader {
 public:
  Reader(const SQLite::Database& database, const fs::path& path)
      : database_(database), path_(path) {}

  std::vector<StoredProblem> problems() const {
    std::vector<StoredProblem> problems;
    SQLite::Statement row(database_, "SELECT * FROM problem ORDER BY id");
    while (row.executeStep()) {
      problems.push_back({row.getColumn("id").getInt64(), read_problem(row, {path_, "problem"})});
    }
    return problems;
  }

  /// Devices in the order of their first row.
  std::vector<DeviceGroup> device_groups() const {
    std::vector<DeviceGroup> groups;
    SQLite::Statement row(database_, "SELECT * FROM device ORDER BY id");
    while (row.executeStep()) {
      StoredDevice stored{row.getColumn("id").getInt64(), read_device(row, {path_, "device"})};
      const auto group = std::ranges::find_if(groups, [&](const DeviceGroup& candidate) {
        return same_device(candidate.front().device, stored.device);
      });
      (group == groups.end() ? groups.emplace_back() : *group).push_back(std::move(stored));
    }
    return groups;
  }

  /// The newest result of each variant and provenance, oldest first, without samples.
  std::vector<StoredResult> latest(const StoredProblem& problem, const DeviceGroup& devices) const {
    std::map<std::pair<Variant, Provenance>, StoredResult> newest;
    for (const StoredDevice& device : devices) {
      for (StoredResult& stored : latest(problem, device)) {
        StoredResult& slot = newest[{stored.result.variant, stored.result.provenance()}];
        if (slot.id < stored.id) {
          slot = std::move(stored);
        }
      }
    }
    std::vector<StoredResult> results;
    std::ranges::transform(newest, std::back_inserter(results),
                           [](auto& entry) { return std::move(entry.second); });
    return results;
  }

  /// The newest measured results that continue a run, without samples.
  std::vector<StoredResult> known(long long run_id, const StoredProblem& problem,
                                  const StoredDevice& device) const {
    SQLite::Statement row(
        database_,
        "WITH alike AS (SELECT run.id, run.starts_over FROM run JOIN run AS asked "
        "ON asked.id = :run AND run.id <= asked.id AND run.conditions <> '' "
        "AND run.conditions = asked.conditions AND run.l2_state = asked.l2_state "
        "AND run.templates_digest = asked.templates_digest "
        "AND run.nvrtc_version = asked.nvrtc_version "
        "AND run.driver_version = asked.driver_version), "
        "here AS (SELECT id, run_id, variant_id FROM result WHERE problem_id = :problem "
        "AND device_id = :device AND provenance = 'measured'), "
        "since AS (SELECT coalesce(max(id), 0) AS run_id FROM alike WHERE starts_over = 1 "
        "AND (id = :run OR id IN (SELECT run_id FROM here))) "
        "SELECT result.*, " +
            column_list(to_cells(Variant{})) +
            " FROM result JOIN variant ON variant.id = result.variant_id "
            "WHERE result.id IN (SELECT max(here.id) FROM here JOIN alike ON alike.id = "
            "here.run_id "
            "WHERE here.run_id >= (SELECT run_id FROM since) GROUP BY variant_id)");
    row.bind(":run", static_cast<std::int64_t>(run_id));
    row.bind(":problem", static_cast<std::int64_t>(problem.id));
    row.bind(":device", static_cast<std::int64_t>(device.id));
    return read_all(row, problem, device);
  }

  /// A result with its samples.
  StoredResult result(long long id) const {
    SQLite::Statement row(database_,
                          "SELECT result.*, " + column_list(to_cells(Variant{})) +
                              " FROM result JOIN variant ON variant.id = result.variant_id "
                              "WHERE result.id = ?");
    row.bind(1, static_cast<std::int64_t>(id));
    if (!row.executeStep()) {
      reject_id(id);
    }
    StoredResult stored{id, problem_of(row), device_of(row), read_result(row, {path_, "result"})};
    add_samples(stored);
    return stored;
  }

  void add_samples(StoredResult& stored) const {
    auto* measurement = std::get_if<Measurement>(&stored.result.outcome);
    if (measurement == nullptr) {
      return;
    }
    SQLite::Statement row(database_, "SELECT * FROM sample WHERE result_id = ? ORDER BY position");
    row.bind(1, static_cast<std::int64_t>(stored.id));
    while (row.executeStep()) {
      measurement->samples_us.push_back(read_sample(row, {path_, "sample"}));
    }
  }

 private:
  [[noreturn]] void reject_id(long long id) const {
    throw Error(ErrorCode::invalid_argument, "database " + path_.string() + " has no result " +
                                                 std::to_string(id) +
                                                 "; ask with the id of a stored result");
  }

  /// What the current row of `result` belongs to.
  AttentionProblem problem_of(SQLite::Statement& result) const {
    SQLite::Statement row(database_, "SELECT * FROM problem WHERE id = ?");
    row.bind(1, result.getColumn("problem_id").getInt64());
    row.executeStep();
    return read_problem(row, {path_, "problem"});
  }
  DeviceInfo device_of(SQLite::Statement& result) const {
    SQLite::Statement row(database_, "SELECT * FROM device WHERE id = ?");
    row.bind(1, result.getColumn("device_id").getInt64());
    row.executeStep();
    return read_device(row, {path_, "device"});
  }

  std::vector<StoredResult> latest(const StoredProblem& problem, const StoredDevice& device) const {
    SQLite::Statement row(database_,
                          "SELECT result.*, " + column_list(to_cells(Variant{})) +
                              " FROM result JOIN variant ON variant.id = result.variant_id "
                              "WHERE result.id IN (SELECT max(id) FROM result WHERE problem_id = ? "
                              "AND device_id = ? GROUP BY variant_id, provenance)");
    row.bind(1, static_cast<std::int64_t>(problem.id));
    row.bind(2, static_cast<std::int64_t>(device.id));
    return read_all(row, problem, device);
  }

  std::vector<StoredResult> read_all(SQLite::Statement& row, const StoredProblem& problem,
                                     const StoredDevice& device) const {
    std::vector<StoredResult> results;
    while (row.executeStep()) {
      results.push_back({row.getColumn("id").getInt64(), problem.problem, device.device,
                         read_result(row, {path_, "result"})});
    }
    return results;
  }

  const SQLite::Database& database_;
  const fs::path& path_;
};

/// Rows of `device` whose results are valid for the device, whatever group they opened.
DeviceGroup same_devices(const std::vector<DeviceGroup>& groups, const DeviceInfo& device) {
  DeviceGroup same;
  for (const DeviceGroup& group : groups) {
    std::ranges::copy_if(group, std::back_inserter(same), [&](const StoredDevice& stored) {
      return same_device(stored.device, device);
    });
  }
  return same;
}

/// Successes before failures, measured before predicted, fastest first.
bool comes_first(const StoredResult& a, const StoredResult& b) {
  const auto rank = [](const StoredResult& stored) {
    return std::tuple(stored.result.state != ResultState::ok, stored.result.provenance());
  };
  if (rank(a) != rank(b)) {
    return rank(a) < rank(b);
  }
  if (a.result.state != ResultState::ok) {
    return to_key(a.result.variant) < to_key(b.result.variant);
  }
  return is_better(a.problem, a.result, b.result);
}

}  // namespace

std::optional<Match> find_best(SQLite::Database& database, const fs::path& path,
                               const AttentionProblem& problem, const DeviceInfo& device) {
  const SQLite::Transaction snapshot(database);
  const LookupTable table(
      read_lookup_records(database, path, LookupScope{problem, device.sm_arch}));
  const auto hit = table.find(problem, device);
  if (!hit) {
    return std::nullopt;
  }
  StoredResult stored = Reader(database, path).result(hit->candidate.result_id);
  return Match{hit->level, std::move(stored.result), stored.problem, stored.device, hit->distance};
}

std::vector<StoredResult> find_results(const SQLite::Database& database, const fs::path& path,
                                       const AttentionProblem& problem, const DeviceInfo& device) {
  const Reader reader(database, path);
  const auto problems = reader.problems();
  const auto stored = std::ranges::find(problems, problem, &StoredProblem::problem);
  if (stored == problems.end()) {
    return {};
  }
  auto results = reader.latest(*stored, same_devices(reader.device_groups(), device));
  std::ranges::sort(results, comes_first);
  for (StoredResult& result : results) {
    reader.add_samples(result);
  }
  return results;
}

std::vector<StoredResult> find_known_results(const SQLite::Database& database, const fs::path& path,
                                             long long run_id, const AttentionProblem& problem,
                                             const DeviceInfo& device) {
  const Reader reader(database, path);
  const auto problems = reader.problems();
  const auto stored = std::ranges::find(problems, problem, &StoredProblem::problem);
  if (stored == problems.end()) {
    return {};
  }
  std::map<Variant, StoredResult> newest;
  for (const StoredDevice& same : same_devices(reader.device_groups(), device)) {
    for (StoredResult& known : reader.known(run_id, *stored, same)) {
      StoredResult& slot = newest[known.result.variant];
      if (slot.id < known.id) {
        slot = std::move(known);
      }
    }
  }
  std::vector<StoredResult> results;
  for (auto& [variant, known] : newest) {
    if (known.result.state != ResultState::throttled) {
      reader.add_samples(known);
      results.push_back(std::move(known));
    }
  }
  return results;
}

StoredResult find_result(const SQLite::Database& database, const fs::path& path,
                         long long result_id) {
  return Reader(database, path).result(result_id);
}

RunInfo find_run_of(const SQLite::Database& database, const fs::path& path, long long result_id) {
  SQLite::Statement row(database,
                        "SELECT run.* FROM run JOIN result ON result.run_id = run.id "
                        "WHERE result.id = ?");
  row.bind(1, static_cast<std::int64_t>(result_id));
  if (!row.executeStep()) {
    throw Error(ErrorCode::invalid_argument, "database " + path.string() + " has no result " +
                                                 std::to_string(result_id) +
                                                 "; ask with the id of a stored result");
  }
  return read_run(row, {path, "run"});
}

std::vector<StoredResult> find_winners(SQLite::Database& database, const fs::path& path) {
  const SQLite::Transaction snapshot(database);
  const Reader reader(database, path);
  std::vector<StoredResult> winners;
  for (const long long id : LookupTable(read_lookup_records(database, path)).winners()) {
    winners.push_back(reader.result(id));
  }
  return winners;
}

}  // namespace swr
