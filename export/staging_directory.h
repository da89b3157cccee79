// SPDX-License-Identifier: MIT
// Where an export is written before it has its name, and what exports left there that were killed.
#pragma once

#include "core/files.h"

#include <filesystem>
#include <span>
#include <string>
#include <system_error>

namespace swr {

/// Throws: Error{not_writable}.
[[noreturn]] void fail_to_write(const std::filesystem::path& path, const std::string& cause);
/// Throws: Error{not_writable} when there is a failure.
void require(const std::error_code& failure, const std::filesystem::path& path);

/// A folder of its own, TARGET.new-PID or with a number behind it; removed unless it was moved.
/// While it is written a file in it is locked: in one whose lock is free a process was killed.
class StagingDirectory {
 public:
  /// Removes those of killed processes first. Throws: Error{not_writable}.
  explicit StagingDirectory(const std::filesystem::path& target);
  ~StagingDirectory();
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Throws: Error{not_writable}.
  void write(const std::string& name, std::span<const char> bytes) const;

  /// Makes the lock and takes it. False, with errno, where that cannot be.
  bool lock();
  /// Takes the lock's file away: what is left is the export alone. Throws: Error{not_writable}.
  void unlock();

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace swr
