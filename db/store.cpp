// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include "db/kernels.h"
#include "db/rows.h"
#include "db/store_impl.h"
#include <swr/store.h>

#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kMatchLevels{"exact"sv,        "nearest"sv,   "same_arch"sv,
                                  "default_only"sv, "predicted"sv, "modelled"sv};

void require_run(SQLite::Database& database, long long run_id, const std::filesystem::path& path) {
  SQLite::Statement find(database, "SELECT 1 FROM run WHERE id = ?");
  find.bind(1, static_cast<std::int64_t>(run_id));
  if (!find.executeStep()) {
    throw Error(ErrorCode::invalid_argument, "database " + path.string() + " has no run " +
                                                 std::to_string(run_id) +
                                                 "; begin_run returns the id to record under");
  }
}

void insert_samples(SQLite::Database& database, long long result_id,
                    const std::vector<double>& samples_us) {
  SQLite::Statement insert(database,
                           "INSERT INTO sample (result_id, position, time_us) VALUES (?, ?, ?)");
  std::int64_t position = 0;
  for (const double sample_us : samples_us) {
    insert.bind(1, static_cast<std::int64_t>(result_id));
    insert.bind(2, position++);
    insert.bind(3, sample_us);
    insert.exec();
    insert.reset();
  }
}

/// The newest prediction of what `cells` say, when it is equal and of a run of equal versions:
/// another row would say nothing new.
std::optional<long long> find_prediction(SQLite::Database& database, long long run_id,
                                         const Cells& cells) {
  const auto cell = [&](const char* column) {
    return std::get<long long>(std::ranges::find(cells, column, &NamedCell::column)->value);
  };
  SQLite::Statement newest(
      database,
      "SELECT result.id FROM result JOIN run ON run.id = result.run_id JOIN run AS now "
      "ON now.id = :run AND now.swr_version = run.swr_version "
      "AND now.templates_digest = run.templates_digest "
      "AND now.overlay_digest = run.overlay_digest AND now.nvrtc_version = run.nvrtc_version "
      "WHERE result.id = (SELECT max(id) FROM result WHERE problem_id = :problem "
      "AND device_id = :device AND variant_id = :variant AND provenance = 'predicted')");
  newest.bind(":run", static_cast<std::int64_t>(run_id));
  newest.bind(":problem", static_cast<std::int64_t>(cell("problem_id")));
  newest.bind(":device", static_cast<std::int64_t>(cell("device_id")));
  newest.bind(":variant", static_cast<std::int64_t>(cell("variant_id")));
  if (!newest.executeStep()) {
    return std::nullopt;
  }
  const long long id = newest.getColumn(0).getInt64();
  return has_cells(database, "result", id, cells) ? std::optional(id) : std::nullopt;
}

/// With its kernel's spec, where it is of one.
long long problem_row(SQLite::Database& database, const Problem& problem) {
  keep_kernel(database, problem.operation());
  return find_or_insert_row(database, "problem", to_cells(problem));
}

/// Appends the row of a result with all it belongs to; returns its id.
long long insert_result(SQLite::Database& database, long long run_id, long long problem_id,
                        long long device_id, const VariantResult& result) {
  Cells cells = to_cells(result);
  cells.push_back({"device_id", device_id});
  cells.push_back({"problem_id", problem_id});
  cells.push_back(
      {"variant_id", find_or_insert_row(database, "variant", to_cells(result.variant))});
  if (result.prediction() != nullptr) {
    if (const auto known = find_prediction(database, run_id, cells)) {
      return *known;
    }
  }
  cells.push_back({"run_id", run_id});
  const long long id = insert_row(database, "result", cells);
  if (const Measurement* measurement = result.measurement()) {
    insert_samples(database, id, measurement->samples_us);
  }
  return id;
}

/// Appends a result with the rows it shares with others.
long long insert_result(SQLite::Database& database, long long run_id, const Problem& problem,
                        const DeviceInfo& device, const VariantResult& result) {
  const long long device_id = find_or_insert_row(database, "device", to_cells(device));
  const long long problem_id = problem_row(database, problem);
  return insert_result(database, run_id, problem_id, device_id, result);
}

void mark_finished(SQLite::Database& database, long long run_id) {
  SQLite::Statement update(database,
                           "UPDATE run SET finished_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), "
                           "digest = NULL WHERE id = ?");
  update.bind(1, static_cast<std::int64_t>(run_id));
  update.exec();
}

/// Appends a decision between stored results, the winner first; returns its id.
long long insert_decision(SQLite::Database& database, Cells cells,
                          std::span<const RankedResult> ranked) {
  cells.push_back({"winner_id", ranked.front().result_id});
  const long long decision_id = insert_row(database, "decision", cells);
  for (const RankedResult& result : ranked) {
    insert_row(database, "finalist",
               {{"decision_id", decision_id},
                {"result_id", result.result_id},
                {"ratio", result.ratio},
                {"ratio_low", result.ratio_low},
                {"ratio_high", result.ratio_high},
                {"tied", result.tied ? 1LL : 0LL}});
  }
  return decision_id;
}

}  // namespace

