// SPDX-License-Identifier: MIT
// Under which circumstances the results of a database were taken, and whether those of several may
// lie in one.
#pragma once

#include <swr/device.h>
#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <vector>

namespace swr {

/// A device, and the versions and options of a run with results on it.
struct RunEnvironment {
  DeviceInfo device;
  Provenance provenance = Provenance::measured;
  RunInfo run;
};

struct FileEnvironments {
  std::filesystem::path path;
  std::vector<RunEnvironment> environments;
};

/// Throws: Error{unreadable} naming a row whose values cannot be believed.
FileEnvironments read_environments(const SQLite::Database& database,
                                   const std::filesystem::path& path);

/// Results of one device that differ in templates, NVRTC, driver, L2 state or conditions are not
/// comparable; results of different devices are never compared. A file that holds both already may
/// be merged with a file of either.
/// Throws: Error{invalid_argument} naming the files, the device and what differs.
void require_comparable(const std::vector<FileEnvironments>& files);

}  // namespace swr
