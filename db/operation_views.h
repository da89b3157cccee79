// SPDX-License-Identifier: MIT
// Views for people who write SQL: for each operation one with a column for each of its fields and
// axes.
#pragma once

#include "core/operation.h"

#include <SQLiteCpp/Database.h>

#include <string>

namespace swr {

/// The name of the operation and "_results".
std::string view_name(const Operation& operation);

/// The view as SQL: fields, axes, then the columns of all_results. An axis that the variant's
/// family lacks is NULL; one that came later has its default in rows from before.
std::string view_sql(const Operation& operation);

/// Whether the view of every operation is there and as view_sql() says; of kernels of users those
/// that the file has.
bool has_operation_views(SQLite::Database& database);

/// Writes those that are missing or differ. Requires: a transaction.
void write_operation_views(SQLite::Database& database);
void write_operation_view(SQLite::Database& database, const Operation& operation);

}  // namespace swr
