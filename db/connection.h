// SPDX-License-Identifier: MIT
// Opens a database file: checks that it is swr's and can be used as asked, and sets the connection
// up.
#pragma once

#include <swr/error.h>
#include <swr/store.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace swr {

/// SQLite's failures as one line with the file, what is wrong and what to do.
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

/// How long a statement waits for another process before it fails with database_locked.
inline constexpr std::chrono::milliseconds kBusyTimeout{5000};

/// Opens or creates (read_write) the file, as Store does. Without `content` a file of either kind
/// is read. Requires: `content` for writing.
SQLite::Database open_database(const std::filesystem::path& path, Store::Mode mode,
                               std::optional<Store::Content> content = Store::Content::tuned,
                               std::chrono::milliseconds busy_timeout = kBusyTimeout);

/// Opens a file as open_database() does for writing, and so that no other process has it open for
/// as long as the connection lives. Throws: also Error{database_locked} when one has.
SQLite::Database open_exclusively(const std::filesystem::path& path, Store::Content content,
                                  std::chrono::milliseconds busy_timeout = kBusyTimeout);

/// The file itself where the path leads over links; SQLite keeps its log beside that.
std::filesystem::path without_links(const std::filesystem::path& path);

/// The newest commit that readers of the file see, as the index of its write-ahead log says
/// (SQLite, "WAL-mode File Format", 2.1): bytes that differ after each commit, empty without a log.
/// Nothing where it cannot be told, such as while another locks the file. Opens the file for a
/// moment: SQLite alone may, as its locks of a file end when a process closes any descriptor of it.
/// Requires: a path without links.
std::optional<std::string> newest_commit(const std::filesystem::path& path);

/// An empty database that lives as long as its connection.
SQLite::Database open_in_memory();

}  // namespace swr
