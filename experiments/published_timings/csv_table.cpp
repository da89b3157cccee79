// SPDX-License-Identifier: MIT
#include "experiments/published_timings/csv_table.h"

#include "core/files.h"

namespace swr {

CsvTable::CsvTable(const std::filesystem::path& file)
    : file_(file), stream_(read_regular_file(file, kMostBytes)) {
  next();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    columns_[fields_[i]] = i;
  }
}

bool CsvTable::next() {
  std::string line;
  if (!std::getline(stream_, line)) {
    return false;
  }
  ++row_;
  fields_.assign(1, "");
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields_.emplace_back();
    } else {
      fields_.back() += c;
    }
  }
  return true;
}

const std::string& CsvTable::text(const std::string& column) const {
  const auto entry = columns_.find(column);
  if (entry == columns_.end() || entry->second >= fields_.size()) {
    reject("has no column " + column);
  }
  return fields_[entry->second];
}

void CsvTable::reject(const std::string& problem) const {
  throw Error(ErrorCode::unreadable,
              file_.string() + ", line " + std::to_string(row_) + ": " + problem);
}

}  // namespace swr
