// SPDX-License-Identifier: MIT
// Views for people who write SQL: for each operation one with a column for each of its fields and
// axes.
#pragma once

#include "core/operation.h"

#include <SQLiteCpp/Database.h>

#include <string>

namespace swr {

/// The schema that the views stand on.
inline constexpr int kFirstSchemaWithViews = 13;

/// "attention_results".
std::string view_name(const Operation& operation);

/// The view as SQL: fields, axes, then the columns of all_results. An axis that the variant's
/// family lacks is NULL; one that came later has its default in rows from before.
std::string view_sql(const Operation& operation);

/// Whether every operation's view is there and as view_sql() says.
bool has_operation_views(SQLite::Database& database);

/// Writes those that are missing or differ. Requires: a transaction.
void write_operation_views(SQLite::Database& database);

}  // namespace swr
