// SPDX-License-Identifier: MIT
// SQLite's failures as swr::Error: one line with the file, what is wrong and what to do.
#pragma once

#include <swr/error.h>

#include <SQLiteCpp/Exception.h>

#include <filesystem>

namespace swr {

Error database_error(const SQLite::Exception& failure, const std::filesystem::path& path);

/// Runs `action` and turns SQLite's exceptions into Error.
template <typename Action>
auto with_database_errors(const std::filesystem::path& path, Action&& action) {
  try {
    return action();
  } catch (const SQLite::Exception& failure) {
    throw database_error(failure, path);
  }
}

}  // namespace swr
