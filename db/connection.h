// SPDX-License-Identifier: MIT
// Opens a database file: checks that it is swr's and can be used as asked, migrates it, and sets
// the connection up.
#pragma once

#include "db/migrations.h"
#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>

namespace swr {

/// How long a statement waits for another process before it fails with database_locked.
inline constexpr std::chrono::milliseconds kBusyTimeout{5000};

/// Opens, creates (read_write) and migrates the file, as Store does. A read-only file of an older
/// schema is copied into memory and migrated there. Without `content` a file of either kind is
/// read. Requires: `content` for writing.
SQLite::Database open_database(const std::filesystem::path& path, Store::Mode mode,
                               std::span<const Migration> migrations,
                               std::optional<Store::Content> content = Store::Content::tuned,
                               std::chrono::milliseconds busy_timeout = kBusyTimeout);

/// Opens a file as open_database() does for writing, and so that no other process has it open for
/// as long as the connection lives. Throws: also Error{database_locked} when one has.
SQLite::Database open_exclusively(const std::filesystem::path& path,
                                  std::span<const Migration> migrations, Store::Content content,
                                  std::chrono::milliseconds busy_timeout = kBusyTimeout);

/// An empty database that lives as long as its connection.
SQLite::Database open_in_memory(std::span<const Migration> migrations);

}  // namespace swr
