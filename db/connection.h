// SPDX-License-Identifier: MIT
// Opens a database file: checks that it is swr's and can be used as asked, migrates it, and sets
// the connection up.
#pragma once

#include "db/migrations.h"
#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <chrono>
#include <filesystem>
#include <span>

namespace swr {

/// How long a statement waits for another process before it fails with database_locked.
inline constexpr std::chrono::milliseconds kBusyTimeout{5000};

/// Opens, creates (read_write) and migrates the file, as Store does. A read-only file of an older
/// schema is copied into memory and migrated there.
SQLite::Database open_database(const std::filesystem::path& path, Store::Mode mode,
                               std::span<const Migration> migrations,
                               std::chrono::milliseconds busy_timeout = kBusyTimeout);

/// An empty database that lives as long as its connection.
SQLite::Database open_in_memory(std::span<const Migration> migrations);

}  // namespace swr
