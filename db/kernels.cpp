// SPDX-License-Identifier: MIT
#include "db/kernels.h"

#include "db/rows.h"
#include <swr/problem.h>

#include <SQLiteCpp/Statement.h>

#include <algorithm>

namespace swr {
namespace {

/// As a name of SQL, or as a text: the quotation marks differ.
std::string in_quotes(std::string_view text, char mark) {
  std::string result(1, mark);
  for (const char c : text) {
    result += c == mark ? std::string(2, mark) : std::string(1, c);
  }
  return result + mark;
}

std::string member(const char* object, const Field& field) {
  return "json_extract(" + std::string(object) + ", " +
         in_quotes("$.\"" + std::string(field.name) + "\"", '\'') + ")";
}

/// `usual` are the operation's default members.
std::string value_of(const char* object, const Field& field, const void* usual) {
  const std::string stored = member(object, field);
  if (!field.came_later) {
    return stored;
  }
  const int value = field.read(usual);
  return "coalesce(" + stored + ", " +
         (field.is_text() ? in_quotes(field.spellings[static_cast<std::size_t>(value)], '\'')
                          : std::to_string(value)) +
         ")";
}

std::string axis_value(const Operation& operation, const Axis& axis) {
  const std::string value = value_of("axes", axis, operation.default_axes().members());
  if (!axis.came_later || !axis.only) {
    return value;
  }
  return "CASE WHEN " + member("axes", operation.axes().front()) + " = " +
         in_quotes(to_string(*axis.only), '\'') + " THEN " + value + " END";
}

std::string column(const std::string& value, const Field& field) {
  return "  " + value + " AS " + in_quotes(field.name, '"') + ",\n";
}

std::string stored_sql(SQLite::Database& database, const std::string& name) {
  SQLite::Statement row(database, "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?");
  row.bind(1, name);
  return row.executeStep() ? row.getColumn(0).getString() : "";
}

bool is_current(SQLite::Database& database, const Operation& operation) {
  return stored_sql(database, view_name(operation)) == view_sql(operation);
}

/// A process may know kernels of other files.
std::vector<const Operation*> viewed_operations(SQLite::Database& database) {
  std::vector<const Operation*> viewed = operations_of_swr();
  for (const Operation* const kernel : kernels_of(database)) {
    viewed.push_back(kernel);
  }
  return viewed;
}

/// What the process has for each kernel's operation, which may be nothing.
std::vector<std::pair<std::string, const Operation*>> all_kernels(
    const SQLite::Database& database) {
  std::vector<std::pair<std::string, const Operation*>> all;
  SQLite::Statement row(database, "SELECT op FROM main.kernel ORDER BY op");
  while (row.executeStep()) {
    const std::string op = row.getColumn(0).getString();
    all.emplace_back(op, find_operation_or_null(op));
  }
  return all;
}

}  // namespace

void keep_kernel(SQLite::Database& database, const Operation& operation) {
  if (operation.source_digest().empty()) {
    return;
  }
  const Cell op = std::string(operation.name());
  const auto known = find_row(database, "kernel", {{"op", op}});
  if (known && !has_cells(database, "kernel", *known, {{"spec", std::monostate{}}})) {
    return;
  }
  const Cells spec{{"spec_digest", operation.source_digest()},
                   {"spec", operation.stored_text()},
                   {"digest", std::monostate{}}};
  if (known) {
    update_row(database, "kernel", spec, {{"id", *known}});
  } else {
    Cells cells = spec;
    cells.push_back({"op", op});
    insert_row(database, "kernel", cells);
  }
  write_operation_view(database, operation);
}

void restore_kernels(SQLite::Database& database, const std::filesystem::path& path) {
  SQLite::Statement row(database,
                        "SELECT id, op, spec_digest, spec FROM main.kernel WHERE spec IS NOT NULL "
                        "ORDER BY op IN (SELECT op FROM main.problem) DESC, id DESC");
  while (row.executeStep()) {
    const bool has_room = read_row_named(
        [&] { return row.getColumn(0).getString(); }, {path, "kernel"},
        [&] {
          return restore_operation(row.getColumn(1).getString(), row.getColumn(2).getString(),
                                   row.getColumn(3).getString()) != nullptr;
        });
    if (!has_room) {
      return;
    }
  }
}

std::vector<const Operation*> kernels_of(const SQLite::Database& database) {
  std::vector<const Operation*> known;
  for (const auto& [op, operation] : all_kernels(database)) {
    if (operation != nullptr) {
      known.push_back(operation);
    }
  }
  return known;
}

std::vector<std::string> unknown_kernels(const SQLite::Database& database) {
  std::vector<std::string> unknown;
  for (const auto& [op, operation] : all_kernels(database)) {
    if (operation == nullptr) {
      unknown.push_back(op);
    }
  }
  return unknown;
}

std::string is_readable_row(const SQLite::Database& database) {
  std::string names;
  for (const std::string& op : unknown_kernels(database)) {
    names += (names.empty() ? "" : ", ") + in_quotes(op, '\'');
  }
  return names.empty() ? "true" : "op NOT IN (" + names + ")";
}

std::string view_name(const Operation& operation) {
  return std::string(operation.name()) + "_results";
}

std::string view_sql(const Operation& operation) {
  std::string columns;
  for (const ProblemField& field : operation.fields()) {
    columns += column(value_of(field.role == FieldRole::kind ? "kind" : "sizes", field,
                               operation.default_problem().members()),
                      field);
  }
  for (const Axis& axis : operation.axes()) {
    columns += column(axis_value(operation, axis), axis);
  }
  return "CREATE VIEW " + in_quotes(view_name(operation), '"') + " AS SELECT\n" + columns +
         "  all_results.*\nFROM all_results WHERE op = " + in_quotes(operation.name(), '\'');
}

bool has_operation_views(SQLite::Database& database) {
  return std::ranges::all_of(viewed_operations(database), [&](const Operation* operation) {
    return is_current(database, *operation);
  });
}

void write_operation_views(SQLite::Database& database) {
  for (const Operation* const operation : viewed_operations(database)) {
    write_operation_view(database, *operation);
  }
}

void write_operation_view(SQLite::Database& database, const Operation& operation) {
  if (!is_current(database, operation)) {
    database.exec("DROP VIEW IF EXISTS " + in_quotes(view_name(operation), '"'));
    database.exec(view_sql(operation));
  }
}

}  // namespace swr
