// SPDX-License-Identifier: MIT
// Questions to an open database: the best variant of a problem, everything known about it, and the
// winners. `path` is for messages.
#pragma once

#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace swr {

/// Store::best.
std::optional<Match> find_best(SQLite::Database& database, const std::filesystem::path& path,
                               const Problem& problem, const DeviceInfo& device,
                               const Setting& setting);

/// Store::results.
std::vector<StoredResult> find_results(const SQLite::Database& database,
                                       const std::filesystem::path& path, const Problem& problem,
                                       const DeviceInfo& device, const Setting& setting);

/// Store::settings.
std::vector<Setting> find_settings(const SQLite::Database& database,
                                   const std::filesystem::path& path);

/// Store::known_results.
std::vector<StoredResult> find_known_results(const SQLite::Database& database,
                                             const std::filesystem::path& path, long long run_id,
                                             const Problem& problem, const DeviceInfo& device);

/// Store::known_decision.
std::optional<StoredDecision> find_known_decision(const SQLite::Database& database,
                                                  const std::filesystem::path& path,
                                                  long long run_id, const Problem& problem,
                                                  const DeviceInfo& device,
                                                  std::string_view objective);

/// Store::references.
std::vector<GpuReference> find_references(const SQLite::Database& database,
                                          const std::filesystem::path& path, long long run_id);

/// Store::result.
StoredResult find_result(const SQLite::Database& database, const std::filesystem::path& path,
                         long long result_id);

/// Store::run_of.
RunInfo find_run_of(const SQLite::Database& database, const std::filesystem::path& path,
                    long long result_id);

/// Store::winners.
std::vector<StoredResult> find_winners(SQLite::Database& database,
                                       const std::filesystem::path& path, const Setting& setting);

}  // namespace swr
