// SPDX-License-Identifier: MIT
#include "db/query.h"

#include "db/match.h"
#include "db/rows.h"
#include <swr/constraints.h>
#include <swr/error.h>

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

/// Where results were recorded, seen from a question.
struct Place {
  StoredProblem problem;
  const DeviceGroup* devices = nullptr;
  double shape_distance = 0.0;
  double device_distance = 0.0;
};

bool is_nearer(const Place& a, const Place& b) {
  return std::tuple(a.shape_distance, a.device_distance, a.problem.problem) <
         std::tuple(b.shape_distance, b.device_distance, b.problem.problem);
}

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
  std::vector<StoredResult> latest(const StoredProblem& problem, const StoredDevice& device) const {
    SQLite::Statement row(database_,
                          "SELECT result.*, " + column_list(to_cells(Variant{})) +
                              " FROM result JOIN variant ON variant.id = result.variant_id "
                              "WHERE result.id IN (SELECT max(id) FROM result WHERE problem_id = ? "
                              "AND device_id = ? GROUP BY variant_id, provenance)");
    row.bind(1, static_cast<std::int64_t>(problem.id));
    row.bind(2, static_cast<std::int64_t>(device.id));
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

/// What a stored variant must also serve to be an answer.
struct Question {
  const AttentionProblem& problem;
  const DeviceInfo& device;
};

bool is_answer(const StoredResult& stored, Provenance provenance, const Question& question) {
  return stored.result.state == ResultState::ok && stored.result.provenance() == provenance &&
         !check_constraints(question.problem, stored.result.variant, question.device);
}

std::optional<StoredResult> best_at(const Reader& reader, const StoredProblem& problem,
                                    const DeviceGroup& devices, Provenance provenance,
                                    const Question& question) {
  std::optional<StoredResult> best;
  for (StoredResult& stored : reader.latest(problem, devices)) {
    if (is_answer(stored, provenance, question) &&
        (!best || is_better(problem.problem, stored.result, best->result))) {
      best = std::move(stored);
    }
  }
  if (best) {
    reader.add_samples(*best);
  }
  return best;
}

/// The best answer of the nearest place that has one.
std::optional<Match> walk(const Reader& reader, const std::vector<Place>& places,
                          Provenance provenance, const Question& question, bool on_same_device) {
  for (const Place& place : places) {
    if (auto best = best_at(reader, place.problem, *place.devices, provenance, question)) {
      const MatchLevel level = !on_same_device             ? MatchLevel::same_arch
                               : place.shape_distance == 0 ? MatchLevel::exact
                                                           : MatchLevel::nearest;
      return Match{level, std::move(best->result), best->problem, best->device,
                   place.shape_distance};
    }
  }
  return std::nullopt;
}

/// Places on devices that `accepts`, nearest first.
template <typename Accepts>
std::vector<Place> places_near(const std::vector<StoredProblem>& problems,
                               const std::vector<DeviceGroup>& groups, const Question& question,
                               Accepts&& accepts) {
  std::vector<Place> places;
  for (const DeviceGroup& group : groups) {
    if (!accepts(group)) {
      continue;
    }
    const double apart = device_distance(group.front().device, question.device);
    for (const StoredProblem& stored : problems) {
      if (const auto distance = shape_distance(stored.problem, question.problem)) {
        places.push_back({stored, &group, *distance, apart});
      }
    }
  }
  std::ranges::stable_sort(places, is_nearer);
  return places;
}

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

std::optional<Match> find_best(const SQLite::Database& database, const fs::path& path,
                               const AttentionProblem& problem, const DeviceInfo& device) {
  const Reader reader(database, path);
  const Question question{problem, device};
  const auto problems = reader.problems();
  const auto groups = reader.device_groups();
  const std::vector<DeviceGroup> same{same_devices(groups, device)};
  const auto here = places_near(problems, same, question,
                                [](const DeviceGroup& group) { return !group.empty(); });
  const auto elsewhere = places_near(problems, groups, question, [&](const DeviceGroup& group) {
    return group.front().device.sm_arch == device.sm_arch;
  });
  for (const bool on_same_device : {true, false}) {
    for (const Provenance provenance : {Provenance::measured, Provenance::predicted}) {
      if (auto match = walk(reader, on_same_device ? here : elsewhere, provenance, question,
                            on_same_device)) {
        return match;
      }
    }
  }
  return std::nullopt;
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

std::vector<StoredResult> find_winners(const SQLite::Database& database, const fs::path& path) {
  const Reader reader(database, path);
  std::vector<StoredResult> winners;
  const auto groups = reader.device_groups();
  for (const StoredProblem& problem : reader.problems()) {
    for (const DeviceGroup& group : groups) {
      const Question question{problem.problem, group.front().device};
      auto winner = best_at(reader, problem, group, Provenance::measured, question);
      if (!winner) {
        winner = best_at(reader, problem, group, Provenance::predicted, question);
      }
      if (winner) {
        winners.push_back(std::move(*winner));
      }
    }
  }
  return winners;
}

}  // namespace swr
