// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include "db/connection.h"
#include "db/database_error.h"
#include "db/query.h"
#include "db/rows.h"
#include <swr/store.h>

#include <SQLiteCpp/Transaction.h>

#include <array>
#include <cstdint>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kMatchLevels{"exact"sv, "nearest"sv, "same_arch"sv, "default_only"sv};

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

}  // namespace

std::string_view to_string(MatchLevel value) { return enum_text<MatchLevel>(kMatchLevels, value); }

struct Store::Impl {
  std::filesystem::path path;
  Mode mode;
  SQLite::Database database;

  /// Runs `action` in a transaction of its own.
  template <typename Write>
  long long write(Write&& action) {
    if (mode == Mode::read_only) {
      throw Error(ErrorCode::not_writable, "database " + path.string() +
                                               " was opened for reading; open it read_write to "
                                               "record results");
    }
    return with_database_errors(path, [&] {
      SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
      const long long id = action();
      transaction.commit();
      return id;
    });
  }
};

Store::Store(const std::filesystem::path& path, Mode mode)
    : impl_(new Impl{path, mode, open_database(path, mode, built_in_migrations())}) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

long long Store::begin_run(const RunInfo& info) {
  return impl_->write([&] { return insert_row(impl_->database, "run", to_cells(info)); });
}

void Store::record(long long run_id, const AttentionProblem& problem, const DeviceInfo& device,
                   const VariantResult& result) {
  impl_->write([&] {
    SQLite::Database& database = impl_->database;
    require_run(database, run_id, impl_->path);
    Cells cells = to_cells(result);
    cells.push_back({"run_id", run_id});
    cells.push_back({"device_id", find_or_insert_row(database, "device", to_cells(device))});
    cells.push_back({"problem_id", find_or_insert_row(database, "problem", to_cells(problem))});
    cells.push_back(
        {"variant_id", find_or_insert_row(database, "variant", to_cells(result.variant))});
    const long long id = insert_row(database, "result", cells);
    if (const Measurement* measurement = result.measurement()) {
      insert_samples(database, id, measurement->samples_us);
    }
    return id;
  });
}

std::optional<Match> Store::best(const AttentionProblem& problem, const DeviceInfo& device) const {
  validate(problem);
  return with_database_errors(
      impl_->path, [&] { return find_best(impl_->database, impl_->path, problem, device); });
}

std::vector<StoredResult> Store::results(const AttentionProblem& problem,
                                         const DeviceInfo& device) const {
  return with_database_errors(
      impl_->path, [&] { return find_results(impl_->database, impl_->path, problem, device); });
}

RunInfo Store::run_of(long long result_id) const {
  return with_database_errors(impl_->path,
                              [&] { return find_run_of(impl_->database, impl_->path, result_id); });
}

std::vector<StoredResult> Store::winners() const {
  return with_database_errors(impl_->path,
                              [&] { return find_winners(impl_->database, impl_->path); });
}

}  // namespace swr
