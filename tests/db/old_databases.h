// SPDX-License-Identifier: MIT
// Databases as former versions of swr wrote them (tests/db/data).
#pragma once

#include "db/migrations.h"

#include <SQLiteCpp/Database.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace swr {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What versions of the schema up to that one applied when problems and variants were columns.
inline std::vector<Migration> old_migrations(int last) {
  static const std::deque<std::string> texts = [] {
    std::set<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(SWR_DATABASES "/schemas")) {
      files.insert(file.path());
    }
    std::deque<std::string> read;
    for (const auto& file : files) {
      read.push_back(text_of(file));
    }
    return read;
  }();
  std::vector<Migration> migrations;
  for (int version = 1; version <= last; ++version) {
    migrations.push_back({version, texts.at(static_cast<std::size_t>(version - 1))});
  }
  return migrations;
}

/// Tuned and predicted results of both operations, with finals.
inline void write_schema_12(const std::filesystem::path& path) {
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec(text_of(SWR_DATABASES "/schema_12.sql"));
}

}  // namespace swr
