// SPDX-License-Identifier: MIT
#include "db/merge.h"

#include "core/reject.h"
#include "db/connection.h"
#include "db/kernels.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/table.h"
#include <swr/error.h>

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <utility>
#include <vector>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// Columns that may become known after a copy of the file was made: when a run ended, what was
/// counted, the spec of a kernel of which older files have the name.
bool comes_later(const std::string& column) {
  static const std::vector<std::string> kCounters = counter_columns();
  static const std::vector<std::string> kAccesses = access_columns();
  static const std::vector<std::string> kEnergy = energy_columns();
  return column == "finished_at" || column == "spec" || column == "spec_digest" ||
         std::ranges::find(kCounters, column) != kCounters.end() ||
         std::ranges::find(kAccesses, column) != kAccesses.end() ||
         std::ranges::find(kEnergy, column) != kEnergy.end();
}

/// A column that names a row of another table, whose id differs between files.
struct Reference {
  std::string column;
  std::string table;
};

/// A table whose rows have ids of their own, and the references among its columns.
struct MergedTable {
  std::string name;
  std::vector<Reference> references;
};

/// In the order in which they refer to each other. `sample` and `finalist` follow `result` and
/// `decision`.
const std::vector<MergedTable>& merged_tables() {
  static const std::vector<MergedTable> kTables{
      {"device", {}},
      {"kernel", {}},
      {"problem", {}},
      {"variant", {}},
      {"run", {}},
      {"result",
       {{"run_id", "run"},
        {"device_id", "device"},
        {"problem_id", "problem"},
        {"variant_id", "variant"}}},
      {"decision",
       {{"run_id", "run"},
        {"device_id", "device"},
        {"problem_id", "problem"},
        {"winner_id", "result"}}},
      {"gpu_reference", {{"run_id", "run"}, {"device_id", "device"}}}};
  return kTables;
}

/// Without digests, which are of the row's place in its file as well.
std::vector<std::string> columns_of(SQLite::Database& database, const std::string& table) {
  std::vector<std::string> columns;
  SQLite::Statement row(database,
                        "SELECT name FROM pragma_table_info(?, 'main') WHERE name NOT IN "
                        "('digest', 'samples_digest', 'finalists_digest')");
  row.bind(1, table);
  while (row.executeStep()) {
    columns.push_back(row.getColumn(0).getString());
  }
  return columns;
}

/// Copies what `main` lacks of the attached database `source` into `main`. Both have the newest
/// schema; columns are taken from it, so that a later schema needs no change here.
class Merger {
 public:
  explicit Merger(SQLite::Database& database) : database_(database) {}

  MergeSummary merge() {
    require_same_kernels();
    MergeSummary summary;
    for (const MergedTable& table : merged_tables()) {
      const std::size_t added = merge(table);
      summary.runs += table.name == "run" ? added : 0;
      summary.results += table.name == "result" ? added : 0;
      summary.decisions += table.name == "decision" ? added : 0;
    }
    update_known_rows();
    for (const MergedTable& table : merged_tables()) {
      database_.exec("DROP TABLE temp." + table.name + "_place");
    }
    return summary;
  }

 private:
  /// A name has letters of the digest, which two specs seldom share by chance.
  void require_same_kernels() {
    SQLite::Statement other(database_,
                            "SELECT t.op FROM main.kernel AS t JOIN source.kernel AS s ON s.op = "
                            "t.op WHERE s.spec_digest <> t.spec_digest");
    if (other.executeStep()) {
      reject("two kernels are called " + other.getColumn(0).getString() +
             " and have different specs; merge databases of one of them");
    }
  }

  /// The expression that gives a column of a source's row `s` the value it has in `main`.
  static std::string value_of(const MergedTable& table, const std::string& column) {
    for (const Reference& reference : table.references) {
      if (reference.column == column) {
        return "(SELECT place FROM temp." + reference.table + "_place WHERE id = s." + column + ")";
      }
    }
    return "s.\"" + column + "\"";
  }

  /// What must be equal for two rows to be one.
  std::string equality(const MergedTable& table) const {
    std::string condition = "true";
    for (const std::string& column : columns_of(database_, table.name)) {
      if (column != "id" && !comes_later(column)) {
        condition += " AND t.\"" + column + "\" IS " + value_of(table, column);
      }
    }
    return condition + (table.name == "result" ? same_samples() : "");
  }

