// SPDX-License-Identifier: MIT
// Where a row was read, and the error of one whose values cannot be believed.
#pragma once

#include <swr/error.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace swr {

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

}  // namespace swr
