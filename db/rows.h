// SPDX-License-Identifier: MIT
// Between the vocabulary types and rows of the schema. Values on their way in are checked, so that
// a bad one never reaches the file; rows on their way out are checked again, because a file may
// come from anywhere.
#pragma once

#include "core/json.h"
#include "db/table.h"
#include <swr/device.h>
#include <swr/error.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/store.h>
#include <swr/variant.h>

#include <SQLiteCpp/Statement.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

// Problems and variants of any operation as the text that their rows hold: JSON objects with the
// operation's fields and axes in declared order (docs/db_schema.md).

// Require: a valid problem; a variant whose axes have values of theirs.
/// The fields that no size makes up for.
std::string kind_text(const Problem& problem);
/// The fields that may differ between neighbours.
std::string sizes_text(const Problem& problem);
/// The axes of the variant's family. Of fields and axes, one that came later is left out where it
/// has its default, so that rows from before it came say what rows of today say.
std::string axes_text(const Variant& variant);

/// What a text says. Rows that swr wrote are canonical: equal values have equal text.
template <typename Value>
struct FromText {
  Value value;
  bool is_canonical = true;
};

// The inverse; members may come in any order.
// Throw: Error naming the value that cannot be believed.
FromText<Problem> problem_from_text(const Operation& operation, std::string_view kind,
                                    std::string_view sizes);
FromText<Variant> variant_from_text(const Operation& operation, std::string_view axes);

// The same of objects; other members than the operation's are refused.
Problem problem_from_members(const Operation& operation, const Json& kind, const Json& sizes);
Variant variant_from_members(const Operation& operation, const Json& axes);

/// Where a row was read, for messages.
struct RowSource {
  const std::filesystem::path& path;
  std::string_view table;
};

/// Runs `read`; a value that cannot be believed becomes an error that names the row by what `id`
/// returns.
template <typename Id, typename Read>
auto read_row_named(Id&& id, const RowSource& source, Read&& read) {
  try {
    return read();
  } catch (const Error& failure) {
    throw Error(ErrorCode::unreadable,
                "database " + source.path.string() + " holds a bad row " + id() + " in table " +
                    std::string(source.table) + ": " + failure.what() +
                    "; delete that row with sqlite3, or use a copy of the file "
                    "from before it was edited");
  }
}

// Throw: Error{invalid_argument} naming the first value that cannot be stored.
Cells to_cells(const Problem& problem);
Cells to_cells(const DeviceInfo& device);
Cells to_cells(const Variant& variant);
Cells to_cells(const RunInfo& run);
/// The columns of a problem that another one must share to be of the same kind
/// (db/problem_key.h).
Cells kind_cells(const Problem& problem);
/// Without the keys of what the result belongs to.
Cells to_cells(const VariantResult& result);

/// Without the keys of run and device.
Cells to_cells(const GpuReference& reference);

/// The columns of `variant` that read_result() reads, as SQL, separated by commas.
std::string variant_columns();

/// The counters alone, or why there are none.
Cells counter_cells(const Measurement& measurement);
/// The accesses alone, or why there are none.
Cells access_cells(const Measurement& measurement);
/// The energy alone, or why it is not known.
Cells energy_cells(const Measurement& measurement);
/// The columns of counters, of accesses and of energy, which are added after the rest of a row.
std::vector<std::string> counter_columns();
std::vector<std::string> access_columns();
std::vector<std::string> energy_columns();

// Read the statement's current row, by column name.
// Throw: Error{unreadable} naming file, table, row and value.
Problem read_problem(SQLite::Statement& row, const RowSource& source);
DeviceInfo read_device(SQLite::Statement& row, const RowSource& source);
RunInfo read_run(SQLite::Statement& row, const RowSource& source);
/// Columns of `result` and of `variant`; without the samples.
VariantResult read_result(SQLite::Statement& row, const RowSource& source);
Variant read_variant(SQLite::Statement& row, const RowSource& source);

/// What the choice of the best variant reads of a result. The part from the time on is of results
/// that are ok.
struct LookupResult {
  long long id = 0;
  long long run_id = 0;
  long long problem_id = 0;
  long long device_id = 0;
  long long variant_id = 0;
  Provenance provenance = Provenance::measured;
  bool is_ok = false;
  int registers_per_thread = 0;
  double time_us = 0.0;
  /// As l2_miss_sectors() has it (db/problem_key.h).
  std::optional<long long> l2_misses;
  std::optional<long long> dram_read_bytes;  ///< Counted.
  std::optional<long long> excess_misses;    ///< Predicted, in sectors.
};

// For tables of many rows: what to select, and the readers of such rows. A column `more` follows.
std::string lookup_problems_query(const Operation& operation, const std::string& more);
FromText<Problem> read_lookup_problem(const Operation& operation, TableRows& row,
                                      const RowSource& source);
/// Of the rows for which `condition` holds.
std::string lookup_variants_query(const std::string& condition);
FromText<Variant> read_lookup_variant(TableRows& row, const RowSource& source);
std::string lookup_result_columns();
LookupResult read_lookup_result(TableRows& row, const RowSource& source);

/// True in SQL for rows of `run` whose results belong to the setting that bind_setting() binds.
std::string in_setting();
void bind_setting(SQLite::Statement& statement, const Setting& setting);

/// A row of `finalist` without its result, and the threshold in a row of `decision`.
Finalist read_finalist(SQLite::Statement& row, const RowSource& source);
std::optional<double> read_tie_threshold(SQLite::Statement& row, const RowSource& source);

GpuReference read_reference(SQLite::Statement& row, const RowSource& source);

/// The value of `time_us` in a row of `sample`.
double read_sample(SQLite::Statement& row, const RowSource& source);

}  // namespace swr