  static std::string same_samples() {
    const std::string s = "SELECT position, time_us FROM source.sample WHERE result_id = s.id";
    const std::string t = "SELECT position, time_us FROM main.sample WHERE result_id = t.id";
    return " AND NOT EXISTS (" + s + " EXCEPT " + t + ") AND NOT EXISTS (" + t + " EXCEPT " + s +
           ")";
  }

  /// Fills NAME_place: for every id of the source the id in `main`, and whether it is new there.
  std::size_t merge(const MergedTable& table) {
    const std::string& name = table.name;
    const std::string place = "temp." + name + "_place";
    database_.exec("CREATE TEMP TABLE " + name +
                   "_place (id INTEGER PRIMARY KEY, place INTEGER, is_new INTEGER)");
    database_.exec("INSERT INTO " + place + " SELECT s.id, (SELECT min(t.id) FROM main." + name +
                   " AS t WHERE " + equality(table) + "), 0 FROM source." + name + " AS s");
    database_.exec("UPDATE " + place +
                   " SET is_new = 1, place = numbered.place FROM (SELECT id, "
                   "row_number() OVER (ORDER BY id) + (SELECT coalesce(max(id), 0) FROM main." +
                   name + ") AS place FROM " + place + " WHERE place IS NULL) AS numbered WHERE " +
                   name + "_place.id = numbered.id");
    insert_new(table);
    return static_cast<std::size_t>(
        database_.execAndGet("SELECT count(*) FROM " + place + " WHERE is_new").getInt64());
  }

  void insert_new(const MergedTable& table) {
    std::string names;
    std::string values;
    for (const std::string& column : columns_of(database_, table.name)) {
      names += (names.empty() ? "\"" : ", \"") + column + "\"";
      values += (values.empty() ? "" : ", ") +
                (column == "id" ? std::string("p.place") : value_of(table, column));
    }
    const std::string from = " JOIN temp." + table.name + "_place AS p ON p.is_new AND p.id = ";
    database_.exec("INSERT INTO main." + table.name + " (" + names + ") SELECT " + values +
                   " FROM source." + table.name + " AS s" + from + "s.id ORDER BY p.place");
    if (table.name == "result") {
      insert_parts("sample", "result", {});
    } else if (table.name == "decision") {
      insert_parts("finalist", "decision", {{"result_id", "result"}});
    }
  }

  /// Rows that belong to a new row of `owner`.
  void insert_parts(const std::string& parts, const std::string& owner,
                    const std::vector<Reference>& references) {
    std::string names;
    std::string values;
    for (const std::string& column : columns_of(database_, parts)) {
      names += (names.empty() ? "\"" : ", \"") + column + "\"";
      values += (values.empty() ? "" : ", ") + (column == owner + "_id"
                                                    ? std::string("p.place")
                                                    : value_of({parts, references}, column));
    }
    database_.exec("INSERT INTO main." + parts + " (" + names + ") SELECT " + values +
                   " FROM source." + parts + " AS s JOIN temp." + owner +
                   "_place AS p ON p.is_new AND p.id = s." + owner + "_id");
  }

  void update_known_rows() {
    database_.exec(
        "UPDATE main.run SET finished_at = s.finished_at, digest = NULL FROM source.run AS s "
        "JOIN temp.run_place AS p ON p.id = s.id WHERE main.run.id = p.place "
        "AND main.run.finished_at IS NULL");
    database_.exec(
        "UPDATE main.kernel SET spec = s.spec, spec_digest = s.spec_digest, digest = NULL "
        "FROM source.kernel AS s WHERE s.op = main.kernel.op AND main.kernel.spec IS NULL "
        "AND s.spec IS NOT NULL");
    add_to_waiting(counter_columns(), "sectors_demanded");
    add_to_waiting(access_columns(), "accesses_missing_because");
    add_to_waiting(energy_columns(), "energy_missing_because");
  }

  /// Copies columns that came later, to rows where `awaited` is NULL.
  void add_to_waiting(const std::vector<std::string>& columns, const std::string& awaited) {
    std::string assigned = "digest = NULL";
    for (const std::string& column : columns) {
      assigned += ", " + column + " = s." + column;
    }
    database_.exec("UPDATE main.result SET " + assigned +
                   " FROM source.result AS s JOIN temp.result_place AS p ON p.id = s.id "
                   "WHERE main.result.id = p.place AND main.result." +
                   awaited + " IS NULL AND s." + awaited + " IS NOT NULL");
  }

