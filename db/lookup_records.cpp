// SPDX-License-Identifier: MIT
#include "db/lookup_records.h"

#include "db/kernels.h"
#include "db/rows.h"
#include "db/table.h"
#include <swr/error.h>

#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace swr {
namespace {

/// As merit() has it. Requires: the result is ok.
Merit merit_of(const LookupResult& found, const Problem& problem) {
  Merit merit{.time_us = found.time_us, .registers_per_thread = found.registers_per_thread};
  if (found.excess_misses) {
    merit.excess_misses = *found.excess_misses;
  } else if (found.dram_read_bytes) {
    merit.excess_misses = excess_read_sectors(problem, *found.dram_read_bytes);
  }
  return merit;
}

/// Where the rows of a table lie in the records, by their ids.
class RowIndex {
 public:
  /// The next of the records. Ids of one operation come in ascending order.
  void add(long long id) {
    is_sorted_ = is_sorted_ && (rows_.empty() || rows_.back().id < id);
    rows_.push_back({id, static_cast<std::uint32_t>(rows_.size())});
  }

  /// Makes one of the rows whose records are equal, which are those of files that were edited.
  template <typename Record>
  void join_equal(const std::vector<Record>& records) {
    std::map<Record, std::uint32_t> first;
    for (Row& row : rows_) {
      row.record = first.try_emplace(records[row.record], row.record).first->second;
    }
  }

  /// Once after the last.
  void finish() {
    if (!is_sorted_) {
      std::ranges::sort(rows_, {}, &Row::id);
    }
  }

  std::optional<std::uint32_t> find(long long id) const {
    // Ids count up, usually without gaps.
    const auto guess = static_cast<unsigned long long>(id) - first_id();
    if (guess < rows_.size() && rows_[guess].id == id) {
      return rows_[guess].record;
    }
    const auto row = std::ranges::lower_bound(rows_, id, {}, &Row::id);
    return row == rows_.end() || row->id != id ? std::nullopt : std::optional(row->record);
  }

 private:
  struct Row {
    long long id = 0;
    std::uint32_t record = 0;
  };

  unsigned long long first_id() const {
    return rows_.empty() ? 0 : static_cast<unsigned long long>(rows_.front().id);
  }

  std::vector<Row> rows_;
  bool is_sorted_ = true;
};

/// Reads one database into records.
class Reader {
 public:
  Reader(const SQLite::Database& database, const std::filesystem::path& path)
      : database_(database), path_(path) {}

  LookupRecords read(const Setting& setting, const std::optional<LookupScope>& scope,
                     const std::string& objective) {
    readable_ = is_readable_row(database_);
    for (const char* const table : {"run", "device", "kernel", "variant", "decision"}) {
      require_unchanged_rows(database_, path_, table);
    }
    read_runs(setting);
    read_problems();
    read_devices();
    read_variants();
    read_results(scope);
    read_decisions(objective);
    if (objective != kTimeObjective) {
      keep_winners();
    }
    return std::move(records_);
  }

 private:
  template <typename Record>
  static void add(RowIndex& index, std::vector<Record>& records, long long id, Record record) {
    index.add(id);
    records.push_back(std::move(record));
  }

  /// Equal rows differ from each other only where one of them is not canonical.
  template <typename Record>
  static void finish(RowIndex& index, const std::vector<Record>& records, bool all_canonical) {
    if (!all_canonical) {
      index.join_equal(records);
    }
    index.finish();
  }

  void read_runs(const Setting& setting) {
    SQLite::Statement row(database_, "SELECT id, " + in_setting() + " FROM run");
    bind_setting(row, setting);
    while (row.executeStep()) {
      runs_[row.getColumn(0).getInt64()] = row.getColumn(1).getInt() != 0;
    }
  }

  void read_problems() {
    bool all_canonical = true;
    for (const Operation* const operation : stored_operations()) {
      constexpr int kUnchanged = 3;
      TableRows row(database_,
                    lookup_problems_query(*operation, is_unchanged(database_, "problem")));
      while (row.next()) {
        require_unchanged(row, "problem", kUnchanged);
        const auto read = read_lookup_problem(*operation, row, {path_, "problem"});
        add(problems_, records_.problems, row.cell(0).getInt64(), read.value);
        all_canonical = all_canonical && read.is_canonical;
      }
    }
    finish(problems_, records_.problems, all_canonical);
  }

  /// Those that have problems, in the order of registration; not kernels of users that this process
  /// does not know. Through the index, which costs nothing
  /// beside a walk over the table for an operation that has none.
  std::vector<const Operation*> stored_operations() const {
    std::vector<const Operation*> stored;
    SQLite::Statement next(database_, "SELECT id, op FROM problem WHERE op > ? AND " + readable_ +
                                          " ORDER BY op, kind LIMIT 1");
    for (std::string last;; next.reset()) {
      next.bind(1, last);
      if (!next.executeStep()) {
        break;
      }
      last = next.getColumn(1).getString();
      stored.push_back(read_row_named([&] { return next.getColumn(0).getString(); },
                                      {path_, "problem"}, [&] { return &find_operation(last); }));
    }
    std::ranges::sort(stored, {}, [](const Operation* operation) {
      return std::ranges::find(operations(), operation) - operations().begin();
    });
    return stored;
  }