std::string_view to_string(MatchLevel value) { return enum_text<MatchLevel>(kMatchLevels, value); }

Store::Store(const std::filesystem::path& path, Mode mode, Content content)
    : impl_(new Impl{path, mode, open_database(path, mode, content)}) {
  with_database_errors(path, [&] { require_intact_rows(impl_->database, path); });
}
Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store Store::in_memory() {
  return Store(std::unique_ptr<Impl>(new Impl{"in memory", Mode::read_write, open_in_memory()}));
}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

long long Store::begin_run(const RunInfo& info) {
  return impl_->write([&] { return insert_row(impl_->database, "run", to_cells(info)); });
}

long long Store::record(long long run_id, const Problem& problem, const DeviceInfo& device,
                        const VariantResult& result) {
  return impl_->write([&] {
    require_run(impl_->database, run_id, impl_->path);
    return insert_result(impl_->database, run_id, problem, device, result);
  });
}

void Store::record_finished(std::span<const FinishedRun> runs) {
  impl_->write([&] {
    SQLite::Database& database = impl_->database;
    long long run_id = 0;
    for (const FinishedRun& run : runs) {
      run_id = insert_row(database, "run", to_cells(run.info));
      for (const VariantResult& result : run.results) {
        insert_result(database, run_id, run.problem, run.device, result);
      }
      mark_finished(database, run_id);
    }
    return run_id;
  });
}

void Store::record_counters(long long result_id, const Measurement& measurement) {
  impl_->add_later(result_id, counter_cells(measurement), "sectors_demanded", "counters");
}

void Store::record_accesses(long long result_id, const Measurement& measurement) {
  impl_->add_later(result_id, access_cells(measurement), "accesses_missing_because", "accesses");
}

void Store::record_energy(long long result_id, const Measurement& measurement) {
  impl_->add_later(result_id, energy_cells(measurement), "energy_missing_because", "energy");
}

void Store::record_choice(long long run_id, const Problem& problem, const DeviceInfo& device,
                          std::string_view objective, std::span<const RankedResult> ranked,
                          double tie_threshold) {
  impl_->write([&] {
    SQLite::Database& database = impl_->database;
    require_run(database, run_id, impl_->path);
    for (const RankedResult& ranked_result : ranked) {
      (void)result(ranked_result.result_id);
    }
    return insert_decision(database,
                           {{"run_id", run_id},
                            {"device_id", find_or_insert_row(database, "device", to_cells(device))},
                            {"problem_id", problem_row(database, problem)},
                            {"tie_threshold", tie_threshold},
                            {"objective", std::string(objective)}},
                           ranked);
  });
}

std::vector<long long> Store::record_decision(long long run_id, const Problem& problem,
                                              const DeviceInfo& device,
                                              std::span<const Finalist> finalists,
                                              double tie_threshold) {
  std::vector<long long> result_ids;
  impl_->write([&] {
    SQLite::Database& database = impl_->database;
    require_run(database, run_id, impl_->path);
    const long long device_id = find_or_insert_row(database, "device", to_cells(device));
    const long long problem_id = problem_row(database, problem);
    std::vector<RankedResult> ranked;
    for (const Finalist& finalist : finalists) {
      result_ids.push_back(insert_result(database, run_id, problem_id, device_id, finalist.result));
      ranked.push_back({result_ids.back(), finalist.ratio, finalist.ratio_low, finalist.ratio_high,
                        finalist.tied});
    }
    return insert_decision(database,
                           {{"run_id", run_id},
                            {"device_id", device_id},
                            {"problem_id", problem_id},
                            {"tie_threshold", tie_threshold},
                            {"objective", std::string(kTimeObjective)}},
                           ranked);
  });
  return result_ids;
}

void Store::record_reference(long long run_id, const DeviceInfo& device,
                             const GpuReference& reference) {
  impl_->write([&] {
    SQLite::Database& database = impl_->database;
    require_run(database, run_id, impl_->path);
    Cells cells = to_cells(reference);
    cells.push_back({"run_id", run_id});
    cells.push_back({"device_id", find_or_insert_row(database, "device", to_cells(device))});
    return insert_row(database, "gpu_reference", cells);
  });
}

void Store::record_peer(long long run_id, const Problem& problem, const DeviceInfo& device,
                        const std::string& call, double median_us) {
  record_reference(run_id, device,
                   {.tuned = to_string(problem),
                    .kernel = std::string(kPeerPrefix) + call,
                    .median_us = median_us});
}

void Store::finish_run(long long run_id) {
  impl_->write([&] {
    require_run(impl_->database, run_id, impl_->path);
    mark_finished(impl_->database, run_id);
    return run_id;
  });
}

}  // namespace swr
