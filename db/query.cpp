// SPDX-License-Identifier: MIT
// What a Store answers.
#include "core/reject.h"
#include "db/lookup_records.h"
#include "db/problem_key.h"
#include "db/rows.h"
#include "db/shipped.h"
#include "db/store_impl.h"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace swr {
namespace {

namespace fs = std::filesystem;

struct StoredProblem {
  long long id = 0;
  Problem problem;
};

struct StoredDevice {
  long long id = 0;
  DeviceInfo device;
};

/// Rows of `device` that same_device() holds to be one: their results are pooled.
using DeviceGroup = std::vector<StoredDevice>;

/// Tables of a query: the runs whose results a run takes over, the measured results of a problem on
/// a device, and the run since which they count.
std::string alike_here_since() {
  return "WITH alike AS (SELECT run.id, run.starts_over FROM run JOIN run AS asked "
         "ON asked.id = :run AND run.id <= asked.id AND run.conditions <> '' "
         "AND run.conditions = asked.conditions AND run.l2_state = asked.l2_state "
         "AND run.templates_digest = asked.templates_digest "
         "AND run.nvrtc_version = asked.nvrtc_version "
         "AND run.driver_version = asked.driver_version), "
         "here AS (SELECT id, run_id, variant_id FROM result WHERE problem_id = :problem "
         "AND device_id = :device AND provenance = 'measured'), "
         "since AS (SELECT coalesce(max(id), 0) AS run_id FROM alike WHERE starts_over = 1 "
         "AND (id = :run OR id IN (SELECT run_id FROM here))) ";
}

/// A decision's row.
struct DecisionRow {
  long long id = 0;
  long long winner_id = 0;
  std::optional<double> tie_threshold;
};

/// Reads one database; everything else in this file goes through it.
class Reader {
 public:
  Reader(const SQLite::Database& database, const fs::path& path)
      : database_(database), path_(path) {}