  SQLite::Database& database_;
};

/// Gives the rows of a table new ids in an order, and everything that refers to them. The ids are
/// negative meanwhile, so that none is there twice.
void renumber(SQLite::Database& database, const std::string& table, const std::string& ordered_rows,
              const std::vector<std::pair<std::string, std::string>>& referring) {
  database.exec("CREATE TEMP TABLE new_id (id INTEGER PRIMARY KEY, place INTEGER)");
  database.exec("INSERT INTO temp.new_id SELECT id, row_number() OVER (ORDER BY " + ordered_rows);
  auto columns = referring;
  columns.emplace_back(table, "id");
  for (const auto& [name, column] : columns) {
    const std::string update = "UPDATE main." + name + " SET " + column + " = ";
    database.exec(update + "-(SELECT place FROM temp.new_id WHERE new_id.id = " + name + "." +
                  column + ")");
    database.exec(update + "-" + column);
  }
  database.exec("DROP TABLE temp.new_id");
}

/// The newest row counts, and ids say which is: where rows of an earlier run came after those of a
/// later one, all are numbered anew.
void put_in_order(SQLite::Database& database) {
  const bool in_order =
      database
          .execAndGet(
              "SELECT NOT EXISTS (SELECT 1 FROM (SELECT run.started_at, lag(run.started_at)"
              " OVER (ORDER BY result.id) AS before FROM main.result JOIN main.run "
              "ON run.id = result.run_id) WHERE before > started_at) AND NOT EXISTS "
              "(SELECT 1 FROM (SELECT started_at, lag(started_at) OVER (ORDER BY id) AS "
              "before FROM main.run) WHERE before > started_at)")
          .getInt() == 1;
  if (in_order) {
    return;
  }
  unseal_rows(database);
  renumber(database, "run", "started_at, id) FROM main.run",
           {{"result", "run_id"}, {"decision", "run_id"}, {"gpu_reference", "run_id"}});
  renumber(database, "result", "run_id, id) FROM main.result",
           {{"sample", "result_id"}, {"finalist", "result_id"}, {"decision", "winner_id"}});
  renumber(database, "decision", "run_id, id) FROM main.decision", {{"finalist", "decision_id"}});
  renumber(database, "gpu_reference", "run_id, id) FROM main.gpu_reference", {});
}

/// Attaches a copy of `from` as `source`, and merges it in one transaction.
MergeSummary merge_into(SQLite::Database& database, SQLite::Database& from) {
  database.exec("ATTACH '' AS source");
  if (SQLite::Backup(database, "source", from, "main").executeStep() != SQLITE_DONE) {
    throw SQLite::Exception("a source is being written", SQLITE_BUSY);
  }
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  const MergeSummary summary = Merger(database).merge();
  if (summary.results + summary.decisions + summary.runs > 0) {
    put_in_order(database);
  }
  write_operation_views(database);
  seal_rows(database);
  transaction.commit();
  database.exec("DETACH source");
  return summary;
}

[[noreturn]] void reject_damaged(const fs::path& path, const std::string& finding) {
  throw Error(ErrorCode::unreadable,
              "database " + path.string() + " is damaged (" + finding +
                  "); save what is left with `sqlite3 FILE .recover`, and merge that");
}

/// Every page and every value, before anything is copied.
void require_sound(SQLite::Database& database, const fs::path& path) {
  const std::string finding = database.execAndGet("PRAGMA integrity_check(1)").getString();
  if (finding != "ok") {
    reject_damaged(path, finding);
  }
  require_intact_rows(database, path);
  SQLite::Statement orphan(database, "PRAGMA foreign_key_check");
  if (orphan.executeStep()) {
    reject_damaged(path, "a row of table " + orphan.getColumn(0).getString() +
                             " refers to one that is not there");
  }
  const std::string readable = is_readable_row(database);
  SQLite::Statement problem(database, "SELECT * FROM problem WHERE " + readable);
  while (problem.executeStep()) {
    read_problem(problem, {path, "problem"});
  }
  SQLite::Statement variant(database, "SELECT * FROM variant WHERE " + readable);
  while (variant.executeStep()) {
    read_variant(variant, {path, "variant"});
  }
  SQLite::Statement result(database, "SELECT result.*, " + variant_columns() +
                                         " FROM result JOIN variant ON variant.id = variant_id "
                                         "WHERE " +
                                         readable);
  while (result.executeStep()) {
    read_result(result, {path, "result"});
  }
  SQLite::Statement reference(database, "SELECT * FROM gpu_reference");
  while (reference.executeStep()) {
    read_reference(reference, {path, "gpu_reference"});
  }
  SQLite::Statement sample(database, "SELECT result_id, position, time_us FROM sample");
  while (sample.executeStep()) {
    read_sample(sample, {path, "sample"});
  }
}