  void read_devices() {
    SQLite::Statement row(database_, "SELECT * FROM device ORDER BY id");
    while (row.executeStep()) {
      add(devices_, records_.devices, row.getColumn(0).getInt64(),
          read_device(row, {path_, "device"}));
    }
    devices_.finish();
  }

  void read_variants() {
    bool all_canonical = true;
    TableRows row(database_, lookup_variants_query(readable_));
    while (row.next()) {
      const auto read = read_lookup_variant(row, {path_, "variant"});
      add(variants_, records_.variants, row.cell(0).getInt64(), read.value);
      all_canonical = all_canonical && read.is_canonical;
    }
    finish(variants_, records_.variants, all_canonical);
  }

  void read_results(const std::optional<LookupScope>& scope) {
    const Cells kind = scope ? kind_cells(scope->problem) : Cells{};
    constexpr int kUnchanged = 15;
    TableRows row(
        database_,
        "SELECT " + lookup_result_columns() + ", " + is_unchanged(database_, "result") +
            " FROM result WHERE " + of_readable_problems() +
            (scope ? " AND problem_id IN (SELECT id FROM problem WHERE " + conditions(kind) +
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
      require_unchanged(row, "result", kUnchanged);
      add_result(read_lookup_result(row, {path_, "result"}));
    }
  }

  /// As SQL. Nearly always every problem is.
  std::string of_readable_problems() const {
    return readable_ == "true"
               ? readable_
               : "problem_id NOT IN (SELECT id FROM problem WHERE NOT (" + readable_ + "))";
  }

  void require_unchanged(const TableRows& row, const char* table, int column) const {
    if (row.cell(column).getInt64() == 0) {
      reject_changed_row(path_, table, std::to_string(row.cell(0).getInt64()));
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
    const auto run = runs_.find(found.run_id);
    if (run == runs_.end()) {
      reject_missing(found.id, found.run_id, "run");
    }
    if (!run->second) {
      return;
    }
    LookupRow row{.problem = at(problems_, found.problem_id, found.id, "problem"),
                  .device = at(devices_, found.device_id, found.id, "device"),
                  .variant = at(variants_, found.variant_id, found.id, "variant"),
                  .provenance = found.provenance,
                  .is_ok = found.is_ok,
                  .result_id = found.id,
                  .merit = {},
                  .l2_misses = found.l2_misses};
    require_same_operation(row);
    if (row.is_ok) {
      row.merit = merit_of(found, records_.problems[row.problem]);
    }
    records_.rows.push_back(row);
  }

  void require_same_operation(const LookupRow& row) const {
    const Operation& of_problem = records_.problems[row.problem].operation();
    const Operation& of_variant = records_.variants[row.variant].operation();
    if (&of_problem != &of_variant) {
      reject(row.result_id, "a problem of " + std::string(name_of(of_problem)) +
                                " has no variant of " + std::string(name_of(of_variant)));
    }
  }

  [[noreturn]] void reject(long long result_id, const std::string& finding) const {
    throw Error(ErrorCode::unreadable, "database " + path_.string() + " holds a bad row " +
                                           std::to_string(result_id) +
                                           " in table result: " + finding +
                                           "; use a copy of the file from before it was edited");
  }

  [[noreturn]] void reject_missing(long long result_id, long long id, const char* table) const {
    reject(result_id, "there is no row " + std::to_string(id) + " in table " + table);
  }

  std::uint32_t at(const RowIndex& index, long long id, long long result_id,
                   const char* table) const {
    const auto record = index.find(id);
    if (!record) {
      reject_missing(result_id, id, table);
    }
    return *record;
  }

  void read_decisions(const std::string& objective) {
    SQLite::Statement row(database_,
                          "SELECT decision.winner_id, max(finalist.result_id) FROM decision "
                          "JOIN finalist ON finalist.decision_id = decision.id "
                          "WHERE decision.objective = ? GROUP BY decision.id");
    row.bind(1, objective);
    while (row.executeStep()) {
      records_.decisions.push_back({row.getColumn(0).getInt64(), row.getColumn(1).getInt64()});
    }
  }

  /// Times say nothing about who is the best by another objective.
  void keep_winners() {
    std::unordered_set<long long> winners;
    for (const LookupDecision& decision : records_.decisions) {
      winners.insert(decision.winner_id);
    }
    std::erase_if(records_.rows,
                  [&](const LookupRow& row) { return !winners.contains(row.result_id); });
  }

  const SQLite::Database& database_;
  const std::filesystem::path& path_;
  LookupRecords records_;
  std::string readable_;  ///< is_readable_row().
  /// Those of the setting.
  std::unordered_map<long long, bool> runs_;  ///< Whether they are in the setting.
  RowIndex problems_;
  RowIndex devices_;
  RowIndex variants_;
};

}  // namespace

LookupRecords read_lookup_records(const SQLite::Database& database,
                                  const std::filesystem::path& path, const Setting& setting,
                                  const std::optional<LookupScope>& scope,
                                  const std::string& objective) {
  return Reader(database, path).read(setting, scope, objective);
}

}  // namespace swr
