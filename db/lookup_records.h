// SPDX-License-Identifier: MIT
// Reads from an open database what takes part in the choice of the best variant.
#pragma once

#include "db/lookup_table.h"

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <optional>

namespace swr {

/// Limits what is read further, to what may answer one question.
struct LookupScope {
  Problem problem;  ///< Problems of this kind.
  int sm_arch = 0;  ///< Devices of this architecture.
};

/// The results of one setting; of an objective beside time, those that won by it. `path` is for
/// messages. Reads one state of the database. Throws: Error{unreadable} naming the row whose values
/// cannot be believed; SQLite::Exception.
LookupRecords read_lookup_records(const SQLite::Database& database,
                                  const std::filesystem::path& path, const Setting& setting,
                                  const std::optional<LookupScope>& scope = std::nullopt,
                                  const std::string& objective = std::string(kTimeObjective));

}  // namespace swr
