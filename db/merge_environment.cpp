// SPDX-License-Identifier: MIT
#include "db/merge_environment.h"

#include "db/rows.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace swr {
namespace {

struct Difference {
  std::string what;
  std::string a;
  std::string b;
};

/// Where the two may not be compared. Runs that came from elsewhere say no conditions.
std::optional<Difference> find_difference(const RunInfo& a, const RunInfo& b) {
  const Difference candidates[] = {{"templates", a.templates_digest, b.templates_digest},
                                   {"NVRTC", a.nvrtc_version, b.nvrtc_version},
                                   {"driver", a.driver_version, b.driver_version},
                                   {"L2 state", a.l2_state, b.l2_state}};
  for (const Difference& candidate : candidates) {
    if (candidate.a != candidate.b) {
      return candidate;
    }
  }
  if (!a.conditions.empty() && !b.conditions.empty() && a.conditions != b.conditions) {
    return Difference{"conditions", a.conditions, b.conditions};
  }
  return std::nullopt;
}

bool are_compared(const RunEnvironment& a, const RunEnvironment& b) {
  return a.provenance == b.provenance && same_device(a.device, b.device);
}

bool holds(const FileEnvironments& file, const RunEnvironment& wanted) {
  return std::ranges::any_of(file.environments, [&](const RunEnvironment& held) {
    return are_compared(held, wanted) && !find_difference(held.run, wanted.run);
  });
}

bool held_together(const std::vector<FileEnvironments>& files, const RunEnvironment& a,
                   const RunEnvironment& b) {
  return std::ranges::any_of(
      files, [&](const FileEnvironments& file) { return holds(file, a) && holds(file, b); });
}

/// A digest's beginning tells it from others.
std::string shown(const std::string& value) {
  constexpr std::size_t kDigestLetters = 64;
  constexpr std::size_t kShownLetters = 12;
  const std::string text = value.empty() ? "none" : value;
  return text.size() == kDigestLetters ? text.substr(0, kShownLetters) : text;
}

void require_comparable(const std::vector<FileEnvironments>& files, const FileEnvironments& first,
                        const FileEnvironments& second) {
  for (const RunEnvironment& a : first.environments) {
    for (const RunEnvironment& b : second.environments) {
      const auto difference = find_difference(a.run, b.run);
      if (difference && are_compared(a, b) && !held_together(files, a, b)) {
        throw Error(ErrorCode::invalid_argument,
                    "results of " + a.device.name + " in " + first.path.string() + " and " +
                        second.path.string() + " are not comparable: " + difference->what +
                        " differ (" + shown(difference->a) + ", " + shown(difference->b) +
                        "); keep them in files of their own, or tune again alike");
      }
    }
  }
}

std::map<long long, DeviceInfo> read_devices(const SQLite::Database& database,
                                             const std::filesystem::path& path) {
  std::map<long long, DeviceInfo> devices;
  SQLite::Statement row(database, "SELECT * FROM device");
  while (row.executeStep()) {
    devices.emplace(row.getColumn("id").getInt64(), read_device(row, {path, "device"}));
  }
  return devices;
}

std::map<long long, RunInfo> read_runs(const SQLite::Database& database,
                                       const std::filesystem::path& path) {
  std::map<long long, RunInfo> runs;
  SQLite::Statement row(database, "SELECT * FROM run");
  while (row.executeStep()) {
    runs.emplace(row.getColumn("id").getInt64(), read_run(row, {path, "run"}));
  }
  return runs;
}

}  // namespace

FileEnvironments read_environments(const SQLite::Database& database,
                                   const std::filesystem::path& path) {
  const auto devices = read_devices(database, path);
  const auto runs = read_runs(database, path);
  FileEnvironments file{path, {}};
  SQLite::Statement row(database,
                        "SELECT DISTINCT run_id, device_id, provenance = 'measured' FROM result "
                        "ORDER BY run_id, device_id");
  while (row.executeStep()) {
    const auto provenance =
        row.getColumn(2).getInt() == 1 ? Provenance::measured : Provenance::predicted;
    const RunEnvironment environment{devices.at(row.getColumn(1).getInt64()), provenance,
                                     runs.at(row.getColumn(0).getInt64())};
    const bool is_known = std::ranges::any_of(file.environments, [&](const RunEnvironment& held) {
      return are_compared(held, environment) && !find_difference(held.run, environment.run) &&
             held.run.conditions == environment.run.conditions;
    });
    if (!is_known) {
      file.environments.push_back(environment);
    }
  }
  return file;
}

void require_comparable(const std::vector<FileEnvironments>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = i + 1; j < files.size(); ++j) {
      require_comparable(files, files[i], files[j]);
    }
  }
}

}  // namespace swr
