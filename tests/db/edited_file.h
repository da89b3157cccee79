// SPDX-License-Identifier: MIT
// Changes a database as somebody does who vouches for what he changed.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>

namespace swr {

inline void edit_file(const std::filesystem::path& path, const std::string& sql) {
  SQLite::Database editor(path.string(), SQLite::OPEN_READWRITE);
  editor.exec("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON");
  editor.exec(sql);
  for (const char* table :
       {"device", "problem", "variant", "run", "result", "decision", "gpu_reference"}) {
    editor.exec(std::string("UPDATE ") + table + " SET digest = NULL");
  }
}

}  // namespace swr