/// A device, and the versions and options of a run with results on it.
struct RunEnvironment {
  DeviceInfo device;
  Provenance provenance = Provenance::measured;
  RunInfo run;
};

struct FileEnvironments {
  std::filesystem::path path;
  std::vector<RunEnvironment> environments;
};

struct Difference {
  std::string what;
  std::string a;
  std::string b;
};

/// Where the two may not be compared. Runs that came from elsewhere say no conditions.
std::optional<Difference> find_difference(const RunInfo& a, const RunInfo& b) {
  const Difference candidates[] = {{"templates", a.templates_digest, b.templates_digest},
                                   {"NVRTC", a.nvrtc_version, b.nvrtc_version},
                                   {"driver", a.driver_version, b.driver_version},
                                   {"L2 state", a.l2_state, b.l2_state}};
  for (const Difference& candidate : candidates) {
    if (candidate.a != candidate.b) {
      return candidate;
    }
  }
  if (!a.conditions.empty() && !b.conditions.empty() && a.conditions != b.conditions) {
    return Difference{"conditions", a.conditions, b.conditions};
  }
  return std::nullopt;
}

bool are_compared(const RunEnvironment& a, const RunEnvironment& b) {
  return a.provenance == b.provenance && same_device(a.device, b.device);
}

bool holds(const FileEnvironments& file, const RunEnvironment& wanted) {
  return std::ranges::any_of(file.environments, [&](const RunEnvironment& held) {
    return are_compared(held, wanted) && !find_difference(held.run, wanted.run);
  });
}

bool held_together(const std::vector<FileEnvironments>& files, const RunEnvironment& a,
                   const RunEnvironment& b) {
  return std::ranges::any_of(
      files, [&](const FileEnvironments& file) { return holds(file, a) && holds(file, b); });
}

/// A digest's beginning tells it from others.
std::string shown(const std::string& value) {
  constexpr std::size_t kDigestLetters = 64;
  constexpr std::size_t kShownLetters = 12;
  const std::string text = value.empty() ? "none" : value;
  return text.size() == kDigestLetters ? text.substr(0, kShownLetters) : text;
}

void require_comparable(const std::vector<FileEnvironments>& files, const FileEnvironments& first,
                        const FileEnvironments& second) {
  for (const RunEnvironment& a : first.environments) {
    for (const RunEnvironment& b : second.environments) {
      const auto difference = find_difference(a.run, b.run);
      if (difference && are_compared(a, b) && !held_together(files, a, b)) {
        reject("results of " + a.device.name + " in " + first.path.string() + " and " +
               second.path.string() + " are not comparable: " + difference->what + " differ (" +
               shown(difference->a) + ", " + shown(difference->b) +
               "); keep them in files of their own, or tune again alike");
      }
    }
  }
}

std::map<long long, DeviceInfo> read_devices(const SQLite::Database& database,
                                             const std::filesystem::path& path) {
  std::map<long long, DeviceInfo> devices;
  SQLite::Statement row(database, "SELECT * FROM device");
  while (row.executeStep()) {
    devices.emplace(row.getColumn("id").getInt64(), read_device(row, {path, "device"}));
  }
  return devices;
}

std::map<long long, RunInfo> read_runs(const SQLite::Database& database,
                                       const std::filesystem::path& path) {
  std::map<long long, RunInfo> runs;
  SQLite::Statement row(database, "SELECT * FROM run");
  while (row.executeStep()) {
    runs.emplace(row.getColumn("id").getInt64(), read_run(row, {path, "run"}));
  }
  return runs;
}

