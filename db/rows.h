// SPDX-License-Identifier: MIT
// Between the vocabulary types and rows of the schema. Values on their way in are checked, so that
// a bad one never reaches the file; rows on their way out are checked again, because a file may
// come from anywhere.
#pragma once

#include "db/table.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/store.h>

#include <SQLiteCpp/Statement.h>

#include <filesystem>
#include <string_view>

namespace swr {

// Throw: Error{invalid_argument} naming the first value that cannot be stored.
Cells to_cells(const AttentionProblem& problem);
Cells to_cells(const DeviceInfo& device);
Cells to_cells(const Variant& variant);
Cells to_cells(const RunInfo& run);
/// Without the keys of what the result belongs to.
Cells to_cells(const VariantResult& result);

/// The counters alone, or why there are none.
Cells counter_cells(const Measurement& measurement);

/// Where a row was read, for messages.
struct RowSource {
  const std::filesystem::path& path;
  std::string_view table;
};

// Read the statement's current row, by column name.
// Throw: Error{unreadable} naming file, table, row and value.
AttentionProblem read_problem(SQLite::Statement& row, const RowSource& source);
DeviceInfo read_device(SQLite::Statement& row, const RowSource& source);
RunInfo read_run(SQLite::Statement& row, const RowSource& source);
/// Columns of `result` and of `variant`; without the samples.
VariantResult read_result(SQLite::Statement& row, const RowSource& source);
/// The value of `time_us` in a row of `sample`.
double read_sample(SQLite::Statement& row, const RowSource& source);

}  // namespace swr
