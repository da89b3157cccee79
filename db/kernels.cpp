// SPDX-License-Identifier: MIT
#include "db/kernels.h"

#include "db/operation_views.h"
#include "db/row_source.h"
#include "db/table.h"
#include <swr/problem.h>

#include <SQLiteCpp/Statement.h>

namespace swr {
namespace {

std::string in_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "''" : std::string(1, c);
  }
  return quoted + "'";
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
    names += (names.empty() ? "" : ", ") + in_quotes(op);
  }
  return names.empty() ? "true" : "op NOT IN (" + names + ")";
}

}  // namespace swr