FileEnvironments read_environments(const SQLite::Database& database,
                                   const std::filesystem::path& path) {
  const auto devices = read_devices(database, path);
  const auto runs = read_runs(database, path);
  FileEnvironments file{path, {}};
  SQLite::Statement row(database,
                        "SELECT DISTINCT run_id, device_id, provenance = 'measured' FROM result "
                        "ORDER BY run_id, device_id");
  while (row.executeStep()) {
    const auto provenance =
        row.getColumn(2).getInt() == 1 ? Provenance::measured : Provenance::predicted;
    const RunEnvironment environment{devices.at(row.getColumn(1).getInt64()), provenance,
                                     runs.at(row.getColumn(0).getInt64())};
    const bool is_known = std::ranges::any_of(file.environments, [&](const RunEnvironment& held) {
      return are_compared(held, environment) && !find_difference(held.run, environment.run) &&
             held.run.conditions == environment.run.conditions;
    });
    if (!is_known) {
      file.environments.push_back(environment);
    }
  }
  return file;
}

/// Results of one device that differ in templates, NVRTC, driver, L2 state or conditions are not
/// comparable; results of different devices are never compared. A file that holds both already may
/// be merged with a file of either.
/// Throws: Error{invalid_argument} naming the files, the device and what differs.
void require_comparable(const std::vector<FileEnvironments>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = i + 1; j < files.size(); ++j) {
      require_comparable(files, files[i], files[j]);
    }
  }
}

/// All the sources as one database, which lies in a temporary file.
class Staging {
 public:
  explicit Staging(std::span<const fs::path> sources)
      : database_("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    add_digest_functions(database_);
    for (const fs::path& path : sources) {
      add(path);
    }
  }

  SQLite::Database& database() { return database_; }
  Store::Content content() const { return content_.value(); }
  std::vector<FileEnvironments>& environments() { return environments_; }

 private:
  void add(const fs::path& path) {
    SQLite::Database source = open_database(path, Store::Mode::read_only, content_);
    with_database_errors(path, [&] {
      if (!content_) {
        content_ = content_of(source);
        create_schema(database_, "in memory", *content_);
      }
      require_sound(source, path);
      environments_.push_back(read_environments(source, path));
    });
    with_database_errors("of the merge in the temporary directory",
                         [&] { merge_into(database_, source); });
  }

  SQLite::Database database_;
  std::optional<Store::Content> content_;
  std::vector<FileEnvironments> environments_;
};

/// Removes a file that was not there before, unless everything went well.
class NewFile {
 public:
  explicit NewFile(const fs::path& path) : path_(path), existed_(fs::exists(path)) {}
  ~NewFile() {
    std::error_code not_there;
    for (const char* suffix : {"", "-wal", "-shm"}) {
      if (!existed_ && !is_kept_) {
        fs::remove(path_.string() + suffix, not_there);
      }
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void keep() { is_kept_ = true; }

 private:
  fs::path path_;
  bool existed_;
  bool is_kept_ = false;
};

MergeSummary merge_staged(const fs::path& out, Staging& staging) {
  SQLite::Database database = open_exclusively(out, staging.content());
  return with_database_errors(out, [&] {
    require_sound(database, out);
    staging.environments().push_back(read_environments(database, out));
    require_comparable(staging.environments());
    // The machine may lose power as soon as the workers' files are deleted.
    database.exec("PRAGMA synchronous = FULL");
    MergeSummary summary = merge_into(database, staging.database());
    const auto ahead = database.execAndGet(
        "SELECT count(*) FROM run WHERE started_at > "
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 day')");
    summary.runs_ahead = static_cast<std::size_t>(ahead.getInt64());
    return summary;
  });
}

}  // namespace

MergeSummary merge_databases(const fs::path& out, std::span<const fs::path> sources) {
  std::vector<fs::path> others;
  std::ranges::copy_if(sources, std::back_inserter(others), [&](const fs::path& source) {
    std::error_code not_there;
    return !fs::equivalent(source, out, not_there);
  });
  if (others.empty()) {
    reject("there is nothing to merge into " + out.string() + "; name other databases");
  }
  Staging staging(others);
  require_comparable(staging.environments());
  NewFile file(out);
  const MergeSummary summary = merge_staged(out, staging);
  file.keep();
  return summary;
}

}  // namespace swr
