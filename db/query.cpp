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

/// Who won a decision, and the last result that it knew.
struct Winner {
  StoredResult stored;
  long long last_result_id = 0;
};

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

  /// The winner of the newest decision here, without samples.
  std::optional<Winner> decided(const StoredProblem& problem, const DeviceGroup& devices) const {
    std::optional<Winner> newest;
    for (const StoredDevice& device : devices) {
      auto winner = decided(problem, device);
      if (winner && (!newest || newest->last_result_id < winner->last_result_id)) {
        newest = std::move(winner);
      }
    }
    return newest;
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
  std::optional<Winner> decided(const StoredProblem& problem, const StoredDevice& device) const {
    SQLite::Statement row(
        database_,
        "SELECT result.*, " + column_list(to_cells(Variant{})) +
            ", (SELECT max(result_id) FROM finalist WHERE decision_id = decision.id) AS last_id "
            "FROM decision JOIN result ON result.id = decision.winner_id "
            "JOIN variant ON variant.id = result.variant_id "
            "WHERE decision.problem_id = ? AND decision.device_id = ? "
            "ORDER BY decision.id DESC LIMIT 1");
    row.bind(1, static_cast<std::int64_t>(problem.id));
    row.bind(2, static_cast<std::int64_t>(device.id));
    if (!row.executeStep()) {
      return std::nullopt;
    }
    return Winner{{row.getColumn("id").getInt64(), problem.problem, device.device,
                   read_result(row, {path_, "result"})},
                  row.getColumn("last_id").getInt64()};
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

/// What a stored variant must also serve to be an answer.
struct Question {
  const AttentionProblem& problem;
  const DeviceInfo& device;
};

bool is_answer(const StoredResult& stored, Provenance provenance, const Question& question) {
  return stored.result.state == ResultState::ok && stored.result.provenance() == provenance &&
         !check_constraints(question.problem, stored.result.variant, question.device);
}

/// The newest results that answer.
std::vector<StoredResult> answers_at(const Reader& reader, const StoredProblem& problem,
                                     const DeviceGroup& devices, Provenance provenance,
                                     const Question& question) {
  auto answers = reader.latest(problem, devices);
  std::erase_if(answers, [&](const StoredResult& stored) {
    return !is_answer(stored, provenance, question);
  });
  return answers;
}

/// The decided winner, unless it no longer answers, or a variant measured since is so much faster
/// that noise does not explain it.
std::optional<StoredResult> standing_winner(std::optional<Winner> winner,
                                            const std::vector<StoredResult>& answers) {
  constexpr double kBeyondNoise = 0.97;
  if (!winner) {
    return std::nullopt;
  }
  const StoredResult& decided = winner->stored;
  const bool answers_still = std::ranges::any_of(answers, [&](const StoredResult& stored) {
    return stored.result.variant == decided.result.variant;
  });
  const bool is_beaten = std::ranges::any_of(answers, [&](const StoredResult& stored) {
    return stored.id > winner->last_result_id && stored.result.variant != decided.result.variant &&
           stored.result.time_us() < kBeyondNoise * decided.result.time_us();
  });
  return answers_still && !is_beaten ? std::optional(std::move(winner->stored)) : std::nullopt;
}

std::optional<StoredResult> best_at(const Reader& reader, const StoredProblem& problem,
                                    const DeviceGroup& devices, Provenance provenance,
                                    const Question& question) {
  auto answers = answers_at(reader, problem, devices, provenance, question);
  std::optional<StoredResult> best;
  if (provenance == Provenance::measured) {
    best = standing_winner(reader.decided(problem, devices), answers);
  }
  if (!best && !answers.empty()) {
    best = std::move(
        *std::ranges::min_element(answers, [&](const StoredResult& a, const StoredResult& b) {
          return is_better(problem.problem, a.result, b.result);
        }));
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
