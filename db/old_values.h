// SPDX-License-Identifier: MIT
// Carries problems and variants over from schemas before 13, where every field and axis was a
// column.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>

namespace swr {

/// Fills the tables `problem` and `variant` from temp.old_problem and temp.old_variant, which it
/// drops. Rows keep their ids; of rows that differ only in columns without a meaning the first
/// remains, and what belongs to the others belongs to it. Requires: a transaction; the tables of
/// schema 13. `path` is for messages.
/// Throws: Error{unreadable} naming the row whose values cannot be believed.
void carry_old_values_over(SQLite::Database& database, const std::filesystem::path& path);

}  // namespace swr
