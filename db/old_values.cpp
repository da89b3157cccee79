// SPDX-License-Identifier: MIT
#include "db/old_values.h"

#include "core/enum_text.h"
#include "db/row_source.h"
#include "db/rows.h"

#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swr {
namespace {

/// A column that names a row of another table.
struct Referring {
  std::string table;
  std::string column;
};

Json json_of(const SQLite::Column& value) {
  if (value.isInteger()) {
    return static_cast<long long>(value.getInt64());
  }
  return value.isText() ? Json(value.getString()) : Json();
}

bool has_column(const SQLite::Statement& row, const std::string& name) {
  for (int i = 0; i < row.getColumnCount(); ++i) {
    if (name == row.getColumnName(i)) {
      return true;
    }
  }
  return false;
}

/// Adds the column of that name to an object. What came after the old schemas is not there.
void add_column(Json& json, SQLite::Statement& row, const Field& field) {
  const std::string name(field.name);
  if (has_column(row, name)) {
    json[name] = json_of(row.getColumn(name.c_str()));
  }
}

const Operation& operation_of(SQLite::Statement& row) {
  return find_operation(row.getColumn("op").getString());
}

Cells problem_cells(SQLite::Statement& row) {
  const Operation& operation = operation_of(row);
  Json kind = Json::object();
  Json sizes = Json::object();
  for (const ProblemField& field : fields(operation)) {
    add_column(field.role == FieldRole::kind ? kind : sizes, row, field);
  }
  return to_cells(problem_from_members(operation, kind, sizes));
}

/// Axes of other families have no meaning.
Cells variant_cells(SQLite::Statement& row) {
  const Operation& operation = operation_of(row);
  const Axis& family_axis = axes(operation).front();
  Json family = Json::object();
  add_column(family, row, family_axis);
  const int family_number =
      parse_enum<int>(family_axis.spellings, json_text(family, family_axis.name), family_axis.name);
  Json json = Json::object();
  for (const Axis& axis : axes(operation)) {
    if (axis.belongs_to(static_cast<Family>(family_number))) {
      add_column(json, row, axis);
    }
  }
  return to_cells(variant_from_members(operation, json));
}

template <typename ToCells>
void carry_over(SQLite::Database& database, const RowSource& source,
                const std::vector<Referring>& references, ToCells&& to_cells_of) {
  const std::string table(source.table);
  SQLite::Statement row(database, "SELECT * FROM temp.old_" + table + " ORDER BY id");
  while (row.executeStep()) {
    const long long id = row.getColumn("id").getInt64();
    Cells cells = read_row_named([id] { return std::to_string(id); }, source,
                                 [&] { return to_cells_of(row); });
    if (const auto first = find_row(database, table, cells)) {
      for (const Referring& from : references) {
        update_row(database, from.table, {{from.column, *first}}, {{from.column, id}});
      }
      continue;
    }
    cells.push_back({"id", id});
    insert_row(database, table, cells);
  }
}

}  // namespace

void carry_old_values_over(SQLite::Database& database, const std::filesystem::path& path) {
  carry_over(database, {path, "problem"}, {{"result", "problem_id"}, {"decision", "problem_id"}},
             problem_cells);
  carry_over(database, {path, "variant"}, {{"result", "variant_id"}}, variant_cells);
  database.exec("DROP TABLE temp.old_problem; DROP TABLE temp.old_variant");
}

}  // namespace swr