  std::optional<StoredProblem> find(const Problem& problem) const {
    SQLite::Statement row(database_,
                          "SELECT id FROM problem WHERE op = ? AND kind = ? AND sizes = ?");
    row.bind(1, std::string(name_of(problem.operation())));
    row.bind(2, kind_text(problem));
    row.bind(3, sizes_text(problem));
    return row.executeStep() ? std::optional(StoredProblem{row.getColumn(0).getInt64(), problem})
                             : std::nullopt;
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
  std::vector<StoredResult> latest(const StoredProblem& problem, const DeviceGroup& devices,
                                   const Setting& setting) const {
    std::map<std::pair<Variant, Provenance>, StoredResult> newest;
    for (const StoredDevice& device : devices) {
      for (StoredResult& stored : latest(problem, device, setting)) {
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
        database_, alike_here_since() + "SELECT result.*, " + variant_columns() +
                       " FROM result JOIN variant ON variant.id = result.variant_id "
                       "WHERE result.id IN (SELECT max(here.id) FROM here JOIN alike ON alike.id = "
                       "here.run_id "
                       "WHERE here.run_id >= (SELECT run_id FROM since) GROUP BY variant_id)");
    bind_question(row, run_id, problem, device);
    return read_all(row, problem, device);
  }

  /// The newest decision among the runs that a run continues.
  std::optional<DecisionRow> known_decision(long long run_id, const StoredProblem& problem,
                                            const StoredDevice& device,
                                            std::string_view objective) const {
    SQLite::Statement row(
        database_, alike_here_since() +
                       "SELECT decision.id, winner_id, tie_threshold FROM decision JOIN alike "
                       "ON alike.id = decision.run_id WHERE decision.run_id >= "
                       "(SELECT run_id FROM since) AND decision.winner_id IN (SELECT id FROM here) "
                       "AND decision.objective = :objective ORDER BY decision.id DESC LIMIT 1");
    bind_question(row, run_id, problem, device);
    row.bind(":objective", std::string(objective));
    if (!row.executeStep()) {
      return std::nullopt;
    }
    return DecisionRow{row.getColumn(0).getInt64(), row.getColumn(1).getInt64(),
                       read_tie_threshold(row, {path_, "decision"})};
  }

  /// The winner first, then by ratio, each with the id of its result.
  std::vector<std::pair<long long, Finalist>> finalists(const DecisionRow& decision) const {
    std::vector<std::pair<long long, Finalist>> finalists;
    SQLite::Statement row(database_,
                          "SELECT result_id, ratio, ratio_low, ratio_high, tied FROM finalist "
                          "WHERE decision_id = ? ORDER BY result_id <> ?, ratio");
    row.bind(1, static_cast<std::int64_t>(decision.id));
    row.bind(2, static_cast<std::int64_t>(decision.winner_id));
    while (row.executeStep()) {
      const long long result_id = row.getColumn(0).getInt64();
      Finalist finalist = read_finalist(row, {path_, "finalist"});
      finalist.result = result(result_id).result;
      finalists.emplace_back(result_id, std::move(finalist));
    }
    return finalists;
  }

  /// The median of the newest screening of a finalist's variant before its finals.
  std::optional<double> screening_us(long long run_id, const StoredProblem& problem,
                                     const StoredDevice& device, long long result_id) const {
    SQLite::Statement row(
        database_, alike_here_since() +
                       "SELECT result.median_us FROM result JOIN here ON here.id = result.id "
                       "JOIN alike ON alike.id = result.run_id WHERE result.run_id >= "
                       "(SELECT run_id FROM since) AND result.sampling = 'screening' "
                       "AND result.state = 'ok' AND result.id < :result AND result.variant_id = "
                       "(SELECT variant_id FROM result WHERE id = :result) "
                       "ORDER BY result.id DESC LIMIT 1");
    bind_question(row, run_id, problem, device);
    row.bind(":result", static_cast<std::int64_t>(result_id));
    return row.executeStep() ? std::optional(row.getColumn(0).getDouble()) : std::nullopt;
  }

  /// A result with its samples.
  StoredResult result(long long id) const {
    SQLite::Statement row(database_,
                          "SELECT result.*, " + variant_columns() +
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

  /// Of the current row.
  DeviceInfo device_of(SQLite::Statement& of) const {
    SQLite::Statement row(database_, "SELECT * FROM device WHERE id = ?");
    row.bind(1, of.getColumn("device_id").getInt64());
    row.executeStep();
    return read_device(row, {path_, "device"});
  }

 private:
  static void bind_question(SQLite::Statement& row, long long run_id, const StoredProblem& problem,
                            const StoredDevice& device) {
    row.bind(":run", static_cast<std::int64_t>(run_id));
    row.bind(":problem", static_cast<std::int64_t>(problem.id));
    row.bind(":device", static_cast<std::int64_t>(device.id));
  }

  [[noreturn]] void reject_id(long long id) const {
    reject("database " + path_.string() + " has no result " + std::to_string(id) +
           "; ask with the id of a stored result");
  }

  /// What the current row of `result` belongs to.
  Problem problem_of(SQLite::Statement& result) const {
    SQLite::Statement row(database_, "SELECT * FROM problem WHERE id = ?");
    row.bind(1, result.getColumn("problem_id").getInt64());
    row.executeStep();
    return read_problem(row, {path_, "problem"});
  }

  std::vector<StoredResult> latest(const StoredProblem& problem, const StoredDevice& device,
                                   const Setting& setting) const {
    SQLite::Statement row(database_,
                          "SELECT result.*, " + variant_columns() +
                              " FROM result JOIN variant ON variant.id = result.variant_id "
                              "WHERE result.id IN (SELECT max(id) FROM result WHERE problem_id = "
                              ":problem AND device_id = :device AND run_id IN "
                              "(SELECT id FROM run WHERE " +
                              in_setting() + ") GROUP BY variant_id, provenance)");
    row.bind(":problem", static_cast<std::int64_t>(problem.id));
    row.bind(":device", static_cast<std::int64_t>(device.id));
    bind_setting(row, setting);
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

/// Store::exact by a table that has what is stored for the problem.
std::optional<StoredResult> exact_result(const LookupTable& table, const Reader& reader,
                                         const Problem& problem, const DeviceInfo& device,
                                         const Setting& setting) {
  const LookupTable* const below = are_shipped_in(setting) ? &shipped_table() : nullptr;
  const auto hit = table.find(problem, device, below, LookupTable::Kinds::own);
  if (!hit || hit->distance > 0 || !hit->on_same_device) {
    return std::nullopt;
  }
  return hit->table == below ? shipped_result(problem, device)
                             : std::optional(reader.result(hit->candidate.result_id));
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

std::optional<Match> Store::best(const Problem& problem, const DeviceInfo& device,
                                 const Setting& setting) const {
  validate(problem);
  return with_database_errors(impl_->path, [&]() -> std::optional<Match> {
    const SQLite::Transaction snapshot(impl_->database);
    const LookupTable table(read_lookup_records(impl_->database, impl_->path, setting,
                                                LookupScope{problem, device.sm_arch}));
    const auto hit = table.find(problem, device);
    if (!hit) {
      return std::nullopt;
    }
    StoredResult stored = Reader(impl_->database, impl_->path).result(hit->candidate.result_id);
    return Match{hit->level, std::move(stored.result), stored.problem, stored.device,
                 hit->distance};
  });
}

std::optional<StoredResult> Store::exact(const Problem& problem, const DeviceInfo& device,
                                         const Setting& setting) const {
  validate(problem);
  return with_database_errors(impl_->path, [&] {
    const SQLite::Transaction snapshot(impl_->database);
    const LookupTable table(read_lookup_records(impl_->database, impl_->path, setting,
                                                LookupScope{problem, device.sm_arch}));
    return exact_result(table, Reader(impl_->database, impl_->path), problem, device, setting);
  });
}

std::vector<StoredResult> Store::results(const Problem& problem, const DeviceInfo& device,
                                         const Setting& setting) const {
  return with_database_errors(impl_->path, [&]() -> std::vector<StoredResult> {
    const Reader reader(impl_->database, impl_->path);
    const auto stored = reader.find(problem);
    if (!stored) {
      return {};
    }
    auto results = reader.latest(*stored, same_devices(reader.device_groups(), device), setting);
    std::ranges::sort(results, comes_first);
    for (StoredResult& result : results) {
      reader.add_samples(result);
    }
    return results;
  });
}

std::vector<StoredResult> Store::known_results(long long run_id, const Problem& problem,
                                               const DeviceInfo& device) const {
  return with_database_errors(impl_->path, [&]() -> std::vector<StoredResult> {
    const Reader reader(impl_->database, impl_->path);
    const auto stored = reader.find(problem);
    if (!stored) {
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
  });
}

std::optional<StoredDecision> Store::known_decision(long long run_id, const Problem& problem,
                                                    const DeviceInfo& device,
                                                    std::string_view objective) const {
  return with_database_errors(impl_->path, [&]() -> std::optional<StoredDecision> {
    const Reader reader(impl_->database, impl_->path);
    const auto stored = reader.find(problem);
    if (!stored) {
      return std::nullopt;
    }
    std::optional<std::pair<StoredDevice, DecisionRow>> newest;
    for (const StoredDevice& same : same_devices(reader.device_groups(), device)) {
      const auto decision = reader.known_decision(run_id, *stored, same, objective);
      if (decision && (!newest || newest->second.id < decision->id)) {
        newest = {same, *decision};
      }
    }
    if (!newest) {
      return std::nullopt;
    }
    StoredDecision known{.tie_threshold = newest->second.tie_threshold};
    for (auto& [result_id, finalist] : reader.finalists(newest->second)) {
      known.screening_us.push_back(reader.screening_us(run_id, *stored, newest->first, result_id));
      known.finalists.push_back(std::move(finalist));
    }
    return known;
  });
}

StoredResult Store::result(long long result_id) const {
  return with_database_errors(
      impl_->path, [&] { return Reader(impl_->database, impl_->path).result(result_id); });
}

std::vector<StoredResult> Store::winners(const Setting& setting) const {
  return with_database_errors(impl_->path, [&] {
    const SQLite::Transaction snapshot(impl_->database);
    const Reader reader(impl_->database, impl_->path);
    const LookupTable table(read_lookup_records(impl_->database, impl_->path, setting));
    std::vector<StoredResult> winners;
    for (const long long id : table.winners()) {
      StoredResult winner = reader.result(id);
      if (winner.result.provenance() == Provenance::predicted) {
        winner = exact_result(table, reader, winner.problem, winner.device, setting)
                     .value_or(std::move(winner));
      }
      winners.push_back(std::move(winner));
    }
    return winners;
  });
}

std::vector<Setting> Store::settings() const {
  return with_database_errors(impl_->path, [&] {
    std::vector<Setting> settings;
    SQLite::Statement row(impl_->database, "SELECT * FROM run");
    while (row.executeStep()) {
      const RunInfo run = read_run(row, {impl_->path, "run"});
      settings.push_back({run.l2_state.empty() ? L2State::warm : parse_l2_state(run.l2_state),
                          run.overlay_digest});
    }
    std::ranges::sort(settings);
    settings.erase(std::unique(settings.begin(), settings.end()), settings.end());
    return settings;
  });
}

std::vector<GpuReference> Store::references(long long run_id) const {
  return with_database_errors(impl_->path, [&] {
    std::vector<GpuReference> references;
    SQLite::Statement row(impl_->database,
                          "SELECT * FROM gpu_reference WHERE run_id = ? ORDER BY id");
    row.bind(1, static_cast<std::int64_t>(run_id));
    while (row.executeStep()) {
      references.push_back(read_reference(row, {impl_->path, "gpu_reference"}));
    }
    return references;
  });
}

std::vector<std::pair<std::string, double>> Store::peers(const Problem& problem,
                                                         const DeviceInfo& device) const {
  return with_database_errors(impl_->path, [&] {
    std::map<std::string, double> newest;
    SQLite::Statement row(impl_->database,
                          "SELECT * FROM gpu_reference WHERE tuned = ? AND state = 'ok' AND "
                          "substr(kernel, 1, ?) = ? ORDER BY id");
    row.bind(1, to_string(problem));
    row.bind(2, static_cast<std::int64_t>(kPeerPrefix.size()));
    row.bind(3, std::string(kPeerPrefix));
    const Reader reader(impl_->database, impl_->path);
    while (row.executeStep()) {
      if (same_device(reader.device_of(row), device)) {
        const GpuReference peer = read_reference(row, {impl_->path, "gpu_reference"});
        newest[peer.kernel.substr(kPeerPrefix.size())] = peer.median_us;
      }
    }
    return std::vector<std::pair<std::string, double>>(newest.begin(), newest.end());
  });
}

RunInfo Store::run_of(long long result_id) const {
  return with_database_errors(impl_->path, [&] {
    SQLite::Statement row(impl_->database,
                          "SELECT run.* FROM run JOIN result ON result.run_id = run.id "
                          "WHERE result.id = ?");
    row.bind(1, static_cast<std::int64_t>(result_id));
    if (!row.executeStep()) {
      reject("database " + impl_->path.string() + " has no result " + std::to_string(result_id) +
             "; ask with the id of a stored result");
    }
    return read_run(row, {impl_->path, "run"});
  });
}

}  // namespace swr
