// SPDX-License-Identifier: MIT
#include "db/lookup_records.h"

#include "db/rows.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace swr {
namespace {

/// Reads one database into records.
class Reader {
 public:
  Reader(const SQLite::Database& database, const std::filesystem::path& path)
      : database_(database), path_(path) {}

  LookupRecords read(const Setting& setting, const std::optional<LookupScope>& scope) {
    read_runs(setting);
    read_problems();
    read_devices();
    read_variants();
    read_results(scope);
    read_decisions();
    return std::move(records_);
  }

 private:
  /// Where the rows of a table lie in the records.
  using Index = std::unordered_map<long long, std::uint32_t>;

  template <typename Record>
  static void add(Index& index, std::vector<Record>& records, long long id, Record record) {
    index.emplace(id, static_cast<std::uint32_t>(records.size()));
    records.push_back(std::move(record));
  }

  void read_runs(const Setting& setting) {
    SQLite::Statement row(database_, "SELECT id FROM run WHERE " + in_setting());
    bind_setting(row, setting);
    while (row.executeStep()) {
      runs_.insert(row.getColumn(0).getInt64());
    }
  }

  void read_problems() {
    for (const Op op : {Op::attention, Op::gemm}) {
      TableRows row(database_, lookup_problems_query(op));
      while (row.next()) {
        add(problems_, records_.problems, row.cell(0).getInt64(),
            read_lookup_problem(op, row, {path_, "problem"}));
      }
    }
  }

  void read_devices() {
    SQLite::Statement row(database_, "SELECT * FROM device ORDER BY id");
    while (row.executeStep()) {
      add(devices_, records_.devices, row.getColumn(0).getInt64(),
          read_device(row, {path_, "device"}));
    }
  }

  void read_variants() {
    SQLite::Statement row(database_, "SELECT * FROM variant ORDER BY id");
    while (row.executeStep()) {
      add(variants_, records_.variants, row.getColumn(0).getInt64(),
          read_variant(row, {path_, "variant"}));
    }
  }

  void read_results(const std::optional<LookupScope>& scope) {
    const Cells kind = scope ? kind_cells(scope->problem) : Cells{};
    TableRows row(database_, "SELECT " + lookup_result_columns() + " FROM result" +
                                 (scope ? " WHERE problem_id IN (SELECT id FROM problem WHERE " +
                                              conditions(kind) +
                                              ") AND device_id IN (SELECT id FROM device WHERE "
                                              "sm_arch = :sm_arch)"
                                        : ""));
    for (const NamedCell& cell : kind) {
      bind(row, cell);
    }
    if (scope) {
      row.bind(":sm_arch", static_cast<long long>(scope->sm_arch));
    }
    while (row.next()) {
      add_result(read_lookup_result(row, {path_, "result"}));
    }
  }

  static std::string conditions(const Cells& cells) {
    std::string all;
    for (const NamedCell& cell : cells) {
      all += (all.empty() ? "" : " AND ") + cell.column + " = :" + cell.column;
    }
    return all;
  }

  static void bind(TableRows& row, const NamedCell& cell) {
    const std::string name = ":" + cell.column;
    if (const auto* const number = std::get_if<long long>(&cell.value)) {
      row.bind(name.c_str(), *number);
    } else {
      row.bind(name.c_str(), std::get<std::string>(cell.value));
    }
  }

  /// Requires: the tables that it refers to were read.
  void add_result(const LookupResult& found) {
    if (!runs_.contains(found.run_id)) {
      return;
    }
    LookupRow row{.problem = at(problems_, found.problem_id, found.id, "problem"),
                  .device = at(devices_, found.device_id, found.id, "device"),
                  .variant = at(variants_, found.variant_id, found.id, "variant"),
                  .provenance = found.result.provenance(),
                  .is_ok = found.result.state == ResultState::ok,
                  .result_id = found.id,
                  .merit = {},
                  .l2_misses = std::nullopt};
    if (row.is_ok) {
      row.merit = merit(records_.problems[row.problem], found.result);
      row.l2_misses = l2_miss_sectors(found.result);
    }
    records_.rows.push_back(row);
  }

  std::uint32_t at(const Index& index, long long id, long long result_id, const char* table) const {
    const auto entry = index.find(id);
    if (entry == index.end()) {
      throw Error(ErrorCode::unreadable,
                  "database " + path_.string() + " holds a bad row " + std::to_string(result_id) +
                      " in table result: there is no row " + std::to_string(id) + " in table " +
                      table + "; use a copy of the file from before it was edited");
    }
    return entry->second;
  }

  void read_decisions() {
    SQLite::Statement row(database_,
                          "SELECT decision.winner_id, max(finalist.result_id) FROM decision "
                          "JOIN finalist ON finalist.decision_id = decision.id "
                          "GROUP BY decision.id");
    while (row.executeStep()) {
      records_.decisions.push_back({row.getColumn(0).getInt64(), row.getColumn(1).getInt64()});
    }
  }

  const SQLite::Database& database_;
  const std::filesystem::path& path_;
  LookupRecords records_;
  /// Those of the setting.
  std::unordered_set<long long> runs_;
  Index problems_;
  Index devices_;
  Index variants_;
};

}  // namespace

LookupRecords read_lookup_records(const SQLite::Database& database,
                                  const std::filesystem::path& path, const Setting& setting,
                                  const std::optional<LookupScope>& scope) {
  return Reader(database, path).read(setting, scope);
}

}  // namespace swr
