// SPDX-License-Identifier: MIT
// The questions of db/query.h that are about runs.
#include "db/query.h"
#include "db/rows.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <cstdint>

namespace swr {

namespace fs = std::filesystem;

std::vector<Setting> find_settings(const SQLite::Database& database, const fs::path& path) {
  std::vector<Setting> settings;
  SQLite::Statement row(database, "SELECT * FROM run");
  while (row.executeStep()) {
    const RunInfo run = read_run(row, {path, "run"});
    settings.push_back(
        {run.l2_state.empty() ? L2State::warm : parse_l2_state(run.l2_state), run.overlay_digest});
  }
  std::ranges::sort(settings);
  settings.erase(std::unique(settings.begin(), settings.end()), settings.end());
  return settings;
}

std::vector<GpuReference> find_references(const SQLite::Database& database, const fs::path& path,
                                          long long run_id) {
  std::vector<GpuReference> references;
  SQLite::Statement row(database, "SELECT * FROM gpu_reference WHERE run_id = ? ORDER BY id");
  row.bind(1, static_cast<std::int64_t>(run_id));
  while (row.executeStep()) {
    references.push_back(read_reference(row, {path, "gpu_reference"}));
  }
  return references;
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

}  // namespace swr
